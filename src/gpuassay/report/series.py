"""What was measured over time: a line for each subject, those that are out of order drawn over the others."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuassay.judge.names import natural
from gpuassay.report.curves import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Label, polyline
from gpuassay.report.places import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpuassay.judge.observe import Series
    from gpuassay.report.view import Results

MOST_SUBJECTS, MOST_POINTS = 32, 60
_LINES = 4  # of a scale


@dataclass(frozen=True, slots=True)
class Picture:
    """One figure over time; ``lines`` are points for an SVG polyline, with the place that each is of.

    ``sick`` are lines of subjects that are out of order.
    """

    check: str
    metric: str
    lines: Sequence[tuple[str, str]]
    sick: Sequence[tuple[str, str]]
    across: Sequence[Label]
    up: Sequence[Label]
    summary: str


def documents(series: Iterable[Series], sick: frozenset[str]) -> list[dict[str, Any]]:
    """Write series as results have them: of so many subjects, the sick ones first, and of so many points."""
    found = list(series)
    places = sorted(
        {one.subject.where for one in found}, key=lambda place: (place not in sick, natural(place))
    )
    kept = frozenset(places[:MOST_SUBJECTS])
    return [
        {"where": one.subject.where, "metric": one.metric, "points": _thinned(one.points)}
        for one in found
        if one.subject.where in kept and one.points
    ]


def pictures(results: Results) -> list[Picture]:
    """Draw each figure that some check keeps over time."""
    found = []
    for check_id, check in sorted(results["checks"].items(), key=lambda pair: natural(pair[0])):
        kept = check.get("series", [])
        sick = {row["where"] for row in check["observations"] if row["verdict"] in ("fail", "error", "warn")}
        found += [
            _picture(check_id, metric, [one for one in kept if one["metric"] == metric], sick)
            for metric in dict.fromkeys(one["metric"] for one in kept)
        ]
    return found


def _thinned(points: Sequence[tuple[float, float]]) -> list[list[float]]:
    step = math.ceil(len(points) / MOST_POINTS)
    return [[round(x, 2), round(y, 3)] for x, y in points[::step]]


def _picture(check: str, metric: str, kept: Sequence[Mapping[str, Any]], sick: set[str]) -> Picture:
    xs: list[float] = [x for one in kept for x, _ in one["points"]]
    ys: list[float] = [y for one in kept for _, y in one["points"]]
    low, high, first, last = min(ys), max(ys), min(xs), max(xs)
    room = max(0.05 * abs(high), 1e-9) if high - low < 0.05 * abs(high) else 0.0  # noise fills no picture
    low, high = low - room, high + room

    def across(x: float) -> float:
        return round(
            LEFT + (WIDTH - LEFT - RIGHT) * ((x - first) / (last - first) if last > first else 0.5), 1
        )

    def up(y: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (y - low) / (high - low), 1)

    drawn = [
        (
            shorten(one["where"]),
            polyline((across(x), up(y)) for x, y in one["points"]),
            one["where"] in sick,
        )
        for one in kept
    ]
    scale = [low + (high - low) * part / _LINES for part in range(_LINES + 1)]
    return Picture(
        check,
        metric,
        lines=[(place, line) for place, line, out in drawn if not out],
        sick=[(place, line) for place, line, out in drawn if out],
        across=[Label(across(first), f"{first:g} s"), Label(across(last), f"{last:g} s")],
        up=[Label(up(value), f"{value:.4g}") for value in scale],
        summary=f"{len(kept)} lines from {min(ys):.4g} to {max(ys):.4g} over {last - first:g} s",
    )
