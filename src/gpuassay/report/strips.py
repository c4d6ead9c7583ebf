"""Measured figures as a strip for each metric: every GPU of the fleet a mark, with the limits drawn in."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuassay.judge.names import natural
from gpuassay.report import words
from gpuassay.report.places import pieces, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.report.view import Check, Results

MOST_MARKS = 320
"""More marks than this cannot be told apart: neighbours share one then, which shows the slowest of them."""

WIDTH, HEIGHT, MARGIN = 600.0, 132.0, 8.0


@dataclass(frozen=True, slots=True)
class Mark:
    """A value in a picture: one GPU or the slowest of some, or one size on a curve."""

    x: float
    y: float
    verdict: str
    words: str


@dataclass(frozen=True, slots=True)
class Line:
    """One limit, or the figure itself."""

    y: float
    level: str
    label: str


@dataclass(frozen=True, slots=True)
class Strip:
    """One metric of one check over the fleet."""

    check: str
    metric: str
    marks: Sequence[Mark]
    lines: Sequence[Line]
    summary: str
    radius: float
    bundled: int
    provisional: bool


@dataclass(frozen=True, slots=True)
class _Point:
    where: str
    share: float
    verdict: str
    note: str


def strips(results: Results) -> list[Strip]:
    """Draw each metric whose fail is a share of a figure of the accelerator, if it was measured."""
    listed = sorted(results["checks"].items(), key=lambda pair: natural(pair[0]))
    drawn = (
        _strip(check_id, metric, check, bounds)
        for check_id, check in listed
        for metric, bounds in check.get("shares", {}).items()
        if "fail_below" in bounds and check["over"] == "gpu" and check["phase"] == "perf"
    )
    return [strip for strip in drawn if strip is not None]


def _strip(check_id: str, metric: str, check: Check, bounds: Mapping[str, float]) -> Strip | None:
    rows = [row for row in check["observations"] if row["metric"] == metric and not row["at"]]
    points = sorted((point for row in rows for point in _points(row)), key=lambda point: natural(point.where))
    if not points:
        return None
    bundled = -(-len(points) // MOST_MARKS)
    shown = [
        min(points[begin : begin + bundled], key=lambda point: point.share)
        for begin in range(0, len(points), bundled)
    ]
    levels = {"rated": 1.0, **{name.partition("_")[0]: bound for name, bound in bounds.items()}}
    low = min([*levels.values(), *(point.share for point in shown)]) - 0.02
    high = max([*levels.values(), *(point.share for point in shown)]) + 0.02

    def height(share: float) -> float:
        return round(MARGIN + (HEIGHT - 2 * MARGIN) * (high - share) / (high - low), 1)

    step = WIDTH / len(shown)
    marks = [
        Mark(
            round(step * (place + 0.5), 1),
            height(point.share),
            point.verdict,
            f"{shorten(point.where)}: {point.share:.3f}{point.note and f' ({point.note})'}",
        )
        for place, point in enumerate(shown)
    ]
    lines = [Line(height(share), level, f"{share:.2f}") for level, share in levels.items()]
    provisional = any(row.get("provisional") for row in rows)
    radius = round(max(1.0, min(4.0, 0.4 * step)), 1)
    return Strip(
        check_id, metric, marks, lines, _summary(points) + _spread(rows), radius, bundled, provisional
    )


def _points(row: Mapping[str, object]) -> Iterator[_Point]:
    """Unfold a row; one without value or figure has no place in a picture."""
    value, reference = row["value"], row["reference"]
    if not isinstance(value, (int, float)) or not isinstance(reference, (int, float)) or reference <= 0:
        return
    # GPUs with the very same value are folded into one row, and stand as one mark for each term of it.
    for piece in pieces(str(row["where"])):
        yield _Point(piece, value / reference, str(row["verdict"]), str(row.get("note", "")))


def _summary(points: Sequence[_Point]) -> str:
    """Say in words what the picture shows, also to those who cannot see it."""
    slowest = min(points, key=lambda point: point.share)
    middle = statistics.median(point.share for point in points)
    return (
        f"{words.plural(len(points), 'GPU')}: median {middle:.3f}, "
        f"slowest {slowest.share:.3f} ({shorten(slowest.where)})"
    )


def _spread(rows: Sequence[Mapping[str, object]]) -> str:
    """Say how far the repeats of a figure lie apart, and how many figures are those of a second run."""
    spreads = [spread for row in rows if isinstance(spread := row.get("spread"), float)]
    again = sum("measured again" in str(row.get("note", "")) for row in rows)
    said = f"; repeats up to {max(spreads):.1%} apart" if spreads else ""
    return said + (f"; {again} measured again" if again else "")
