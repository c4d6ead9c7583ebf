"""How fast a rank was, beat by beat, and whether it was so at the end as at the beginning."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from typing import TYPE_CHECKING

from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact
    from gpuassay.measure.journals import Journal

    Series = Sequence[tuple[float, float]]
    """When, in seconds under load, and how fast."""

_HOUR_S = 3600.0
_QUARTER = 4
_LEAST = 3
"""Of fewer beats on either side nobody can tell a drift from chance."""


def number(row: Record, key: str) -> float | None:
    """Read a positive number; None for what is none."""
    fact = row.look(key)
    value = fact.value if isinstance(fact, Read) else None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf
    return float(value) if is_number else None  # type: ignore[arg-type]


def products(journals: Sequence[Journal]) -> Mapping[str, Series]:
    """Give how many operations a second its products made (10^12), by format."""
    flops = {}
    for one in journals:
        for row in _rows(one, "products"):
            name, count = row.text("format"), row.count("flops")
            if isinstance(name, Read) and isinstance(count, Read):
                flops[name.value] = count.value
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for at, beat in _beats(journals):
        name, speed = beat.text("format"), _calls_per_s(beat, "gemm")
        if isinstance(name, Read) and speed and name.value in flops:
            found[name.value].append((at, speed * flops[name.value] / 1e12))
    return found


def exchanges(journals: Sequence[Journal]) -> Mapping[str, Series]:
    """Give how many bytes a second each rank's exchanges took and gave (10^9), by kind and size."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for at, beat in _beats(journals):
        size, speed = beat.count("bytes"), _calls_per_s(beat, "exchange")
        if isinstance(size, Read) and speed:
            found[_what(beat, "bytes")].append((at, speed * size.value / 1e9))
    return found


def drift(told: Mapping[str, Series]) -> Fact[float] | None:
    """Give the median of the last hour as a share of the first's, at its worst; None if nothing was measured.

    What is shorter than two hours is divided into quarters.
    """
    shares: list[tuple[float, str]] = []
    for name, series in told.items():
        end = max(at for at, _ in series)
        window = min(_HOUR_S, end / 2) if end >= _HOUR_S * 2 else end / _QUARTER
        first = [speed for at, speed in series if at <= window]
        last = [speed for at, speed in series if at > end - window]
        if len(first) < _LEAST or len(last) < _LEAST:
            continue
        before, after = statistics.median(first), statistics.median(last)
        words = "hour" if window == _HOUR_S else "quarter"
        shares.append((after / before, f"{name}: {before:.4g} in the first {words}, {after:.4g} in the last"))
    if shares:
        share, note = min(shares)
        return Read(round(share, 4), "", note)
    if not told:
        return None
    return Unread("failed", f"too short: fewer than {_LEAST} beats lie at its begin and at its end")


def efficiency(journals: Sequence[Journal]) -> Fact[float] | None:
    """Add up what both did, by what each takes alone, and divide it by the time in which they did it."""
    done = spent = 0.0
    for one in journals:
        alone = {"gemm": _alone(one, "products", "format"), "exchange": _alone(one, "exchanges", "bytes")}
        for beat in one.beats:
            span, keys = number(beat, "span"), {"gemm": "format", "exchange": "bytes"}
            for part, key in keys.items():
                calls = number(beat.record(part), "calls")
                seconds = alone[part].get(_what(beat, key))
                if not span or calls is None or seconds is None:
                    return None
                done += calls * seconds
            spent += span or 0.0
    return (
        Read(round(done / spent, 3), "", "1 is one after the other, 2 is both at once as if alone")
        if spent
        else None
    )


def _alone(journal: Journal, kind: str, key: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for row in _rows(journal, kind):
        what, seconds = _what(row, key), number(row, "seconds")
        if what and seconds:
            found[what] = seconds
    return found


def _what(row: Record, key: str) -> str:
    """Say what a row is about: a format, or a collective and its bytes; empty where it does not tell."""
    said = [row.look(one) for one in (("collective", key) if key == "bytes" else (key,))]
    return " ".join(str(one.value) for one in said if isinstance(one, Read))


def _rows(journal: Journal, kind: str) -> Sequence[Record]:
    listed = journal.begin.listed(kind) if journal.begin else None
    return listed.value if isinstance(listed, Read) else ()


def _beats(journals: Sequence[Journal]) -> list[tuple[float, Record]]:
    """Give all beats with the seconds under load at their ends, over all segments."""
    spent, found = 0.0, []
    for one in journals:
        for beat in one.beats:
            spent += number(beat, "span") or 0.0
            found.append((spent, beat))
    return found


def _calls_per_s(beat: Record, part: str) -> float:
    calls, seconds = (number(beat.record(part), key) for key in ("calls", "seconds"))
    return calls / seconds if calls and seconds else 0.0
