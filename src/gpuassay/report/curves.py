"""Figures measured size by size: a curve for each, with the limits drawn in, on scales of powers."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuassay.judge.names import natural
from gpuassay.report import words
from gpuassay.report.places import shorten
from gpuassay.report.strips import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.report.view import Results, Row

SIZE = "size"
WIDTH, HEIGHT = 380.0, 170.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 8.0, 8.0, 22.0
_UNITS = {"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}
_MOST_LABELS, _LABEL_WIDTH = 5, 70.0
_FEWEST = 2  # points of a curve


@dataclass(frozen=True, slots=True)
class Label:
    """A line of a scale, and what it stands for."""

    place: float
    text: str


@dataclass(frozen=True, slots=True)
class Curve:
    """One figure by size; ``line`` and the values of ``limits`` are points for an SVG polyline."""

    check: str
    name: str
    metric: str
    marks: Sequence[Mark]
    line: str
    limits: Mapping[str, str]
    across: Sequence[Label]
    up: Sequence[Label]
    summary: str


@dataclass(frozen=True, slots=True)
class _Point:
    size: float
    value: float
    reference: float | None
    verdict: str
    at: str


def curves(results: Results) -> list[Curve]:
    """Draw each figure that was observed at two sizes or more."""
    found = []
    for check_id, check in sorted(results["checks"].items(), key=lambda pair: natural(pair[0])):
        lines: dict[tuple[str, str, str], list[_Point]] = defaultdict(list)
        for row in check["observations"]:
            if SIZE in row["at"]:
                others = " ".join(value for axis, value in row["at"].items() if axis != SIZE)
                lines[row["metric"], others, row["where"]] += _point(row)
        for (metric, others, where), points in lines.items():
            if len(points) >= _FEWEST:
                name = " ".join(filter(None, (others, shorten(where))))
                bounds = check.get("shares", {}).get(metric, {})
                found.append(_curve(check_id, metric, name, sorted(points, key=lambda one: one.size), bounds))
    return found


def _point(row: Row) -> Iterator[_Point]:
    """Read a row; one without a value, or of a size that is none, has no place in a picture."""
    number, _, unit = str(row["at"][SIZE]).partition(" ")
    value, reference = row["value"], row["reference"]
    if not number.isdigit() or not int(number) or unit not in _UNITS:
        return
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not value > 0:
        return
    known = isinstance(reference, (int, float)) and reference > 0
    size = math.log2(int(number)) + _UNITS[unit]
    yield _Point(size, value, reference if known else None, row["verdict"], str(row["at"][SIZE]))


def _curve(
    check: str, metric: str, name: str, points: Sequence[_Point], bounds: Mapping[str, float]
) -> Curve:
    limits = {
        level.partition("_")[0]: [(one.size, share * one.reference) for one in points if one.reference]
        for level, share in bounds.items()
    }
    heights = [one.value for one in points] + [height for line in limits.values() for _, height in line]
    low, high = math.floor(math.log10(min(heights))), math.ceil(math.log10(max(heights) * 1.05))
    first, last = points[0].size, points[-1].size

    def across(size: float) -> float:
        share = (size - first) / (last - first) if last > first else 0.5
        return round(LEFT + (WIDTH - LEFT - RIGHT) * share, 1)

    def up(value: float) -> float:
        share = (math.log10(value) - low) / max(1, high - low)
        return round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share, 1)

    marks = [
        Mark(across(one.size), up(one.value), one.verdict, f"{one.at}: {one.value:.4g}") for one in points
    ]
    return Curve(
        check,
        name,
        metric,
        marks,
        line=polyline((mark.x, mark.y) for mark in marks),
        limits={
            level: polyline((across(size), up(value)) for size, value in line)
            for level, line in limits.items()
            if line
        },
        across=_labels([Label(mark.x, one.at) for mark, one in zip(marks, points, strict=True)]),
        up=[Label(up(10.0**power), f"{10.0**power:g}") for power in range(low, high + 1)],
        summary=_summary(points),
    )


def _labels(every: Sequence[Label]) -> list[Label]:
    """Choose labels that do not run into each other; the last size is always named."""
    step, last = -(-len(every) // _MOST_LABELS), every[-1]
    return [*(one for one in every[:-1:step] if last.place - one.place > _LABEL_WIDTH), last]


def polyline(places: Iterator[tuple[float, float]]) -> str:
    """Write places in a picture as SVG's polyline takes them."""
    return " ".join(f"{x},{y}" for x, y in places)


def _summary(points: Sequence[_Point]) -> str:
    """Say in words what the picture shows, also to those who cannot see it."""
    best = max(points, key=lambda one: one.value)
    bad = [one.at for one in points if one.verdict not in words.IN_ORDER]
    said = f"{points[-1].value:.4g} at {points[-1].at}, at most {best.value:.4g} at {best.at}"
    return f"{said}; out of order at {', '.join(bad)}" if bad else said
