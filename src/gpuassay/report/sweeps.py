"""Sweeps of storage as heat maps: block across, what is in flight upwards, the darker the faster."""

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

    from gpuassay.report.view import Results, Row

AXES = ("pattern", "block", "depth", "jobs")
LEFT, CELL_WIDTH, CELL_HEIGHT = 74.0, 94.0, 22.0
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30}
_BLOCK = re.compile(r"(\d+)([kmg]?)")
_FAINTEST, _DARKEST = 0.06, 0.5


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of a sweep; ``share`` is its rate beside the fastest of the map."""

    x: float
    y: float
    share: float
    verdict: str
    text: str
    words: str

    @property
    def opacity(self) -> float:
        """How much of its colour it has: never so much that the figure in it cannot be read."""
        return round(_DARKEST * self.share, 3)


@dataclass(frozen=True, slots=True)
class Label:
    """The name of a column or row, and where its middle is."""

    place: float
    text: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """One pattern on one mount of one node."""

    check: str
    name: str
    volume: str
    metric: str
    cells: Sequence[Cell]
    across: Sequence[Label]
    up: Sequence[Label]
    width: float
    height: float
    summary: str


def sweeps(results: Results) -> list[Sweep]:
    """Draw each pattern that was observed over blocks and depths."""
    found = []
    for check_id, check in sorted(results["checks"].items(), key=lambda pair: natural(pair[0])):
        maps: dict[tuple[str, str, str, str], list[Row]] = defaultdict(list)
        for row in check["observations"]:
            at = row["at"]
            if all(axis in at for axis in AXES) and _BLOCK.fullmatch(str(at["block"])):
                maps[row["metric"], row["where"], str(at["pattern"]), str(at.get("volume", ""))].append(row)
        for (metric, where, pattern, volume), rows in maps.items():
            name = f"{shorten(where)} {pattern}"
            found.append(_sweep(check_id, name, volume, metric, rows))
    return found


def _sweep(check: str, name: str, volume: str, metric: str, rows: Sequence[Row]) -> Sweep:
    blocks = sorted({str(row["at"]["block"]) for row in rows}, key=_bytes)
    lanes = sorted({(str(row["at"]["depth"]), str(row["at"]["jobs"])) for row in rows}, key=_in_flight)
    most = max((value for row in rows if (value := _value(row)) is not None), default=0.0)
    height = CELL_HEIGHT * len(lanes)
    cells = []
    for row in rows:
        lane = lanes.index((str(row["at"]["depth"]), str(row["at"]["jobs"])))
        x = LEFT + CELL_WIDTH * blocks.index(str(row["at"]["block"]))
        cells.append(_cell(row, x, height - CELL_HEIGHT * (lane + 1), most))
    return Sweep(
        check,
        name,
        volume,
        metric,
        cells,
        across=[Label(LEFT + CELL_WIDTH * (at + 0.5), block) for at, block in enumerate(blocks)],
        up=[Label(height - CELL_HEIGHT * (at + 0.5), " x ".join(lane)) for at, lane in enumerate(lanes)],
        width=LEFT + CELL_WIDTH * len(blocks),
        height=height + CELL_HEIGHT,
        summary=_summary(rows, most),
    )


def _cell(row: Row, x: float, y: float, most: float) -> Cell:
    value, at = _value(row), row["at"]
    said = f"{value:.3g}" if value is not None else str(row["verdict"])
    place = f"{at['block']}, depth {at['depth']}, {at['jobs']} jobs"
    share = round(max(_FAINTEST, value / most), 3) if value is not None and most else 0.0
    return Cell(x, y, share, row["verdict"], said, f"{place}: {said}")


def _summary(rows: Sequence[Row], most: float) -> str:
    """Say in words what the picture shows, also to those who cannot see it."""
    best = next((row["at"] for row in rows if _value(row) == most), None)
    if best is None or not most:
        return "nothing was measured"
    bad = sum(row["verdict"] not in words.IN_ORDER for row in rows)
    said = f"at most {most:.3g} with {best['block']}, depth {best['depth']}, {best['jobs']} jobs"
    return f"{said}; out of order at {words.plural(bad, 'point')}" if bad else said


def _value(row: Mapping[str, object]) -> float | None:
    value = row["value"]
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
    return float(value) if usable else None  # type: ignore[arg-type]


def _bytes(block: str) -> int:
    found = _BLOCK.fullmatch(block)
    return int(found[1]) << _UNITS[found[2]] if found else 0


def _in_flight(lane: tuple[str, str]) -> tuple[int, int]:
    depth, jobs = (int(word) if word.isdigit() else 0 for word in lane)
    return depth * jobs, jobs
