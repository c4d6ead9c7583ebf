"""What no rating may do: rise where something is missing or got worse, show other numbers than its file."""

from __future__ import annotations

import copy
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuassay.judge.catalog import TIERS
from gpuassay.rating.assessor import Statement, lowered
from gpuassay.rating.pages import rating_page
from gpuassay.rating.podium import RANKS
from gpuassay.rating.standings import categories, tiers
from gpuassay.rating.steps import EFFORTS, steps
from gpuassay.report.results import assemble
from gpuassay.report.words import VERDICTS
from gpuassay.session import Request, context, prepare
from rating import catalog
from recorded import build
from recorded.judge import ROOT
from test_rating_podium import DAY, rated_document

if TYPE_CHECKING:
    from collections.abc import Mapping

ORDER = ("skip", "pass", "warn", "unseen", "not_run", "error", "fail")
"""From harmless to grave, as far as a tier goes."""


@cache
def _context() -> Mapping[str, Any]:
    recording = build("slurm-b200-4")
    return context(prepare(Request(ROOT, f"recording:{recording}"), recording))


def outcome(verdict: str) -> dict[str, Any]:
    """Let a check come out so."""
    judged = verdict in ("pass", "warn", "fail")
    row = {"where": "gpu001", "count": 1, "at": {}, "metric": "m", "value": 1, "reference": None}
    row |= {"verdict": verdict, "reason": f"it was {verdict}", "evidence": ""}
    return {
        "verdict": verdict,
        "reason": f"it was {verdict}",
        "counts": {verdict: 1},
        "observations": [] if verdict == "not_run" else [row],
        "applicable": verdict != "skip",
        "cells": [1, int(judged)],
        "caps_at_gold": False,
        "warned": verdict == "warn",
        "waived": [],
        "sick": [],
        "doubtful": {},
        "accelerators": 8 * judged,
    }


def rated(outcomes: Mapping[str, str]) -> dict[str, Any]:
    """Give the results of a cluster whose checks came out so."""
    return assemble(_context(), {check: outcome(word) for check, word in outcomes.items()})


def rank(results: Mapping[str, Any]) -> int:
    """Give the place of a tier; what is not rated is no more than a ribbon not won."""
    return TIERS.index(results["tier"]["won"]) if results["tier"]["won"] else -1


@st.composite
def changes(draw: st.DrawFn) -> tuple[dict[str, str], dict[str, str]]:
    """Draw a cluster that is mostly in order, and the same with some results removed or worsened."""
    checks = sorted(_context()["checks"])
    before = dict.fromkeys(checks, "pass")
    before |= draw(st.dictionaries(st.sampled_from(checks), st.sampled_from(ORDER), max_size=6))
    after = dict(before)
    for check in draw(st.sets(st.sampled_from(checks), min_size=1, max_size=6)):
        worse = ORDER[ORDER.index(before[check]) :] if before[check] != "skip" else ("skip", "fail", "error")
        word = draw(st.sampled_from([*worse, "removed"]))
        if word == "removed":
            del after[check]
        else:
            after[check] = word
    return before, after


@settings(max_examples=60, deadline=None)
@given(changes())
def test_nothing_rises_by_getting_worse(pair: tuple[dict[str, str], dict[str, str]]) -> None:
    """Neither a tier nor a ceiling of any cluster, and what holds a tier is never fewer for a lower one."""
    before, after = map(rated, pair)
    assert rank(after) <= rank(before)
    held = [len(line["held_by"]) > 0 for line in tiers(after, catalog().tiers)]
    assert held == sorted(held)  # what holds a tier back holds all above it


@settings(max_examples=40, deadline=None)
@given(changes())
def test_sums_agree(pair: tuple[dict[str, str], dict[str, str]]) -> None:
    """Categories add up to all checks; each check that holds the next tier is in exactly one step."""
    results = rated(pair[1])
    by_category = categories(results, catalog().tiers)
    assert sum(line["checks"] for line in by_category) == len(results["checks"])
    assert all(sum(line["counts"].values()) == line["checks"] for line in by_category)
    each = tiers(results, catalog().tiers)
    ahead = steps(results, each)
    settled = [check for step in ahead["steps"] for check in step["checks"]]
    assert len(settled) == len(set(settled))
    efforts = [list(EFFORTS).index(step["effort"]) for step in ahead["steps"]]
    assert efforts == sorted(efforts)
    won = results["tier"]["won"]
    assert all(not line["held_by"] for line in each if won and TIERS.index(line["tier"]) <= TIERS.index(won))


@given(st.sampled_from([None, *TIERS]), st.lists(st.sampled_from([*TIERS, None]), max_size=4))
def test_no_statement_raises_a_tier(won: str | None, limits: list[str | None]) -> None:
    """Whatever is said, and in whatever order, the lowest word counts, and never more than was computed."""
    verdicts = ["underperforming" if most is None else f"at_most_{most}" for most in limits]
    verdicts = ["holds" if word == "at_most_platinum" else word for word in verdicts]
    said = [Statement("ui", "…", "user", DAY, ("seen",), word) for word in verdicts]
    left = lowered(won, said)
    order = [None, *TIERS]
    assert order.index(left) == min([order.index(won), *(order.index(most) for most in limits)])
    assert lowered(won, said[::-1]) == left
    assert RANKS[1:] == TIERS


@settings(max_examples=15, deadline=None)
@given(changes())
def test_the_arithmetic_on_the_page_is_that_of_the_file(pair: tuple[dict[str, str], dict[str, str]]) -> None:
    """Each number of both tables is read back from the page, and is the one of rating.json."""
    results = rated(pair[1])
    document = copy.deepcopy(rated_document())
    document["tiers"] = tiers(results, catalog().tiers)
    document["categories"] = categories(results, catalog().tiers)
    page = rating_page(document)
    for key in ("tiers", "categories"):
        body = page.split(f'data-sum="{key}"')[1].split("</table>")[0].split("<tbody>")[1]
        rows = [re.findall(r"<td[^>]*>(\d+)</td>", row) for row in body.split("</tr>") if "<td" in row]
        extra = ["warnings_allowed"] if key == "tiers" else []
        wanted = [
            [line["checks"], *(line["counts"].get(word, 0) for word in VERDICTS), *(line[k] for k in extra)]
            + ([len(line["held_by"])] if key == "tiers" else [])
            for line in document[key]
        ]
        assert [[int(number) for number in row] for row in rows] == wanted
