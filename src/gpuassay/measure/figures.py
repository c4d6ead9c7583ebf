"""From a rank's rows to figures: seconds to rates, and whether a figure can be relied on."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Absence, Fact, Scalar

_LEAST_REPEATS = 3

# Reasons for which NVML says that clocks are held down, beside the power limit, which is rightly reached
# under load: hardware slowdown 0x8, software thermal 0x20, hardware thermal 0x40, power brake 0x80.
UNDUE = 0x8 | 0x20 | 0x40 | 0x80


@dataclass(frozen=True)
class Case:
    """One case as a rank measured it, or the reason why it did not.

    ``noise`` is how far its repeats may lie apart, as a share of their median, before the figure is none.
    ``first`` is what came of it before it was measured again; what was wrong then stays wrong.
    """

    case: Mapping[str, Any]
    row: Record
    noise: float
    first: Case | None = None

    @property
    def name(self) -> str:
        """Say what it is in a few words: the values of the case."""
        return " ".join(str(value) for value in self.case.values() if value != "")

    @property
    def speed(self) -> float:
        """How fast it was, only to compare cases with each other; 0 where nothing was measured."""
        seconds, flops = self._seconds(), self.row.count("flops")
        if isinstance(seconds, Unread) or isinstance(flops, Unread):
            return 0.0
        return flops.value / statistics.median(seconds.value)

    @property
    def pace(self) -> float:
        """How often a second it was done, only to compare devices with each other; 0 where it was not."""
        seconds = self._failed() or self._seconds()
        return 0.0 if isinstance(seconds, Unread) else 1 / statistics.median(seconds.value)

    @property
    def is_noisy(self) -> bool:
        """Whether it was measured, and its repeats lie too far apart for a figure."""
        seconds = self._failed() or self._seconds()
        return not isinstance(seconds, Unread) and _spread(seconds.value) > self.noise

    @property
    def tflops(self) -> Fact[float]:
        """How many floating-point operations a second, in 10^12."""
        return self._rate("flops", 1e12)

    @property
    def gbps(self) -> Fact[float]:
        """How many bytes a second, in 10^9."""
        return self._rate("bytes", 1e9)

    @property
    def wrong(self) -> Fact[int]:
        """How many elements of the result were wrong, before or after the load, in any of its runs."""
        if self.first:
            return total([self.first.wrong, replace(self, first=None).wrong])
        if isinstance(failed := self._failed(), Unread):
            return failed
        counts = [self.row.count(key) for key in ("wrong", "changed")]
        unread = next((count for count in counts if isinstance(count, Unread)), None)
        if unread:
            return unread
        before, after = (count.value for count in counts if isinstance(count, Read))
        note = f"{self.name}: {before} before the load, {after} changed under it" if before or after else ""
        return Read(before + after, self.row.evidence, note)

    def _rate(self, of: str, unit: float) -> Fact[float]:
        """Divide the work by the median of the repeats; repeats that differ too much are no figure."""
        if isinstance(failed := self._failed(), Unread):
            return failed
        work, seconds = self.row.count(of), self._seconds()
        if isinstance(work, Unread):
            return work
        if isinstance(seconds, Unread):
            return seconds
        median = statistics.median(seconds.value)
        spread = _spread(seconds.value)
        if spread > self.noise:
            why = f"inconclusive: its repeats lie {spread:.1%} apart, more than {self.noise:.0%}"
            return Unread("failed", f"{self.name}: {why}", self.row.evidence)
        note = self._note(spread)
        if self.first:
            before = self.first._rate(of, unit)  # noqa: SLF001 - of its own kind
            said = f"{before.value:.4g}" if isinstance(before, Read) else before.why
            note += f"; measured again, its node alone: the first time {said}"
        return Read(work.value / median / unit, self.row.evidence, note, spread)

    def _note(self, spread: float) -> str:
        settled, via = self.row.flag("settled"), self.row.text("via")
        words = [self.name, f"repeats {spread:.1%} apart"]
        if isinstance(settled, Read) and not settled.value:
            words.append("its rate had not settled")
        if isinstance(via, Read) and via.value.startswith("a loop"):
            words.append(f"by {via.value}, which is another method")
        return ", ".join(words)

    def _failed(self) -> Unread | None:
        return lack(self.row, self.name, {"unsupported": "unsupported"})

    def _seconds(self) -> Fact[tuple[float, ...]]:
        fact = self.row.look("seconds")
        if isinstance(fact, Unread):
            return fact
        found = times(fact.value)
        if found is None:
            return self.row.garbled("seconds", fact.value, f"{_LEAST_REPEATS} positive numbers")
        return Read(found, self.row.evidence)


def times(value: object) -> tuple[float, ...] | None:
    """Take a list of repeats; None for what is none, or has too few."""
    values = value if isinstance(value, list) else []
    if len(values) < _LEAST_REPEATS or not all(map(is_time, values)):
        return None
    return tuple(map(float, values))


def _spread(seconds: Sequence[float]) -> float:
    return (max(seconds) - min(seconds)) / statistics.median(seconds)


def is_time(value: object) -> bool:
    """Tell whether a value can be a time in seconds: a positive number."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 < value < math.inf  # type: ignore[operator]


def best(cases: Sequence[Case]) -> Fact[float]:
    """Give the rate of the fastest case, also if that is no figure: a slower one must not stand in for it."""
    return (
        max(cases, key=lambda case: case.speed).tflops if cases else Unread("failed", "no case was measured")
    )


def total(facts: Sequence[Fact[int]]) -> Fact[int]:
    """Add up; one that is unread leaves the sum unread, unless it is not zero already."""
    read = [fact for fact in facts if isinstance(fact, Read)]
    unread = next((fact for fact in facts if isinstance(fact, Unread)), None)
    found = sum(fact.value for fact in read)
    if unread and not found:
        return unread
    noted = next((fact for fact in read if fact.value), read[0] if read else None)
    if noted is None:
        return Unread("failed", "no case was measured")
    return Read(found, noted.evidence, noted.note)


def ratio(one: Fact[float], other: Fact[float]) -> Fact[float]:
    """Divide one figure by another."""
    if isinstance(one, Unread):
        return one
    if isinstance(other, Unread):
        return other
    return Read(one.value / other.value, one.evidence, one.note, one.spread)


def median(facts: Sequence[Fact[Scalar]]) -> Fact[float]:
    """Give the median of those that were read."""
    values = [float(fact.value) for fact in facts if isinstance(fact, Read)]
    if not values:
        return next((fact for fact in facts if isinstance(fact, Unread)), Unread("failed", "there is none"))
    evidence = next(fact.evidence for fact in facts if isinstance(fact, Read))
    return Read(statistics.median(values), evidence, f"of {len(values)} GPUs")


def lack(row: Record, about: str = "", kinds: Mapping[str, Absence] = MappingProxyType({})) -> Unread | None:
    """Tell why a row that a rank or tool wrote has no figures; None if it has.

    ``about`` is what the row is about; ``kinds`` are those of states that are no failure.
    """
    status = row.text("status")
    if isinstance(status, Unread):
        return status
    if status.value == "ok":
        return None
    why = row.text("why")
    said = brief(why.value) if isinstance(why, Read) else "no reason was given"
    return Unread(kinds.get(status.value, "failed"), f"{about}: {said}" if about else said, row.evidence)
