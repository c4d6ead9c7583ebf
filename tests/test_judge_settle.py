"""Settling a check: what was not seen becomes a row of its own, and rows join so that nothing is masked."""

from __future__ import annotations

import math
from typing import Any, get_args

import pytest

from gpuassay.judge.fact import Absence, Read, Unread
from gpuassay.judge.verdict import Verdict
from judging import CHECK, Node, Thing, bench, gpu, judged, pool, silent, table, values, words

N1, N2 = Node("n1"), Node("n2")
NO_GPU: dict[str, bool] = {}
ONE = {"value": 1}
GPUS = 'has = ["gpu"]'


# --- single values -------------------------------------------------------------------------------


def test_what_was_seen_in_order_passes() -> None:
    """A pass counts its observations, and its row has place, value, reference and evidence."""
    found = judged(
        bench(table("value = { is_of = 'subject.rated' }"), N1), values([N1], Read(8, "nodes/n1#4"))
    )

    assert (found.verdict, found.reason, found.applicable) == (Verdict.PASS, "1 observations", True)
    row = found.rows[0]
    assert (row.where, row.node, row.metric) == ("n1/gpu0", "n1", "value")
    assert (row.value, row.reference, row.evidence) == (8, 8, "nodes/n1#4")


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        ("not_asked", None),
        ("denied", Verdict.UNSEEN),
        ("not_found", Verdict.ERROR),
        ("timed_out", Verdict.ERROR),
        ("failed", Verdict.ERROR),
        ("garbled", Verdict.ERROR),
        ("unsupported", Verdict.ERROR),
    ],
)
def test_an_unread_value_never_passes(kind: Absence, verdict: Verdict | None) -> None:
    """Each kind of absence has its verdict, and the reading's own reason and evidence."""
    found = judged(bench(table(), N1), values([N1], Unread(kind, "that is why", "nodes/n1#4")))

    assert found.verdict is verdict
    assert "that is why" in found.reason
    assert (found.rows[0].value, found.rows[0].evidence) == (None, "nodes/n1#4")
    assert found.cells_judged == 0


def test_every_kind_of_absence_is_known() -> None:
    """A new kind cannot be forgotten: it would stop every audit in which it occurs."""
    for kind in get_args(Absence):
        judged(bench(table(), N1), values([N1], Unread(kind, "why")))


def test_an_unsupported_value_is_skipped_only_where_the_product_is_known_to_lack_it() -> None:
    """`[N/A]` on a B200 is an error; on a product whose table says that it has no such thing, a skip."""
    absent = Unread("unsupported", "[N/A]")
    lacking = judged(bench(table(), N1), values([N1], absent, models=("1002:75a3",)))
    assert (lacking.verdict, lacking.rows[0].reason) == (
        Verdict.SKIP,
        "N/A, and mi355x has none ([accelerator.mi355x] lacks)",
    )
    for models in (("NVIDIA B200",), ("NVIDIA B999",), ()):
        assert judged(bench(table(), N1), values([N1], absent, models=models)).verdict is Verdict.ERROR


@pytest.mark.parametrize(
    ("models", "says"),
    [
        (("NVIDIA B999", "10de:2fff"), "unknown product NVIDIA B999 / 10de:2fff"),
        ((), "neither a name nor a PCI id was read"),
        (("NVIDIA B200", "1002:75a3"), "[accelerator.b200] and [accelerator.mi355x]"),
    ],
)
def test_an_unknown_gpu_is_never_judged(models: tuple[str, ...], says: str) -> None:
    """What is not known to be some product cannot be certified, though the limit needs no figure of it."""
    found = judged(bench(table(), N1), values([N1], 1, models=models))

    assert found.verdict is Verdict.ERROR
    assert says in found.reason


@pytest.mark.parametrize(
    "value", [None, object(), [1], {}, b"1", Read(None), Read([]), math.nan, -math.inf, "1", True]
)
def test_what_is_no_value_or_of_another_kind_is_an_error(value: Any) -> None:
    """None, an object, NaN, a text for a number, true for 1: all are said, and none passes."""
    found = judged(bench(table(), N1), values([N1], value))

    assert found.verdict is Verdict.ERROR
    assert found.reason.startswith("n1/gpu0: value ")


def test_a_metric_without_a_limit_is_an_error() -> None:
    """It may be computed at run time, where reading the sources cannot find it."""
    found = judged(bench(table(), N1), [(gpu("n1"), {"value": 1, "other": 1})])

    assert (found.verdict, found.reason) == (Verdict.ERROR, "n1/gpu0: audit.a.b has no limit for other")


def test_a_note_is_told_where_something_is_wrong() -> None:
    """What a fact says beside its value explains a fail and does not clutter a pass."""
    wrong, right = Read(2, note="gpu3: fell off the bus"), Read(1, note="all there")

    assert judged(bench(table(), N1), values([N1], wrong)).reason.endswith(" — gpu3: fell off the bus")
    assert "all there" not in judged(bench(table(), N1), values([N1], right)).rows[0].reason


# --- what is missing -----------------------------------------------------------------------------


def test_a_check_that_observes_nothing_is_an_error() -> None:
    """On the nodes that it was asked of, and also where it belongs to the cluster as a whole."""
    assert judged(bench(table(), N1)).reason == "n1: value: 0 of 1 gpus observed"
    shared = judged(bench(table(over="cluster"), N1))
    assert (shared.verdict, shared.reason) == (Verdict.ERROR, "cluster: value was not observed")


def test_each_metric_of_the_cluster_must_have_been_observed() -> None:
    """A check of the cluster that leaves one of its metrics out has not done its work."""
    on = bench(table("value = { is = 1 }\nother = { is = 1 }", over="cluster"), N1)
    found = judged(on, [(Thing("", "", ()), ONE)])

    assert (found.verdict, found.reason) == (Verdict.ERROR, "cluster: other was not observed")


def test_what_a_mute_witness_may_have_hidden_takes_its_reason() -> None:
    """Declared and not shown, as the bus may not be read: unseen. What the driver showed is an error."""
    denied = Unread("denied", "Permission denied", "nodes/n1#8")
    pools = pool("n1", GPUS, "gpus = 8")
    hidden = Node("n1", counts={"bus": denied, "driver": 0})
    found = judged(bench(table(), hidden, pools=pools))
    assert (found.verdict, found.rows[0].evidence) == (Verdict.UNSEEN, "nodes/n1#8")
    assert found.reason == "n1: value: 0 of 8 gpus observed: Permission denied"

    shown = Node("n1", counts={"bus": denied, "driver": 8})
    assert judged(bench(table(), shown, pools=pools)).verdict is Verdict.ERROR


@pytest.mark.parametrize(
    ("counts", "declared"),
    [
        ({"bus": 8, "driver": 7}, ""),
        ({"bus": 7, "driver": 8}, ""),
        ({"bus": 7, "driver": 7}, "gpus = 8"),
        ({}, "gpus = 8"),
        ({"bus": 8, "driver": 8}, "gpus = 7"),
    ],
)
def test_the_most_that_anybody_knows_of_must_have_been_seen(counts: dict[str, int], declared: str) -> None:
    """Contract, bus and driver may each know of a GPU that the others do not: none of them hides it."""
    node = Node("n1", counts=counts)
    pools = pool("n1", GPUS, declared) if declared else ""
    found = judged(bench(table(), node, pools=pools), values([node], *[1] * 7))

    assert (found.verdict, found.reason) == (Verdict.ERROR, "n1: value: 7 of 8 gpus observed")
    assert (found.cells_expected, found.cells_judged) == (8, 7)


def test_each_metric_must_have_been_seen_of_each_subject() -> None:
    """A GPU that was asked for one thing and not for the other is missing in the other."""
    node = Node("n1", counts={"bus": 2})
    on = bench(table("value = { is = 1 }\nother = { is = 1 }"), node)
    found = judged(on, [(gpu("n1", 0), {"value": 1, "other": 1}), (gpu("n1", 1), {"value": 1})])

    assert found.reason == "n1: other: 1 of 2 gpus observed"


def test_one_subject_observed_twice_is_one() -> None:
    """Nobody makes up for a missing GPU by observing another one again."""
    node = Node("n1", counts={"bus": 2})
    found = judged(bench(table(), node), [(gpu("n1"), ONE), (gpu("n1"), ONE)])

    assert found.reason == "n1: value: 1 of 2 gpus observed"


def test_a_count_that_one_witness_cannot_tell_is_open() -> None:
    """The driver has seven, and the bus cannot be read: there may be eight, unless the contract says so."""
    node = Node("n1", counts={"bus": Unread("garbled", "no tree", "nodes/n1#8"), "driver": 7})
    found = judged(bench(table(), node), values([node], *[1] * 7))
    assert found.verdict is Verdict.ERROR
    assert found.reason == "n1: how many gpus it has could not be told: no tree"
    assert found.cells_expected > found.cells_judged

    sure = judged(bench(table(), node, pools=pool("n1", GPUS, "gpus = 7")), values([node], *[1] * 7))
    assert sure.verdict is Verdict.PASS


def test_a_node_that_shows_no_gpu_beside_peers_is_an_error() -> None:
    """It must have at least one: it has lost them all."""
    bare = Node("n2", NO_GPU, {"bus": 0})
    found = judged(bench(table(needs=["gpu"]), N1, bare), values([N1], 1))

    assert (found.verdict, found.reason) == (Verdict.ERROR, "n2: value: 0 of 1 gpus observed")


def test_a_silent_node_is_an_error_that_counts_all_it_would_have_shown() -> None:
    """Eight declared GPUs times two metrics were expected of it, and none was judged."""
    on = bench(
        table("value = { is = 1 }\nother = { is = 1 }"),
        silent("n1"),
        pools=pool("n1", GPUS, "gpus = 8"),
    )
    found = judged(on)

    assert (found.verdict, found.reason) == (Verdict.ERROR, "n1: silent: no evidence from this node")
    assert (found.cells_expected, found.cells_judged) == (16, 0)


def test_what_is_said_of_a_silent_node_does_not_count() -> None:
    """An observation on it can only be made up."""
    found = judged(bench(table(), silent("n1"), N2), values([Node("n1"), N2], 1, 1))

    assert words(found.rows) == ["pass", "error"]


def test_a_node_of_which_it_cannot_be_told_whether_the_check_applies_is_an_error() -> None:
    """A need that could not be read is no ground to skip, and its evidence is named."""
    unread = Unread("timed_out", "the bus hangs", "nodes/n1#8")
    found = judged(bench(table(needs=["gpu"]), Node("n1", {"gpu": unread})))

    assert (found.verdict, found.rows[0].evidence) == (Verdict.ERROR, "nodes/n1#8")
    assert found.reason == "n1: whether it has gpu could not be told: the bus hangs"


@pytest.mark.parametrize("over", ["gpu", "node", "cluster"])
def test_a_subject_of_no_node_in_service_is_an_error(over: str) -> None:
    """A check cannot pass on something that nobody declared and that is not there."""
    seen = [(gpu("n1"), ONE), (Thing("ghost", "ghost"), ONE)]
    found = judged(bench(table(over=over), N1), seen)

    assert found.verdict is Verdict.ERROR
    assert found.reason == "ghost: value was observed on ghost, which is no node in service"


def test_only_a_check_of_the_cluster_observes_the_cluster() -> None:
    """A check over GPUs that passes on the cluster as a whole has seen no GPU."""
    whole = [(Thing("", "", ()), ONE)]
    assert judged(bench(table(over="cluster"), N1), whole).verdict is Verdict.PASS
    found = judged(bench(table(), Node("n1", NO_GPU)), whole)
    assert found.verdict is Verdict.ERROR
    assert "value was observed on the cluster" in found.rows[0].reason


@pytest.mark.parametrize("subject", [None, 3, "n1", object(), Thing("n1", "n1", models=(3,))])  # type: ignore[arg-type]
def test_what_is_no_subject_cannot_be_observed(subject: Any) -> None:
    """The check that tries is told where; its error is the plugin's to record."""
    with pytest.raises(TypeError, match="is no subject"):
        judged(bench(table(), N1), [(subject, ONE)])


# --- whether it applies --------------------------------------------------------------------------


@pytest.mark.parametrize("over", ["gpu", "cluster"])
def test_a_check_is_skipped_only_if_every_node_is(over: str) -> None:
    """The grounds are counted; what a check says all the same of such nodes is not judged."""
    nodes = [Node(name, NO_GPU) for name in ("n1", "n2")]
    whole = [(Thing("", "", ()), ONE)] if over == "cluster" else values(nodes, 2)
    found = judged(bench(table(needs=["gpu"], over=over), *nodes), whole)

    assert (found.verdict, found.applicable, found.rows) == (Verdict.SKIP, False, ())
    assert found.reason == "gpu: not declared, and the node shows none (2 nodes)"


def test_a_node_to_which_a_check_does_not_apply_is_passed_over() -> None:
    """A login node beside GPU nodes, declared apart, neither passes nor fails a check of GPUs."""
    login = Node("login", NO_GPU)
    on = bench(table(needs=["gpu"]), N1, login, pools=pool("n1", GPUS) + pool("login"))

    assert words(judged(on, [(gpu("n1"), ONE), (gpu("login"), {"value": 2})]).rows) == ["pass"]


def test_a_node_without_a_past_is_told_of_beside_nodes_that_have_one() -> None:
    """No pass and no fault: a row says that it is new. Where no node has a past, the check is skipped."""
    old = Node("n1", {"gpu": True, "earlier": True})
    new = Node("n2", {"gpu": True, "earlier": Read(value=False, note="a new node")})
    tables = table(needs=["gpu", "earlier"])
    found = judged(bench(tables, old, new), values([old], 1))

    assert (found.verdict, words(found.rows)) == (Verdict.PASS, ["pass", "skip"])
    assert (found.rows[1].where, found.rows[1].reason) == ("n2", "earlier: a new node")
    assert (found.cells_expected, found.cells_judged) == (1, 1)
    assert judged(bench(tables, old, new)).verdict is Verdict.ERROR
    alone = judged(bench(tables, new))
    assert (alone.verdict, alone.applicable, alone.rows) == (Verdict.SKIP, False, ())


def test_no_node_at_all_is_an_error() -> None:
    """An empty recording skips nothing."""
    found = judged(bench(table(needs=["gpu"])))
    assert (found.verdict, found.reason) == (Verdict.ERROR, "there is no node to judge")


def test_what_the_rating_profile_requires_is_not_skipped() -> None:
    """A cluster without GPUs fails the checks of GPUs when it is rated; for acceptance they do not apply."""
    tables, node = table(needs=["gpu"]), Node("n1", NO_GPU)

    rated = judged(bench(tables, node, profile="rating"))
    assert (rated.verdict, rated.applicable) == (Verdict.FAIL, True)
    assert rated.reason == "the rating profile requires gpu, and no node has it"
    assert judged(bench(tables, node)).verdict is Verdict.SKIP
    assert judged(bench(table(needs=["roce"]), node, profile="rating")).verdict is Verdict.SKIP


# --- joining -------------------------------------------------------------------------------------

NOT_ASKED, DENIED, FAILED = (Unread(kind, "why") for kind in ("not_asked", "denied", "failed"))


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ([1, 1], Verdict.PASS),
        ([1, 5], Verdict.WARN),
        ([5, DENIED], Verdict.UNSEEN),
        ([DENIED, FAILED], Verdict.ERROR),
        ([FAILED, 9], Verdict.FAIL),
        ([1, NOT_ASKED], None),
        ([5, NOT_ASKED], None),
        ([NOT_ASKED], None),
        ([DENIED, NOT_ASKED], Verdict.UNSEEN),
        ([9, NOT_ASKED], Verdict.FAIL),
    ],
)
def test_rows_join_to_the_gravest(found: list[Any], verdict: Verdict | None) -> None:
    """A fail is never masked, and what was not asked lets no pass and no warning stand."""
    tables = table("value = { warn_above = 4, fail_above = 8 }")

    assert judged(bench(tables, N1), values([N1], *found)).verdict is verdict


def test_a_fail_tells_how_many_and_how_much_was_not_judged() -> None:
    """The first place is named, the rest is counted, and what nobody saw is not forgotten."""
    found = judged(bench(table(), N1), values([N1], 2, 2, 2, FAILED, DENIED, 1))

    assert found.reason == "n1/gpu0: value is 2, expected 1 (and 2 more); not judged on 2"


def test_cells_and_subjects_count_what_was_judged() -> None:
    """Fails and warnings are judged; unread values are expected and not judged; skips are not expected."""
    absent = Unread("unsupported", "[N/A]")
    seen = [*values([N1], 1, 2, FAILED), (gpu("n1", 3, models=("1002:75a3",)), {"value": absent})]
    found = judged(bench(table(), N1), seen)

    assert (found.cells_expected, found.cells_judged) == (3, 2)
    assert found.subjects_judged == {"n1/gpu0", "n1/gpu1"}
    assert CHECK in bench(table()).catalog.checks


def test_what_a_service_says_does_not_depend_on_silent_nodes() -> None:
    """A check of the cluster that needs services alone is judged though a node is silent; others are not."""
    declared = pool("n[1-2]", 'has = ["gpu"]') + '[s3]\nendpoint = "https://s3.example"\n'
    for needs, verdict in ((["s3"], Verdict.PASS), (["gpu"], Verdict.ERROR)):
        on = bench(table(over="cluster", needs=needs), N1, silent("n2", has={"gpu": True}), pools=declared)
        assert judged(on, [(Thing("", ""), {"value": 1})]).verdict is verdict
