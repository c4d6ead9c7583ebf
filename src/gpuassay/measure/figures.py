"""From a rank's rows to figures: seconds to rates, and whether a figure can be relied on."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact, Scalar

_LEAST_REPEATS = 3


@dataclass(frozen=True)
class Case:
    """One case as a rank measured it, or the reason why it did not.

    ``noise`` is how far its repeats may lie apart, as a share of their median, before the figure is none.
    """

    case: Mapping[str, Any]
    row: Record
    noise: float

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
    def tflops(self) -> Fact[float]:
        """How many floating-point operations a second, in 10^12."""
        return self._rate("flops", 1e12)

    @property
    def gbps(self) -> Fact[float]:
        """How many bytes a second, in 10^9."""
        return self._rate("bytes", 1e9)

    @property
    def wrong(self) -> Fact[int]:
        """How many elements of the result were wrong, before or after the load."""
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
        spread = (max(seconds.value) - min(seconds.value)) / median
        if spread > self.noise:
            why = f"inconclusive: its repeats lie {spread:.1%} apart, more than {self.noise:.0%}"
            return Unread("failed", f"{self.name}: {why}", self.row.evidence)
        return Read(work.value / median / unit, self.row.evidence, self._note(spread))

    def _note(self, spread: float) -> str:
        settled, via = self.row.flag("settled"), self.row.text("via")
        words = [self.name, f"repeats {spread:.1%} apart"]
        if isinstance(settled, Read) and not settled.value:
            words.append("its rate had not settled")
        if isinstance(via, Read) and via.value.startswith("a loop"):
            words.append(f"by {via.value}, which is another method")
        return ", ".join(words)

    def _failed(self) -> Unread | None:
        status = self.row.text("status")
        if isinstance(status, Unread):
            return status
        if status.value == "ok":
            return None
        why = self.row.text("why")
        said = brief(why.value) if isinstance(why, Read) else "no reason was given"
        kind = "unsupported" if status.value == "unsupported" else "failed"
        return Unread(kind, f"{self.name}: {said}", self.row.evidence)  # type: ignore[arg-type]

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
    if len(values) < _LEAST_REPEATS or not all(map(_is_time, values)):
        return None
    return tuple(map(float, values))


def _is_time(value: object) -> bool:
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
    return Read(one.value / other.value, one.evidence, one.note)


def median(facts: Sequence[Fact[Scalar]]) -> Fact[float]:
    """Give the median of those that were read."""
    values = [float(fact.value) for fact in facts if isinstance(fact, Read)]
    if not values:
        return next((fact for fact in facts if isinstance(fact, Unread)), Unread("failed", "there is none"))
    evidence = next(fact.evidence for fact in facts if isinstance(fact, Read))
    return Read(statistics.median(values), evidence, f"of {len(values)} GPUs")
