"""Results: rows folded, missing checks named, nodes held against the contract, waivers accounted for."""

from __future__ import annotations

import json
import math
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.judge.catalog import TIERS
from gpuassay.judge.grading import Row
from gpuassay.judge.settle import CheckResult
from gpuassay.judge.verdict import Verdict
from gpuassay.judge.waivers import Waiver
from gpuassay.report import results
from gpuassay.report.contracted import CONTRACTED
from gpuassay.report.results import Document, assemble, crashed, failed_outcome, graver, is_red

if TYPE_CHECKING:
    from collections.abc import Mapping

ONE, TWO = "audit.a.one", "audit.a.two"
WAIVER = Waiver(ONE, "n1", frozenset({"n1"}), date(2026, 12, 31), "agreed")


def context(
    *pools: Document, faults: Mapping[str, str] | None = None, waivers: tuple[Waiver, ...] = ()
) -> Document:
    """Write the context of a run with two checks; a fault of "component" is asked for by check."""
    faults = faults or {ONE: "component", TWO: "design"}
    described = {
        "category": "compute",
        "tier": "ribbon",
        "phase": "audit",
        "title": "It is.",
        "why": "So.",
        "fix": "Do.",
    }
    return {
        "schema": 1,
        "suite": {"version": "1"},
        "recording": {"digest": "00"},
        "target": "local",
        "profile": "acceptance",
        "stamps": [],
        "barred": [],
        "rules": {tier: {"warnings": 0, "phases": ["audit"]} for tier in TIERS},
        "nodes": {"declared": 4, "answered": 4, "out": 0},
        "out_of_service": [],
        "waivers": [waiver.document() for waiver in waivers],
        "problems": [],
        "pools": list(pools),
        "checks": {check: described | {"fault": fault} for check, fault in faults.items()},
    }


def row(where: str, verdict: Verdict | None = Verdict.PASS, value: Any = 1, **more: Any) -> Row:
    """Make a row of a node."""
    return Row(where, where.partition("/")[0], "value", verdict, more.pop("reason", "because"), value, **more)


def outcome(*rows: Row, verdict: Verdict | None = Verdict.PASS, **more: Any) -> Document:
    """Write a settled check over GPUs as the journal keeps it."""
    result = CheckResult(verdict, "because", rows, subjects_judged=frozenset(r.where for r in rows), **more)
    return json.loads(json.dumps(results.outcome(result, over="gpu")))  # type: ignore[no-any-return]


PASSED = outcome(row("n1"), cells_expected=1, cells_judged=1)


# --- rows ----------------------------------------------------------------------------------------


def test_rows_equal_in_all_but_place_fold_into_one() -> None:
    """Thirty-two passes take one line, with a node set that a user can paste."""
    rows = [row(f"gpu{node:03}/gpu{index}") for node in range(1, 5) for index in range(8)]
    (folded,) = outcome(*rows)["observations"]

    assert (folded["where"], folded["count"]) == ("gpu[001-004]/gpu[0-7]", 32)


def test_rows_that_differ_stay_apart_the_worst_first() -> None:
    """True is not 1 is not 1.0; fails come before what was not run, passes after, in natural order."""
    rows = [
        row("n10", Verdict.FAIL),
        row("n1", Verdict.PASS),
        row("n2", Verdict.FAIL, value=True),
        row("n3", Verdict.FAIL, value=1.0),
        row("n4", None),
        row("n5", Verdict.SKIP),
        row("n6", Verdict.FAIL, at=(("size", "8B"),)),
    ]
    found = outcome(*rows)
    assert [r["where"] for r in found["observations"]] == ["n2", "n3", "n6", "n10", "n4", "n1", "n5"]
    assert found["counts"] == {"fail": 4, "pass": 1, "not_run": 1, "skip": 1}
    assert found["observations"][2]["at"] == {"size": "8B"}


def test_what_json_does_not_have_is_spelled_out() -> None:
    """NaN and the infinities are texts, so that every reader of JSON can read the results."""
    rows = [row("n1", value=math.nan), row("n2", value=math.inf, reference=-math.inf)]
    text = json.dumps(results.observations(rows), allow_nan=False)

    assert {r["value"] for r in json.loads(text)} == {"nan", "inf"}


def test_marks_are_there_only_where_they_say_something() -> None:
    """A waived row says who agreed, a provisional one that it does not count, a capped one what it caps."""
    (plain,) = outcome(row("n1"))["observations"]
    (marked,) = outcome(row("n1", waived=WAIVER, provisional=True, caps_at_gold=True))["observations"]
    assert {key: marked[key] for key in marked.keys() - plain.keys()} == {
        "waived": "agreed",
        "provisional": True,
        "caps": "gold",
    }


@given(
    st.lists(
        st.tuples(st.sampled_from(["n1", "n2/gpu0", "n10", ""]), st.sampled_from([*Verdict, None])),
        max_size=9,
    ),
    st.randoms(use_true_random=False),
)
def test_folding_loses_no_row_and_does_not_depend_on_order(found: list[Any], random: Any) -> None:
    """Counts add up to the rows, and the same rows in any order give the same bytes."""
    rows = [row(where, verdict) for where, verdict in found]
    folded = results.observations(rows)
    mixed = list(rows)
    random.shuffle(mixed)

    assert sum(r["count"] for r in folded) == len(rows)
    assert results.observations(mixed) == folded


# --- a check that went wrong ---------------------------------------------------------------------


def test_an_error_of_the_check_itself_is_added_and_outweighs_all_but_a_fail() -> None:
    """A pass becomes an error; a fail that was proven stays, with the error beside it."""
    passed = crashed(PASSED, "it raised")
    assert (passed["verdict"], passed["reason"]) == ("error", "it raised")
    assert [r["verdict"] for r in passed["observations"]] == ["pass", "error"]

    failed = crashed(outcome(row("n1", Verdict.FAIL), verdict=Verdict.FAIL), "it raised")
    assert (failed["verdict"], failed["reason"]) == ("fail", "because")
    assert failed["counts"] == {"fail": 1, "error": 1}


def test_a_check_that_raises_where_it_does_not_apply_applies() -> None:
    """An error is counted among the checks that ought to have been judged."""
    skipped = outcome(verdict=Verdict.SKIP, applicable=False)
    found = assemble(context(), {ONE: crashed(skipped, "it raised"), TWO: skipped})

    assert found["coverage"]["checks"] == {"expected": 2, "applicable": 1, "judged": 0, "not_run": 0}


def test_of_two_outcomes_the_graver_counts() -> None:
    """A check that is run again until it passes has failed."""
    failed = failed_outcome("it raised")
    assert graver(PASSED, failed) is graver(failed, PASSED) is failed
    assert graver(PASSED, PASSED | {"reason": "other"}) is PASSED


# --- assembling ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cut", "reason"), [("", "not selected for this run"), ("the run was killed", "the run was killed")]
)
def test_an_expected_check_without_an_outcome_was_not_run(cut: str, reason: str) -> None:
    """It stands there with its own words, applies, and was not judged; what nobody expects is left out."""
    found = assemble(context(), {ONE: PASSED, "audit.a.ghost": PASSED}, cut=cut)

    assert list(found["checks"]) == [ONE, TWO]
    assert found["checks"][TWO]["verdict"] == "not_run"
    assert found["checks"][TWO]["reason"] == reason
    assert found["checks"][TWO]["title"] == "It is."
    assert found["coverage"]["checks"] == {"expected": 2, "applicable": 2, "judged": 1, "not_run": 1}
    assert found["tier"]["state"] == "not_rated"


def test_only_what_was_measured_between_nodes_carries_the_placement() -> None:
    """A figure of the network says that no spine was tested; what was not run has nothing to say."""
    placed = {"by": "LLDP", "says": "one leaf", "limits": "spine not tested", "leaves": []}
    told = context() | {"placement": placed}
    between = {
        check: told["checks"][ONE] | {"phase": "perf", "category": "networking"} for check in (ONE, TWO)
    }
    found = assemble(told | {"checks": between}, {ONE: PASSED | {"observations": [{}]}})
    assert found["placement"] == placed
    assert [check.get("placement") for check in found["checks"].values()] == ["spine not tested", None]


def test_all_passed_wins_the_best_tier() -> None:
    """The way from outcomes to the tier is whole."""
    found = assemble(context(), {ONE: PASSED, TWO: PASSED})
    assert (found["tier"]["won"], found["tier"]["ceiling"]) == ("platinum", "platinum")


def test_marks_of_rows_reach_the_tier() -> None:
    """A capped pass holds platinum, and a warning below an error holds the ceiling."""
    capped = assemble(context(), {ONE: PASSED | {"caps_at_gold": True}, TWO: PASSED})
    assert capped["tier"]["won"] == "gold"
    warned = assemble(context(), {ONE: failed_outcome("why") | {"warned": True}, TWO: PASSED})
    assert warned["tier"]["ceiling"] is None


@pytest.mark.parametrize(("judged", "state"), [(8, "won"), (0, "unavailable")])
def test_a_run_that_judged_no_accelerator_is_unavailable(judged: int, state: str) -> None:
    """It is the checks over GPUs that tell."""
    assert (
        assemble(context(), {ONE: PASSED | {"accelerators": judged}, TWO: PASSED | {"accelerators": 0}})[
            "tier"
        ]["state"]
        == state
    )


@pytest.mark.parametrize("verdict", [*Verdict, None])
def test_only_fail_and_error_are_red(verdict: Verdict | None) -> None:
    """Warnings, skips, and what is not seen or not run leave a pipeline green."""
    found = assemble(context(), {ONE: PASSED, TWO: outcome(verdict=verdict)})
    assert is_red(found) is (verdict in (Verdict.FAIL, Verdict.ERROR))


def test_results_are_the_same_after_a_journal() -> None:
    """Outcomes that went through JSON, in any order, assemble to the same bytes."""
    outcomes = {ONE: PASSED, TWO: failed_outcome("why")}
    again = json.loads(json.dumps(dict(reversed(outcomes.items()))))

    assert json.dumps(assemble(context(), outcomes)) == json.dumps(
        assemble(json.loads(json.dumps(context())), again)
    )


# --- the contract --------------------------------------------------------------------------------


def pool(contracted: int | None, *silent: str, nodes: int = 4, name: str = "p") -> Document:
    """Write a pool of nodes n1 and up, all in service."""
    in_service = [f"n{number}" for number in range(1, nodes + 1)]
    return {"name": name, "contracted": contracted, "in_service": in_service, "silent": list(silent)}


SICK = outcome(verdict=Verdict.WARN, sick=("n1",))
BOTH = {ONE: "component", TWO: "component"}


@pytest.mark.parametrize(
    ("one", "two", "contracted", "verdict", "says"),
    [
        (PASSED, PASSED, 4, "pass", "4 of 4 nodes in service are healthy, 4 contracted"),
        (PASSED, PASSED, 5, "fail", "4 of 4 nodes in service are healthy, 5 contracted"),
        (SICK, PASSED, 3, "pass", "3 of 4"),
        (SICK, outcome(sick=("n2",)), 3, "fail", "2 of 4"),
        (SICK, outcome(doubtful={"n2": Verdict.ERROR}), 3, "error", "2 of 4 nodes"),
        (SICK, outcome(doubtful={"n2": Verdict.UNSEEN}), 3, "unseen", "1 were not fully judged"),
        (SICK, outcome(doubtful={"n2": None}), 3, "not_run", "1 were not fully judged"),
        (SICK, outcome(doubtful={"n1": Verdict.ERROR}), 3, "pass", "3 of 4"),
        (outcome(doubtful={"n1": None}), outcome(doubtful={"n2": Verdict.ERROR}), 3, "not_run", "2 of 4"),
        (SICK, outcome(doubtful={"n2": Verdict.ERROR}), 2, "pass", "2 of 4"),
        (SICK, failed_outcome("its process died"), 3, "error", "not every check of a component was run"),
        (SICK, None, 3, "not_run", "not every check of a component was run"),
        (SICK, None, 4, "fail", "3 of 4"),
    ],
)
def test_healthy_nodes_are_held_against_the_contract(
    one: Document, two: Document | None, contracted: int, verdict: str, says: str
) -> None:
    """Sick nodes of all checks add up; a node in doubt is not healthy, and no check may be missing."""
    outcomes = {ONE: one} | ({TWO: two} if two else {})
    found = assemble(context(pool(contracted), faults=BOTH), outcomes)["checks"][CONTRACTED]

    assert found["verdict"] == verdict
    assert says in found["reason"]


@pytest.mark.parametrize(
    ("tiers", "outcomes", "contracted", "verdict", "tier"),
    [
        (("ribbon", "bronze"), (PASSED, PASSED), 4, "pass", "bronze"),
        (("ribbon", "ribbon"), (SICK, outcome(sick=("n2",))), 3, "fail", "ribbon"),
        (("ribbon", "silver"), (SICK, outcome(sick=("n2",))), 3, "fail", "silver"),
        (("silver", "gold"), (outcome(sick=("n1", "n2")), PASSED), 3, "fail", "silver"),
        (("ribbon", "ribbon"), (PASSED, PASSED), 5, "fail", "bronze"),
        (("ribbon", "silver"), (PASSED, None), 4, "not_run", "silver"),
        (("ribbon", "bronze"), (PASSED, None), 4, "not_run", "bronze"),
        (("ribbon", "ribbon"), (PASSED, failed_outcome("it died")), 4, "error", "bronze"),
    ],
)
def test_the_contract_is_of_the_tier_whose_checks_break_it(
    tiers: tuple[str, str],
    outcomes: tuple[Document, Document | None],
    contracted: int,
    verdict: str,
    tier: str,
) -> None:
    """What ribbon checks find breaks the ribbon, what only silver asks leaves bronze; nobody sick: bronze."""
    told = context(pool(contracted), faults=BOTH)
    for check, own in zip((ONE, TWO), tiers, strict=True):
        told["checks"][check] = told["checks"][check] | {"tier": own}
    ran = {check: own for check, own in zip((ONE, TWO), outcomes, strict=True) if own}
    found = assemble(told, ran)["checks"][CONTRACTED]

    assert (found["verdict"], found["tier"]) == (verdict, tier)


def test_a_silent_node_is_not_healthy_whatever_it_was_declared_to_have() -> None:
    """Checks of GPUs pass over a silent login node; whether it is in service, nobody knows."""
    for silent, verdict in ((), "pass"), (("n4",), "error"):
        found = assemble(context(pool(4, *silent)), {ONE: PASSED, TWO: PASSED})
        assert found["checks"][CONTRACTED]["verdict"] == verdict


def test_the_worst_pool_decides_and_both_are_shown() -> None:
    """Each pool has its row, the worst first; a pool without a contract has none."""
    pools = pool(4, name="good"), pool(5, name="short"), pool(None, name="free")
    found = assemble(context(*pools), {ONE: PASSED, TWO: PASSED})["checks"][CONTRACTED]

    assert (found["verdict"], found["counts"]) == ("fail", {"fail": 1, "pass": 1})
    assert found["reason"].startswith("pool short: ")
    assert [(r["value"], r["reference"]) for r in found["observations"]] == [(4, 5), (4, 4)]


def test_without_a_contract_there_is_no_such_verdict() -> None:
    """An undeclared cluster is not held against anything."""
    assert CONTRACTED not in assemble(context(), {ONE: PASSED})["checks"]
    assert CONTRACTED not in assemble(context(pool(None)), {ONE: PASSED})["checks"]


def test_the_return_list_names_each_sick_node_once() -> None:
    """With all checks that found it, in natural order."""
    outcomes = {ONE: outcome(sick=("n10", "n2")), TWO: outcome(sick=("n2",))}
    found = assemble(context(faults=BOTH), outcomes)

    assert found["return_list"] == [
        {"where": "n2", "checks": [ONE, TWO]},
        {"where": "n10", "checks": [ONE]},
    ]


def test_every_waiver_is_accounted_for() -> None:
    """Used, with how many rows; matched by nothing; or expired. Two may give one reason."""
    idle = Waiver(ONE, "n9", frozenset({"n9"}), date(2026, 12, 31), "agreed")
    past = Waiver(ONE, "n1", frozenset({"n1"}), date(2026, 1, 1), "agreed", expired=True)
    rows = [row(f"n1/gpu{index}", Verdict.WARN, waived=WAIVER) for index in range(3)]
    found = assemble(context(waivers=(WAIVER, idle, past)), {ONE: outcome(*rows)})["waivers"]

    assert [(w["where"], w["state"], w["rows"]) for w in found] == [
        ("n1", "used", 3),
        ("n9", "unmatched", 0),
        ("n1", "expired", 0),
    ]
