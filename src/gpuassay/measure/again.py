"""Whom a workload measures once more before a figure of theirs is believed: one run alone may mislead.

A GPU differs from itself by up to 2.2 % from run to run, so one that lags behind its pool, or whose repeats
lie too far apart, is measured a second time, its node alone. The second figure decides, and both are
recorded.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from typing import TYPE_CHECKING

from gpuassay.judge import robust

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpuassay.measure.ranks import Measured

SUFFIX = "_again"
"""Of the name under which the second measurement lies in a recording."""

# As `against_pool` warns in thresholds.toml: whoever would be warned of there is measured again.
_LAGS_BELOW, _BEYOND = 0.97, 3.5


def doubtful(measured: Iterable[Measured], pools: Mapping[str, str]) -> set[str]:
    """Name the nodes with a GPU that lags behind its like in any case, or has no figure for its noise."""
    found: set[str] = set()
    paces: dict[tuple[object, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for gpu in measured:
        for number, case in enumerate(gpu.cases if gpu.gpu else ()):
            if case.is_noisy:
                found.add(gpu.node)
            elif case.pace:
                paces[pools.get(gpu.node, ""), gpu.models, number][gpu.node].append(case.pace)
    for by_node in paces.values():
        numbers = [pace for own in by_node.values() for pace in own]
        found |= {node for node, own in by_node.items() if _lags(min(own), numbers)}
    return found


def _lags(pace: float, numbers: list[float]) -> bool:
    if len(numbers) < robust.LEAST:
        return False
    centre = statistics.median(numbers)
    return pace < _LAGS_BELOW * centre and centre - pace > _BEYOND * robust.deviation(numbers)
