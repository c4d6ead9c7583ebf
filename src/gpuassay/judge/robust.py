"""Which of many numbers lies apart from the others, told so that a few odd ones do not hide themselves."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST = 4
"""Fewer values have no meaningful median (docs/decisions.md)."""

_NORMAL = 1.4826  # the median deviation of normal values, times this, is their standard deviation
_LEAST_DEVIATION = 0.005  # of the median: where all are alike, the least difference would be an outlier


def deviation(numbers: Sequence[float]) -> float:
    """Give the robust standard deviation of some numbers."""
    centre = statistics.median(numbers)
    spread = statistics.median([abs(one - centre) for one in numbers])
    return max(_NORMAL * spread, _LEAST_DEVIATION * abs(centre))
