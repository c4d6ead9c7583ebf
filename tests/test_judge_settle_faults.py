"""Faults that are forgiven for a time or borne by spares, and what is left of a contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.judge.fact import Unread
from gpuassay.judge.verdict import Verdict
from judging import Node, Thing, bench, judged, pool, silent, table, values, words

if TYPE_CHECKING:
    from gpuassay.judge.settle import CheckResult

NODES = [Node(f"n{number}") for number in range(1, 5)]
FAILED, DENIED, NOT_ASKED = (Unread(kind, "why") for kind in ("failed", "denied", "not_asked"))
GPUS = 'has = ["gpu"]'
POOL = pool("n[1-4]", GPUS)


def waiver(where: str, until: str = "2026-12-31", check: str = "audit.a.b") -> str:
    """Write a waiver of a site file."""
    return f'[[waiver]]\ncheck = "{check}"\nwhere = "{where}"\nuntil = {until}\nreason = "agreed"\n'


# --- waivers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "verdicts"),
    [
        ("n1", ["warn", "fail"]),
        ("n[1-2]", ["warn", "warn"]),
        ("n1/gpu0", ["warn", "fail"]),
        ("n1/gpu1", ["fail", "fail"]),
        ("*", ["warn", "warn"]),
    ],
)
def test_a_waiver_turns_the_fails_that_it_covers_into_warnings(where: str, verdicts: list[str]) -> None:
    """A node covers all that is in it; a GPU only itself. The row caps the tier and says who agreed."""
    found = judged(bench(table(), *NODES[:2], pools=POOL + waiver(where)), values(NODES[:2], 2, 2))

    assert words(found.rows) == verdicts
    for row in found.rows:
        assert row.caps_at_gold is bool(row.waived) is (row.verdict is Verdict.WARN)
    if where == "*":
        assert found.caps_at_gold
        assert found.reason.startswith("n1/gpu0: value is 2, expected 1 (waived until 2026-12-31: agreed)")


@pytest.mark.parametrize(
    ("value", "verdict"), [(FAILED, "error"), (DENIED, "unseen"), (None, "error"), (1, "pass")]
)
def test_only_a_fail_can_be_waived(value: Any, verdict: str) -> None:
    """What nobody saw cannot be agreed to."""
    found = judged(bench(table(), NODES[0], pools=POOL + waiver("*")), values(NODES[:1], value))

    assert (words(found.rows), found.caps_at_gold) == ([verdict], False)


def test_a_silent_node_cannot_be_waived() -> None:
    """It is an error, whatever was agreed."""
    found = judged(bench(table(), silent("n1"), pools=POOL + waiver("*")))
    assert found.verdict is Verdict.ERROR


def test_an_expired_waiver_lets_the_fail_stand_and_is_named() -> None:
    """Its last day was yesterday; on its last day it would still hold."""
    pools = POOL + waiver("n1", "2026-11-29")
    found = judged(bench(table(), NODES[0], pools=pools), values(NODES[:1], 2))
    assert (found.verdict, found.caps_at_gold) == (Verdict.FAIL, False)
    assert found.reason == "n1/gpu0: value is 2, expected 1 (its waiver expired on 2026-11-29: agreed)"

    today = bench(table(), NODES[0], pools=POOL + waiver("n1", "2026-11-30"))
    assert judged(today, values(NODES[:1], 2)).verdict is Verdict.WARN


def test_a_newer_waiver_renews_an_expired_one() -> None:
    """The one in force is found, wherever it stands in the file."""
    pools = POOL + waiver("n1", "2026-11-29") + waiver("n1", "2027-01-31")
    found = judged(bench(table(), NODES[0], pools=pools), values(NODES[:1], 2))

    assert found.verdict is Verdict.WARN
    assert "waived until 2027-01-31" in found.reason


def test_a_waiver_of_another_check_covers_nothing() -> None:
    """Waivers name their check."""
    tables = table() + table(name="audit.a.c")
    found = judged(bench(tables, NODES[0], pools=POOL + waiver("*", check="audit.a.c")), values(NODES[:1], 2))

    assert found.verdict is Verdict.FAIL


def test_the_rating_profile_knows_no_waiver() -> None:
    """A site file cannot excuse what is rated."""
    on = bench(table(), NODES[0], pools=POOL + waiver("*"), profile="rating")
    assert judged(on, values(NODES[:1], 2)).verdict is Verdict.FAIL


def test_the_site_decides_the_limit() -> None:
    """A limit that the site file changes is the one that judges."""
    pools = POOL + '[limits."audit.a.b"]\nvalue = { is = 2 }\n'
    assert judged(bench(table(), NODES[0], pools=pools), values(NODES[:1], 2)).verdict is Verdict.PASS


# --- component faults ----------------------------------------------------------------------------


def component(*found: Any, contracted: str = "", nodes: list[Node] = NODES, over: str = "gpu") -> CheckResult:
    """Settle a check of a component on four nodes of one pool."""
    on = bench(table(fault="component", over=over), *nodes, pools=pool("n[1-4]", GPUS, contracted))
    return judged(on, values(nodes, *found))


@pytest.mark.parametrize(
    ("contracted", "verdict", "says"),
    [
        (
            "contracted = 3",
            Verdict.WARN,
            "enough healthy nodes are left for the contract: return the sick ones",
        ),
        ("contracted = 4", Verdict.FAIL, "3 healthy nodes left of 4 contracted"),
        ("", Verdict.FAIL, "value is 2, expected 1"),
    ],
)
def test_spares_bear_a_broken_part(contracted: str, verdict: Verdict, says: str) -> None:
    """The check warns while the contract is honoured without the sick node; its row stays a fail."""
    found = component(1, 2, 1, 1, contracted=contracted)

    assert found.verdict is verdict
    assert found.reason.startswith("n2/gpu0: value is 2")
    assert found.reason.endswith(says)
    assert words(found.rows) == ["pass", "fail", "pass", "pass"]
    assert found.sick == ("n2",)
    assert found.warned is (verdict is Verdict.WARN)


def test_a_design_fault_is_borne_by_no_spare() -> None:
    """A wrong version is wrong however many nodes are left, and makes no node sick."""
    on = bench(table(), *NODES, pools=pool("n[1-4]", GPUS, "contracted = 1"))
    found = judged(on, values(NODES, 1, 2, 1, 1))

    assert (found.verdict, found.sick, found.doubtful) == (Verdict.FAIL, (), {})


def test_every_pool_with_a_sick_node_must_honour_its_contract() -> None:
    """Spares of one pool do not help another."""
    pools = pool("n[1-2]", GPUS, "contracted = 1") + pool("n[3-4]", GPUS, "contracted = 2")
    on = bench(table(fault="component"), *NODES, pools=pools)

    assert judged(on, values(NODES, 2, 1, 1, 1)).verdict is Verdict.WARN
    assert judged(on, values(NODES, 2, 1, 2, 1)).verdict is Verdict.FAIL
    assert judged(on, values(NODES, 1, 1, 1, 2)).reason.endswith("1 healthy nodes left of 2 contracted")


@pytest.mark.parametrize(
    ("other", "verdict"),
    [(FAILED, Verdict.ERROR), (DENIED, Verdict.UNSEEN), (NOT_ASKED, None), (1, Verdict.WARN)],
)
def test_spares_excuse_no_doubt(other: Any, verdict: Verdict | None) -> None:
    """A borne fault is a warning; beside a node that was not judged the check is no better than that."""
    found = component(1, 2, other, 1, contracted="contracted = 1")

    assert found.verdict is verdict
    assert "n2/gpu0: value is 2" in found.reason
    assert found.warned


def test_a_fault_of_the_whole_cluster_is_borne_by_no_spare() -> None:
    """A failing row that belongs to no node stays, whatever nodes are left."""
    on = bench(table(fault="component", over="cluster"), *NODES, pools=pool("n[1-4]", GPUS, "contracted = 1"))
    seen = [*values(NODES, 2), (Thing("", "", ()), {"value": 2})]

    assert judged(on, seen).verdict is Verdict.FAIL


def test_nodes_that_were_not_judged_are_in_doubt_with_the_gravest_reason() -> None:
    """Not asked, denied and failed are kept apart; a sick node is sick, whatever else was not seen of it."""
    seen = [NOT_ASKED, DENIED, FAILED, 2, DENIED, FAILED, NOT_ASKED, FAILED]
    found = component(*seen)

    assert found.sick == ("n4",)
    assert found.doubtful == {"n1": Verdict.UNSEEN, "n2": Verdict.ERROR, "n3": Verdict.ERROR}
    assert component(NOT_ASKED, 1, 1, 1).doubtful == {"n1": None}


def test_a_silent_node_and_a_missing_gpu_are_in_doubt() -> None:
    """Neither was found sick, and neither is known to be healthy."""
    nodes = [*NODES[:2], Node("n3", counts={"bus": 2}), silent("n4")]
    found = component(1, 1, 1, 1, nodes=nodes)

    assert found.doubtful == {"n3": Verdict.ERROR, "n4": Verdict.ERROR}


def test_a_provisional_fail_makes_nobody_sick() -> None:
    """What does not count does not send a node back."""
    tables = table(
        "value = { is = 1, provisional = true }\nother = { is = 1 }", fault="component", over="node"
    )
    seen = [(Thing("n1", "n1"), {"value": 2, "other": 1})]

    assert judged(bench(tables, NODES[0]), seen).sick == ()


def test_a_waived_fault_makes_nobody_sick() -> None:
    """Both sides have agreed to keep the node."""
    on = bench(table(fault="component"), *NODES, pools=POOL + waiver("n2"))
    found = judged(on, values(NODES, 1, 2, 1, 1))

    assert (found.verdict, found.sick) == (Verdict.WARN, ())
