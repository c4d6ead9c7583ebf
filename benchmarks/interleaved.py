"""Two ways to do the same, in turn in one process, and what their ratio is, with an interval.

A machine that others use changes its speed all the time, but both ways of one round meet nearly the same of
it: so each round has a ratio of its own, and the median of these counts. Its interval is that of order
statistics, which supposes nothing of how the ratios lie; ways take turns in being first.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LEAST_ROUNDS = 6
"""The median of so many lies between the least and the largest of them 97 times in 100; of fewer, not 95."""

_BESIDE = 0.025  # of the chance may lie on either side of the interval
_INSIDE, _OUTSIDE, _UNDECIDED = 0, 1, 2
WORDS = {_INSIDE: "proven", _OUTSIDE: "NOT SO", _UNDECIDED: "undecided: more rounds, or a quieter machine"}


@dataclass(frozen=True)
class Compared:
    """The median of the rounds' ratios of one way to another, and its interval of 95 percent."""

    ratio: float
    low: float
    high: float
    rounds: int

    def __str__(self) -> str:
        """Give it for people."""
        return f"{self.ratio:.4f} [{self.low:.4f}, {self.high:.4f}] over {self.rounds} rounds"

    def against(self, least: float, most: float) -> int:
        """Hold the interval to bounds: 0 it lies between them, 1 it lies beyond one, 2 it tells neither."""
        if self.low > most or self.high < least:
            return _OUTSIDE
        return _INSIDE if least <= self.low and self.high <= most else _UNDECIDED


def in_turn(one: Callable[[], float], other: Callable[[], float], rounds: int) -> list[tuple[float, float]]:
    """Give what both give in each round; every second round the other way comes first."""
    pairs = []
    for number in range(rounds):
        if number % 2:
            second = other()
            pairs.append((one(), second))
        else:
            pairs.append((one(), other()))
    return pairs


def compare(pairs: Sequence[tuple[float, float]]) -> Compared:
    """Compare the first of each pair with the second. Raises ValueError on too few rounds."""
    if len(pairs) < LEAST_ROUNDS:
        raise ValueError(f"{len(pairs)} rounds tell no interval: {LEAST_ROUNDS} do")
    logs = sorted(math.log(one / other) for one, other in pairs)
    cut = _cut(len(logs))
    ratio, low, high = map(math.exp, (statistics.median(logs), logs[cut], logs[-1 - cut]))
    return Compared(ratio, low, high, len(pairs))


def _cut(count: int) -> int:
    """Tell how many of the sorted values lie outside on either side: each is below the median by a coin."""
    chance, cut = 0.5**count, 0
    while chance + math.comb(count, cut + 1) * 0.5**count <= _BESIDE:
        cut += 1
        chance += math.comb(count, cut) * 0.5**count
    return cut
