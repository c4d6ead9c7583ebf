"""What values are compared with: each other, the contract, their product's figures, the subject itself."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.verdict import Verdict
from judging import B200, Node, bench, gpu, judged, pool, table, values, words

NODES = [Node(f"n{number}") for number in range(1, 7)]
ALL = pool("n[1-6]", 'has = ["gpu"]')
SAME = table("value = { same = true }")
MEDIAN = table('value = { fail_below = 0.9, of = "pool.median" }')


# --- the same across a pool ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "verdicts"),
    [
        (["a", "a"], ["pass", "pass"]),
        (["a", "a", "b"], ["pass", "pass", "fail"]),
        (["a", "b", "a", "b"], ["fail"] * 4),
        (["a", "b", "c"], ["fail"] * 3),
        (["a", "a", "b", "c"], ["fail"] * 4),
        (["a"], ["skip"]),
        ([True, 1, 1], ["error", "pass", "pass"]),
    ],
)
def test_more_than_half_decide_what_is_the_same(found: list[Any], verdicts: list[str]) -> None:
    """Who differs from the majority fails; without one all fail; one alone has nothing to differ from."""
    nodes = NODES[: len(found)]
    assert words(judged(bench(SAME, *nodes), values(nodes, *found)).rows) == verdicts


def test_without_a_majority_every_row_names_the_groups() -> None:
    """The largest group first, alike ones in the order of their values, whatever the order of the nodes."""
    expected = "value differs across the pool, and no value has a majority: 570 (2), 575 (2), 580 (1)"
    for found in (["575", "570", "580", "570", "575"], ["580", "575", "575", "570", "570"]):
        rows = judged(bench(SAME, *NODES[:5]), values(NODES[:5], *found)).rows
        assert {row.reason for row in rows} == {expected}


def test_without_a_majority_a_softened_limit_warns() -> None:
    """``else = "warn"`` holds for who differs, and for all who have nobody to differ from."""
    softened = table('value = { same = true, else = "warn" }')
    for found, verdicts in ((["a", "b"], ["warn"] * 2), (["a", "a", "b"], ["pass", "pass", "warn"])):
        nodes = NODES[: len(found)]
        assert words(judged(bench(softened, *nodes), values(nodes, *found)).rows) == verdicts


def test_pools_are_compared_apart() -> None:
    """Two pools may run two drivers."""
    pools = pool("n[1-2]", 'has = ["gpu"]') + pool("n[3-4]", 'has = ["gpu"]')
    found = judged(bench(SAME, *NODES[:4], pools=pools), values(NODES[:4], "a", "a", "b", "b"))

    assert found.verdict is Verdict.PASS


def test_a_declared_pool_is_compared_whatever_its_nodes_show() -> None:
    """A node that has lost its GPUs, or whose first GPU has no name, does not fall out of the comparison."""
    tables = table("value = { same = true }", over="node")
    models = [B200, B200, B200[::-1], B200[1:], ()]
    seen = [
        (gpu(node.name, models=own), {"value": "old" if own == () else "new"})
        for node, own in zip(NODES, models, strict=False)
    ]

    assert words(judged(bench(tables, *NODES[:5], pools=ALL), seen).rows[:5]) == ["pass"] * 4 + ["fail"]


def test_undeclared_subjects_are_compared_by_product_however_it_is_written() -> None:
    """Name and PCI id, either alone, in any order: it is one product; another one is another group."""
    models = [B200, B200[::-1], B200[:1], B200[1:], ("1002:75a3",), ("1002:75a3",)]
    seen = [
        (gpu(node.name, models=own), {"value": "b" if own == ("1002:75a3",) else "a"})
        for node, own in zip(NODES, models, strict=True)
    ]

    assert judged(bench(SAME, *NODES), seen).verdict is Verdict.PASS


def test_metrics_and_coordinates_are_compared_apart() -> None:
    """Bandwidth at 8 bytes is no peer of bandwidth at 16 GiB."""
    seen = [
        (gpu(node.name), {"value": value, "at": {"size": size}})
        for node in NODES[:2]
        for size, value in (("8B", 1), ("16GiB", 90))
    ]
    found = judged(bench(SAME, *NODES[:2]), seen)

    assert found.verdict is Verdict.PASS
    assert {row.at for row in found.rows} == {(("size", "8B"),), (("size", "16GiB"),)}


def test_a_subject_votes_once() -> None:
    """Observed three times it is still one of two: it cannot outvote the other, nor be its own peer."""
    twice = [(gpu("n1"), {"value": "a"})] * 3
    assert judged(bench(SAME, NODES[0]), twice).verdict is Verdict.SKIP
    found = judged(bench(SAME, *NODES[:2]), [*twice, (gpu("n2"), {"value": "b"})])
    assert words(found.rows) == ["fail"] * 4


def test_what_was_not_read_does_not_vote() -> None:
    """Two that agree beside two that nobody could read agree; the others are errors of their own."""
    unread = Unread("failed", "why")
    found = judged(bench(SAME, *NODES[:4]), values(NODES[:4], "a", unread, unread, "a"))

    assert words(found.rows) == ["pass", "error", "error", "pass"]


@pytest.mark.parametrize("tables", [SAME, MEDIAN])
def test_nan_is_an_error_also_where_it_has_no_peer(tables: str) -> None:
    """A value that is no number is not skipped for want of something to compare it with; it never votes."""
    assert judged(bench(tables, NODES[0]), values(NODES[:1], math.nan)).verdict is Verdict.ERROR
    found = judged(bench(tables, *NODES), values(NODES, 5.0, math.nan, 5.0, 5.0, math.inf, 5.0))
    assert words(found.rows) == ["pass", "error", "pass", "pass", "error", "pass"]


# --- the median of a pool ------------------------------------------------------------------------


def test_a_straggler_is_found_by_the_median() -> None:
    """One below nine tenths of the median fails, whatever the rated figure."""
    found = judged(bench(MEDIAN, *NODES[:4]), values(NODES[:4], 100, 100, 89, 100))

    assert words(found.rows) == ["pass", "pass", "fail", "pass"]
    assert found.rows[2].reference == 100


def test_fewer_than_four_have_no_median() -> None:
    """Three values are skipped and say why."""
    found = judged(bench(MEDIAN, *NODES[:3]), values(NODES[:3], 1, 100, 100))

    assert found.verdict is Verdict.SKIP
    assert "a median needs 4, its pool has 3" in found.reason


@pytest.mark.parametrize("median", [0, -3, 10**400])
def test_a_median_that_no_ratio_can_be_made_of_is_an_error(median: float) -> None:
    """Zero and less, and numbers beyond all floats, compare with nothing."""
    assert judged(bench(MEDIAN, *NODES), values(NODES, *[median] * 6)).verdict is not Verdict.PASS


# --- the contract, the product, the subject itself -----------------------------------------------


def test_a_contract_is_compared_where_it_was_declared() -> None:
    """Undeclared is a skip that says so: of this pool, of this node, or for want of a site file."""
    tables = table('value = { is_of = "contract.lanes" }')
    declared = pool("n1", 'has = ["gpu"]', "lanes = 16") + pool("n2", 'has = ["gpu"]')
    found = judged(bench(tables, *NODES[:3], pools=declared), values(NODES[:3], 8, 8, 8))

    assert words(found.rows) == ["fail", "skip", "skip"]
    assert found.rows[0].reference == 16
    assert found.rows[1].reason == "value is not compared: contract.lanes is undeclared"
    assert judged(bench(tables, NODES[0]), values(NODES[:1], 8)).verdict is Verdict.SKIP


@pytest.mark.parametrize(("models", "good"), [(B200, 18), (("1002:75a3",), 7)])
def test_a_figure_is_that_of_the_product(models: tuple[str, ...], good: int) -> None:
    """Each product is held to its own figure."""
    tables = table('value = { is_of = "accelerator.nvlinks" }', needs=["gpu"])
    for value, verdict in ((good, Verdict.PASS), (good - 1, Verdict.FAIL)):
        assert judged(bench(tables, NODES[0]), values(NODES[:1], value, models=models)).verdict is verdict


def test_a_figure_that_the_product_does_not_have_is_an_error() -> None:
    """A limit that cannot be applied to this product is not passed."""
    found = judged(
        bench(table('value = { fail_below = 0.9, of = "accelerator.tflops" }'), NODES[0]),
        values(NODES[:1], 1000, models=("1002:75a3",)),
    )
    assert found.verdict is Verdict.ERROR
    assert "[accelerator.mi355x] has no tflops" in found.reason


def test_the_figure_of_an_unknown_product_is_an_error_for_any_subject() -> None:
    """Where the check is over nodes, the limit's reference is what cannot be found."""
    tables = table('value = { is_of = "accelerator.nvlinks" }', over="node")
    found = judged(bench(tables, NODES[0]), values(NODES[:1], 18, models=("NVIDIA B999",)))

    assert found.verdict is Verdict.ERROR
    assert found.reason == (
        "n1/gpu0: value cannot be compared with accelerator.nvlinks: "
        "unknown product NVIDIA B999: no [accelerator] table matches"
    )


@pytest.mark.parametrize(
    ("rated", "verdict"),
    [
        (Read(8), Verdict.PASS),
        (8, Verdict.PASS),
        (Read(16), Verdict.FAIL),
        (Read("8"), Verdict.ERROR),
        (None, Verdict.ERROR),
        (Read(None), Verdict.ERROR),
        (object(), Verdict.ERROR),
        (Read(math.nan), Verdict.ERROR),
        (Unread("failed", "why"), Verdict.ERROR),
        (Unread("denied", "why"), Verdict.UNSEEN),
        (Unread("not_asked", "why"), None),
    ],
)
def test_a_property_of_the_subject_may_be_unread_too(rated: Any, verdict: Verdict | None) -> None:
    """What it is compared with is judged like the value: nothing that was not read makes a pass."""
    on = bench(table('value = { is_of = "subject.rated" }'), NODES[0])
    assert judged(on, values(NODES[:1], 8, rated=rated)).verdict is verdict


def test_a_property_that_no_subject_has_is_an_error() -> None:
    """A slip in a table is found by the first run, and raises nothing."""
    on = bench(table('value = { is_of = "subject.rating" }'), NODES[0])
    assert judged(on, values(NODES[:1], 8)).verdict is Verdict.ERROR


# --- provisional ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "provisional",
    ["{ fail_below = 5, provisional = true }", '{ fail_below = 0.9, of = "accelerator.guessed" }'],
)
def test_what_is_provisional_is_shown_and_binds_nothing(provisional: str) -> None:
    """A limit or a figure that is: the row fails and is marked, and the check passes by the others."""
    on = bench(table(f"value = {provisional}\nother = {{ is = 1 }}"), NODES[0])
    found = judged(on, [(gpu("n1"), {"value": 1, "other": 1})])

    assert found.verdict is Verdict.PASS
    assert [(row.metric, row.provisional) for row in found.rows] == [("value", True), ("other", False)]
    assert words(found.rows) == ["fail", "pass"]


def test_a_check_that_is_all_provisional_earns_nothing() -> None:
    """It is a skip, with its rows."""
    found = judged(
        bench(table("value = { fail_below = 5, provisional = true }"), NODES[0]), values(NODES[:1], 9)
    )

    assert (found.verdict, len(found.rows)) == (Verdict.SKIP, 1)
    assert found.reason == "every limit of this check is provisional: judged and shown, not counted"


def test_a_provisional_value_that_was_not_read_binds_nothing_either() -> None:
    """Only what was never observed at all is still an error: the check has not done its work."""
    on = bench(table("value = { fail_below = 5, provisional = true }\nother = { is = 1 }"), NODES[0])
    unread = judged(on, [(gpu("n1"), {"value": Unread("failed", "why"), "other": 1})])
    unobserved = judged(on, [(gpu("n1"), {"other": 1})])

    assert (unread.verdict, unobserved.verdict) == (Verdict.PASS, Verdict.ERROR)


def test_platinum_is_capped_by_a_pass_that_is_not_good_enough() -> None:
    """The row passes, carries the cap, and says what it falls short of."""
    on = bench(table("value = { fail_below = 5, platinum_below = 9 }"), NODES[0])
    for value, capped in ((9, False), (8, True)):
        found = judged(on, values(NODES[:1], value))
        assert (found.verdict, found.caps_at_gold) == (Verdict.PASS, capped)


@pytest.mark.parametrize("value", [math.nan, Unread("garbled", "no number"), 200.0])
def test_what_is_no_value_binds_where_only_the_figure_is_provisional(value: object) -> None:
    """What nobody can believe is no pass beside a sound value: the figure is in doubt, not the measuring."""
    limit = '{ fail_below = 0.9, doubt_above = 1.5, of = "accelerator.guessed", provisional = true }'
    on = bench(table(f"value = {limit}\nother = {{ is = 1 }}"), NODES[0])
    assert judged(on, [(gpu("n1"), {"value": value, "other": 1})]).verdict is Verdict.ERROR
