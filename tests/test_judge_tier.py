"""Tiers: what wins one, what holds it, what is still possible, and what can never raise one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.judge.catalog import TIERS, TierRule
from gpuassay.judge.coverage import CheckCoverage, Nodes, cover
from gpuassay.judge.tier import Award, Standing, award
from gpuassay.judge.verdict import Verdict

if TYPE_CHECKING:
    from random import Random

PASS, WARN, FAIL, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.SKIP
UNSEEN, ERROR, NOT_RUN = Verdict.UNSEEN, Verdict.ERROR, None
RULES = {
    "ribbon": TierRule(3, ("audit",)),
    "bronze": TierRule(2, ("audit",)),
    "silver": TierRule(2, ("audit", "perf")),
    "gold": TierRule(1, ("audit", "perf")),
    "platinum": TierRule(0, ("audit", "perf")),
}


def run(*verdicts: Verdict | None, phase: str = "audit") -> list[Standing]:
    """Let one check of each tier stand at a verdict, the ribbon's first; one of perf passes."""
    own = [
        Standing(f"audit.a.{tier}", tier, phase, verdict)
        for tier, verdict in zip(TIERS, verdicts, strict=False)
    ]
    return [*own, Standing("perf.a.b", "silver", "perf", PASS)]


def awarded(*standings: Standing, barred: tuple[str, ...] = (), accelerators: int = 8) -> Award:
    """Compute the tier under the rules of these tests."""
    return award(standings, RULES, accelerators_judged=accelerators, barred=barred)


def tiers(found: Award) -> tuple[str, str | None, str | None]:
    """Give state, tier won, and ceiling."""
    return (found.state, found.won, found.ceiling)


def test_all_passed_wins_platinum() -> None:
    """Nothing holds it, and the arithmetic says so line by line."""
    found = awarded(*run(PASS, PASS, PASS, PASS, PASS))

    assert tiers(found) == ("won", "platinum", "platinum")
    assert found.held_from_won == found.held_from_ceiling == ()
    assert [(line.tier, line.checks, line.won) for line in found.arithmetic] == [
        ("ribbon", 1, True),
        ("bronze", 2, True),
        ("silver", 4, True),
        ("gold", 5, True),
        ("platinum", 6, True),
    ]


@pytest.mark.parametrize("held", range(1, 5))
@pytest.mark.parametrize(
    ("verdict", "possible"), [(FAIL, False), (ERROR, True), (UNSEEN, True), (NOT_RUN, True)]
)
def test_what_did_not_pass_holds_its_tier_and_all_above(
    held: int, verdict: Verdict | None, *, possible: bool
) -> None:
    """The tier below is won. A fail lowers the ceiling too; what was not judged leaves it where it was."""
    found = awarded(*run(*(verdict if number == held else PASS for number in range(5))))
    below = TIERS[held - 1]

    assert tiers(found) == ("won", below, "platinum" if possible else below)
    assert [(by.tier, by.check) for by in found.held_from_won] == [(TIERS[held], f"audit.a.{TIERS[held]}")]
    assert bool(found.held_from_ceiling) is not possible


def test_a_skip_is_as_good_as_a_pass_beside_one() -> None:
    """What does not apply holds nothing."""
    assert tiers(awarded(*run(PASS, SKIP, SKIP, SKIP, SKIP))) == ("won", "platinum", "platinum")


@pytest.mark.parametrize(("warned", "won"), [(0, "platinum"), (1, "gold"), (2, "silver"), (3, "ribbon")])
def test_a_better_tier_forgives_fewer_warnings(warned: int, won: str) -> None:
    """Warnings of a tier and of those below it are counted in checks; beyond the rule each of them holds."""
    more = [Standing(f"audit.b.{number}", "ribbon", "audit", WARN) for number in range(warned)]
    found = awarded(*run(PASS, PASS, PASS, PASS, PASS), *more)

    assert tiers(found) == ("won", won, won)
    assert {by.check for by in found.held_from_ceiling} == {line.check for line in more}


def test_warnings_of_a_higher_tier_do_not_count_for_a_lower_one() -> None:
    """Silver's own warnings are nothing to bronze."""
    more = [Standing(f"audit.b.{number}", "silver", "audit", WARN) for number in range(9)]
    assert tiers(awarded(*run(PASS, PASS, PASS, PASS, PASS), *more)) == ("won", "bronze", "bronze")


@pytest.mark.parametrize(
    ("verdict", "won", "ceiling"),
    [
        (PASS, "gold", "gold"),
        (ERROR, "ribbon", "gold"),
        (UNSEEN, "ribbon", "gold"),
        (NOT_RUN, "ribbon", "gold"),
    ],
)
def test_a_cap_holds_platinum_whatever_stands_above_it(
    verdict: Verdict | None, won: str, ceiling: str
) -> None:
    """One row is short of platinum: if the others could be judged and passed, it still would be."""
    standings = run(PASS, verdict, PASS, PASS, PASS)
    standings[1] = replace(standings[1], caps_at_gold=True)

    assert tiers(awarded(*standings)) == ("won", won, ceiling)


def test_a_warning_below_an_error_holds_the_ceiling() -> None:
    """Were all that was not judged to pass, the check would warn: platinum is out of reach, gold is not."""
    standings = run(PASS, PASS, ERROR, PASS, PASS)
    standings[2] = replace(standings[2], warned=True)
    found = awarded(*standings)

    assert tiers(found) == ("won", "bronze", "gold")
    assert [by.check for by in found.held_from_ceiling] == ["audit.a.silver"]


def test_a_phase_in_which_all_was_skipped_proves_nothing() -> None:
    """A tier that rests on performance is out of reach of a cluster to which no performance check applies."""
    skipped = Standing("perf.a.b", "silver", "perf", SKIP)
    found = awarded(*run(PASS, PASS, PASS, PASS, PASS)[:-1], skipped)

    assert tiers(found) == ("won", "bronze", "bronze")
    assert [(by.tier, by.check, by.verdict) for by in found.held_from_won] == [("silver", "perf", "skip")]


def test_a_phase_that_this_version_does_not_have_is_not_run() -> None:
    """Checks that are not written yet win nothing."""
    found = awarded(*run(PASS, PASS, PASS, PASS, PASS)[:-1])

    assert tiers(found) == ("won", "bronze", "platinum")
    assert [(by.check, by.verdict) for by in found.held_from_won] == [("perf", "not_run")]


# --- the states ----------------------------------------------------------------------------------


def test_only_a_proven_fail_of_the_ribbon_is_underperforming() -> None:
    """It is named. An error in its place is merely incomplete, and a fail of a higher tier is neither."""
    failed = awarded(*run(FAIL, PASS, PASS, PASS, PASS))
    assert tiers(failed) == ("underperforming", None, None)
    assert failed.why == "failed what even a ribbon needs: audit.a.ribbon"
    assert not any(line.won or line.possible for line in failed.arithmetic)
    for verdict in (ERROR, UNSEEN, NOT_RUN):
        open_ = awarded(*run(verdict, PASS, PASS, PASS, PASS))
        assert tiers(open_) == ("not_rated", None, "platinum")
        assert open_.why == "incomplete: a ribbon needs audit.a.ribbon"
    assert awarded(*run(PASS, FAIL)).state == "won"


def test_without_any_accelerator_judged_it_is_unavailable() -> None:
    """Before all else: skips everywhere, or a failed ribbon, say nothing of a cluster without GPUs."""
    for verdict in (SKIP, PASS, FAIL, ERROR):
        found = awarded(*run(*[verdict] * 5), accelerators=0)
        assert (found.state, found.won) == ("unavailable", None)
        assert not any(line.won for line in found.arithmetic)


def test_what_bars_a_tier_is_told_and_the_ceiling_is_shown() -> None:
    """Undeclared, unsealed or altered: nothing can be won; a failed ribbon is still what it is."""
    why = ("no site file", "the sums do not match")
    found = awarded(*run(PASS, PASS, PASS, PASS, PASS), barred=why)
    assert tiers(found) == ("not_rated", None, "platinum")
    assert found.why == "no site file; the sums do not match"
    assert awarded(*run(FAIL, PASS), barred=why).state == "underperforming"


def test_too_many_warnings_of_the_ribbon_leave_no_tier() -> None:
    """Nothing failed and nothing is open: it is not rated, and the ribbon's warnings say why."""
    more = [Standing(f"audit.b.{number}", "ribbon", "audit", WARN) for number in range(4)]
    found = awarded(*run(PASS, PASS, PASS, PASS, PASS), *more)

    assert tiers(found) == ("not_rated", None, None)
    assert len(found.held_from_won) == 4


def test_the_document_holds_it_all() -> None:
    """It is what results.json has under `tier`."""
    document = awarded(*run(PASS, FAIL, PASS, PASS, PASS)).document()

    assert document["held_by"]["won"] == document["held_by"]["ceiling"]
    assert document["held_by"]["won"][0]["verdict"] == "fail"
    assert document["arithmetic"][1]["counts"] == {"pass": 1, "fail": 1}


# --- properties ----------------------------------------------------------------------------------

RANK: dict[str | None, int] = {None: -1, **{tier: rank for rank, tier in enumerate(TIERS)}}
RISING = (PASS, WARN, FAIL)
UNJUDGED = (UNSEEN, ERROR, NOT_RUN)

standings = st.lists(
    st.builds(
        Standing,
        st.integers(0, 10**6).map(str),
        st.sampled_from(TIERS),
        st.sampled_from(["audit", "perf"]),
        st.sampled_from([*Verdict, None]),
        st.just(""),
        st.booleans(),
        st.booleans(),
    ),
    min_size=1,
    max_size=10,
    unique_by=lambda line: line.check,
)
barring = st.sampled_from([(), ("undeclared",)])


def changed(lines: list[Standing], place: int, **change: object) -> list[Standing]:
    """Change one standing."""
    return [*lines[:place], replace(lines[place], **change), *lines[place + 1 :]]  # type: ignore[arg-type]


def not_above(lower: Award, upper: Award) -> bool:
    """Tell whether neither the tier won nor the ceiling of one run is above that of another."""
    return RANK[lower.won] <= RANK[upper.won] and RANK[lower.ceiling] <= RANK[upper.ceiling]


@given(standings, barring, st.data())
def test_worsening_a_result_raises_neither_tier_nor_ceiling(
    lines: list[Standing], barred: tuple[str, ...], data: st.DataObject
) -> None:
    """From pass to warn to fail, one step or two, and by every mark that one row can leave on a check."""
    place = data.draw(st.integers(0, len(lines) - 1))
    better, worse = sorted(data.draw(st.tuples(st.sampled_from(RISING), st.sampled_from(RISING))))
    before = awarded(*changed(lines, place, verdict=better), barred=barred)
    assert not_above(awarded(*changed(lines, place, verdict=worse), barred=barred), before)
    for mark in ({"caps_at_gold": True}, {"warned": True}):
        assert not_above(awarded(*changed(lines, place, **mark)), awarded(*lines))


@given(standings, st.data())
def test_taking_a_result_away_never_raises_the_tier(lines: list[Standing], data: st.DataObject) -> None:
    """Deselected, crashed, denied: what is not judged wins nothing that the judged result had not won."""
    place = data.draw(st.integers(0, len(lines) - 1))
    unjudged = data.draw(st.sampled_from(UNJUDGED))

    assert RANK[awarded(*changed(lines, place, verdict=unjudged)).won] <= RANK[awarded(*lines).won]


@given(standings, st.data())
def test_taking_a_pass_away_leaves_the_ceiling(lines: list[Standing], data: st.DataObject) -> None:
    """What was not judged is counted as passed, no better and no worse, so long as rows left no mark."""
    place = data.draw(st.integers(0, len(lines) - 1))
    lines = changed(lines, place, warned=False)
    passed = awarded(*changed(lines, place, verdict=PASS))
    for unjudged in UNJUDGED:
        assert awarded(*changed(lines, place, verdict=unjudged)).ceiling == passed.ceiling


@given(standings, barring, st.integers(0, 1), st.randoms(use_true_random=False))
def test_a_tier_does_not_depend_on_order_and_is_never_above_its_ceiling(
    lines: list[Standing], barred: tuple[str, ...], accelerators: int, random: Random
) -> None:
    """Grading goes by what was found; a tier is won only in the state that says so."""
    found = awarded(*lines, barred=barred, accelerators=accelerators)
    mixed = list(lines)
    random.shuffle(mixed)
    other = awarded(*mixed, barred=barred, accelerators=accelerators)

    assert tiers(found) == tiers(other)
    assert set(found.held_from_won) == set(other.held_from_won)
    assert set(found.held_from_ceiling) == set(other.held_from_ceiling)
    assert RANK[found.won] <= RANK[found.ceiling]
    assert (found.won is None) is (found.state != "won")
    assert found.held_from_won or found.ceiling == "platinum"


# --- coverage ------------------------------------------------------------------------------------


def test_coverage_adds_up_what_was_really_seen() -> None:
    """Skips do not apply, errors were not judged, and a check that was not run is expected all the same."""
    found = cover(
        Nodes(declared=5, answered=3, out=1),
        [
            CheckCoverage(PASS, cells_expected=8, cells_judged=8),
            CheckCoverage(FAIL, cells_expected=8, cells_judged=7),
            CheckCoverage(ERROR, cells_expected=8),
            CheckCoverage(SKIP, applicable=False),
            CheckCoverage(NOT_RUN),
        ],
    )
    assert found.document() == {
        "nodes": {"declared": 5, "answered": 3, "out": 1},
        "checks": {"expected": 5, "applicable": 4, "judged": 2, "not_run": 1},
        "cells": {"expected": 24, "judged": 15},
    }
