"""What users wait for, in seconds: a bar for each storage tier, of the slowest node, with the limits."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuassay.judge.names import natural
from gpuassay.report import words
from gpuassay.report.places import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.report.view import Check, Results, Row

TIER = "tier"
WIDTH, LEFT, STEP, TOP, BOTTOM = 600.0, 150.0, 26.0, 6.0, 18.0
_ROOM = 0.72  # of the width for the longest: what it is stands behind it
_BOUND = re.compile(r"(platinum|warn|fail) above ([\d.]+)")


@dataclass(frozen=True, slots=True)
class Bar:
    """One tier: where its bar is and how long, and what is written before and behind it."""

    y: float
    width: float
    verdict: str
    name: str
    words: str


@dataclass(frozen=True, slots=True)
class Bound:
    """One limit, as a line across the bars."""

    x: float
    level: str
    label: str


@dataclass(frozen=True, slots=True)
class Bars:
    """One figure by tier."""

    check: str
    metric: str
    bars: Sequence[Bar]
    bounds: Sequence[Bound]
    height: float
    summary: str
    provisional: bool


def bars(results: Results) -> list[Bars]:
    """Draw each figure in seconds that was observed by tier."""
    found = []
    for check_id, check in sorted(results["checks"].items(), key=lambda pair: natural(pair[0])):
        slowest: dict[str, dict[str, Row]] = defaultdict(dict)
        for row in check["observations"]:
            tier, metric = row["at"].get(TIER), row["metric"]
            if tier and metric.endswith("_seconds") and _seconds(row) > 0:
                worst = slowest[metric].get(tier)
                if worst is None or _seconds(row) > _seconds(worst):
                    slowest[metric][tier] = row
        found += [_drawn(check_id, metric, check, tiers) for metric, tiers in slowest.items()]
    return found


def _seconds(row: Row) -> float:
    """Read a time; 0 for what is none."""
    value = row["value"]
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if number and 0 < value < float("inf") else 0.0


def _drawn(check_id: str, metric: str, check: Check, tiers: Mapping[str, Row]) -> Bars:
    limits = {level: float(bound) for level, bound in _BOUND.findall(check.get("limits", {}).get(metric, ""))}
    longest = max(_seconds(row) for row in tiers.values())
    shown = {level: bound for level, bound in limits.items() if bound <= 2 * longest}
    scale = (WIDTH - LEFT) * _ROOM / max([longest, *shown.values()])
    drawn = [
        Bar(
            TOP + STEP * number,
            round(max(1.0, scale * _seconds(row)), 1),
            row["verdict"],
            tier,
            f"{_seconds(row):.3g} s, {shorten(row['where'])}",
        )
        for number, (tier, row) in enumerate(tiers.items())
    ]
    return Bars(
        check_id,
        metric,
        drawn,
        [Bound(round(LEFT + scale * bound, 1), level, f"{bound:g}") for level, bound in shown.items()],
        TOP + STEP * len(drawn) + BOTTOM,
        _summary(tiers),
        any(row.get("provisional") for row in tiers.values()),
    )


def _summary(tiers: Mapping[str, Row]) -> str:
    """Say in words what the picture shows, also to those who cannot see it."""
    told = ", ".join(f"{tier} {_seconds(row):.3g} s" for tier, row in tiers.items())
    bad = [tier for tier, row in tiers.items() if row["verdict"] not in words.IN_ORDER]
    return f"slowest of each tier: {told}" + (f"; out of order: {', '.join(bad)}" if bad else "")
