"""Hold accounts of months, and measured times, to the terms: met, missed or unknown, and what follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from gpuassay.sla.account import node_line, rack_line, standing
from gpuassay.sla.moments import months

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from fractions import Fraction
    from zoneinfo import ZoneInfo

    from gpuassay.sla.account import Line
    from gpuassay.sla.outages import History
    from gpuassay.sla.spans import Span
    from gpuassay.sla.terms import Band, Termination, Terms

Outcome: TypeAlias = Literal["met", "missed", "unknown"]
TIMES = ("detect", "isolate", "replace")


@dataclass(frozen=True, slots=True)
class Contract:
    """What is accounted for: which nodes, which of them stand in which rack, from when until when."""

    nodes: tuple[str, ...]
    racks: Mapping[str, tuple[str, ...]]
    span: Span
    zone: ZoneInfo


@dataclass(frozen=True, slots=True)
class Judged:
    """A line of the account against its promise.

    ``least`` and ``most`` are the credits in hundredths of the unit's monthly fee; they differ where
    something is unknown. A node of a rack has none: its rack is what was sold.
    """

    line: Line
    promised: Fraction
    outcome: Outcome
    least: int
    most: int
    rack: str = ""


@dataclass(frozen=True, slots=True)
class Right:
    """A right to terminate, and which months gave it."""

    unit: str
    why: str


def judge(contract: Contract, history: History, terms: Terms) -> list[Judged]:
    """Account for every node and rack in every month, and hold it to the terms."""
    stands = {node: standing(node, history, terms) for node in contract.nodes}
    rack_of = {node: rack for rack, nodes in contract.racks.items() for node in nodes}
    found = []
    for month in months(contract.span, contract.zone):
        for rack, nodes in contract.racks.items():
            line = rack_line(rack, month, [stands[node] for node in nodes], terms)
            found.append(_judged(line, terms))
        found += [
            _judged(node_line(node, month, stands[node], terms), terms, rack_of.get(node, ""))
            for node in contract.nodes
        ]
    return found


def outcome(least: Fraction | float, most: Fraction | float, promised: Fraction | float) -> Outcome:
    """Say whether a promise of at least so much is kept by a value between ``least`` and ``most``."""
    return "met" if least >= promised else "missed" if most < promised else "unknown"


def rights(judged: Iterable[Judged], terms: Termination) -> Iterator[Right]:
    """Find the rights to terminate that are certain, whatever the unknown time was."""
    units: dict[tuple[str, str], list[Judged]] = {}
    for one in judged:
        if not one.rack:
            units.setdefault((one.line.kind, one.line.unit), []).append(one)
    for (_, unit), rows in units.items():
        low = [row.line.month.name for row in rows if row.line.best < terms.below]
        if low:
            yield Right(unit, f"below {percent(terms.below)} in {', '.join(low)}")
        if missed := _in_a_row(rows, terms):
            yield Right(unit, f"missed in {', '.join(missed)}, {terms.missed} of {terms.of_months} months")


def timed(found: float | None, promised: int) -> Outcome:
    """Hold a measured time to the one that was promised."""
    return "unknown" if found is None else "met" if found <= promised else "missed"


def together(outcomes: Iterable[Outcome]) -> Outcome:
    """Join outcomes: one missed is missed; of none, or with one unknown, nothing is known."""
    found = set(outcomes)
    return "missed" if "missed" in found else "met" if found == {"met"} else "unknown"


def percent(share: Fraction) -> str:
    """Write a share exactly where that is short, else cut (not rounded up) after the fourth place."""
    scaled = share * 1_000_000
    whole = scaled.numerator // scaled.denominator
    return f"{whole // 10_000}.{whole % 10_000:04}".rstrip("0").rstrip(".") + " %"


def _judged(line: Line, terms: Terms, rack: str = "") -> Judged:
    promised = terms.availability.of(line.kind)
    bands = () if rack else terms.credits.of(line.kind)
    least, most = _credit(line.best, bands), _credit(line.worst, bands)
    return Judged(line, promised, outcome(line.worst, line.best, promised), least, most, rack)


def _credit(availability: Fraction, bands: Sequence[Band]) -> int:
    return max((band.percent for band in bands if availability < band.below), default=0)


def _in_a_row(rows: Sequence[Judged], terms: Termination) -> list[str]:
    """Find the first stretch of months in which enough were missed; rows are in order of time."""
    for first in range(len(rows)):
        stretch = rows[first : first + terms.of_months]
        missed = [row.line.month.name for row in stretch if row.outcome == "missed"]
        if len(missed) >= terms.missed:
            return missed
    return []
