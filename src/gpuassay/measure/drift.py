"""Whether something is as fast at its end as at its begin, told so that noise is not taken for a loss."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuassay.judge.fact import Fact

LEAST = 8
"""Of fewer windows nobody can tell a drift from chance."""
_TENTH, _FEW = 10, 3
_NORMAL = 1.4826  # the median deviation of normal values, times this, is their standard deviation
_OF_MEDIAN = 1.2533  # the standard error of a median of normal values, in those of their mean: sqrt(pi / 2)


@dataclass(frozen=True)
class _Part:
    """Some windows that follow each other: their median, and its standard error as a share of it."""

    median: float
    error: float


def last_of_first(rates: Sequence[float], most_error: float) -> Fact[float]:
    """Give the median of the last tenth as a share of that of the first.

    Medians, so that a window that was disturbed counts for no more than another. Where the windows of a
    part lie so far apart that the share may be off by more than ``most_error``, it is none.
    """
    if len(rates) < LEAST:
        return Unread("failed", f"too short: {len(rates)} windows, and a drift takes {LEAST}")
    size = max(_FEW, len(rates) // _TENTH)
    first, last = _part(rates[:size]), _part(rates[-size:])
    if not first.median:
        return Unread("failed", "nothing was done in its first tenth")
    share = last.median / first.median
    error = share * math.hypot(first.error, last.error)
    words = f"{first.median:.4g} in the first tenth, {last.median:.4g} in the last"
    if error > most_error:
        why = f"inconclusive: {words}, of windows that lie so far apart that it may be off by {error:.2f}"
        return Unread("failed", why)
    return Read(round(share, 4), "", f"{words}, ±{error:.2g}")


def lowest_of_median(rates: Sequence[float]) -> Fact[float]:
    """Give the slowest tenth, wherever it lies, as a share of the median of all."""
    median = statistics.median(rates) if len(rates) >= LEAST else 0.0
    if not median:
        return Unread("failed", f"too short or nothing done: {len(rates)} windows")
    size = max(_FEW, len(rates) // _TENTH)
    lowest = min(statistics.median(rates[at : at + size]) for at in range(len(rates) - size + 1))
    return Read(round(lowest / median, 4), "", f"{lowest:.4g} at its slowest, {median:.4g} as a rule")


def _part(rates: Sequence[float]) -> _Part:
    median = statistics.median(rates)
    spread = _NORMAL * statistics.median([abs(one - median) for one in rates])
    return _Part(median, _OF_MEDIAN * spread / math.sqrt(len(rates)) / median if median else 0.0)
