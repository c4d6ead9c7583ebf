"""How a kernel is timed: without a gap from the first call on, from the plateau on, several times.

A GPU that was idle runs faster than it can for long: its first seconds say nothing of a training run. So
the calls go on until their rate has settled, and what counts comes after that. The device never runs dry:
the next calls are queued before those under way have been timed, by the device's own clock.
"""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpuassay.measure.work.device import Device

    Kernel = Callable[[int], object]  # takes the number of the call, to choose its operands by

_WINDOW = 8  # chunks whose rates are compared to tell whether they have settled
_MOST_VARIATION = 0.02
_MOST_DRIFT = 0.01
_MOST_CALLS = 1 << 14  # in one chunk


@dataclass(frozen=True)
class Plan:
    """How long to time: ``seconds`` in all, in ``repeats`` parts, after ``warm_least`` to ``warm_most``."""

    seconds: float = 10.0
    repeats: int = 3
    warm_least: float = 2.0
    warm_most: float = 45.0
    chunk: float = 0.1


def plan(seconds: float, *, warm: bool) -> Plan:
    """Plan to time from the plateau on; or at once, at the clocks of a device that was idle."""
    return Plan(seconds=seconds) if warm else Plan(seconds=seconds, warm_least=0.0, warm_most=0.0, chunk=0.02)


TINY = Plan(seconds=0.15, warm_least=0.02, warm_most=0.3, chunk=0.01)
"""For a processor, where the numbers show only that all of it works."""


@dataclass(frozen=True)
class Timing:
    """What came of it: seconds of one call in each repeat, and whether the rate had settled before."""

    seconds: tuple[float, ...]
    calls: int
    warm_seconds: float
    settled: bool

    def document(self) -> dict[str, Any]:
        """Give it as a rank prints it."""
        return asdict(self)


def time_kernel(device: Device, kernel: Kernel, plan: Plan) -> Timing:
    """Time a kernel."""
    calls = _calls(device, kernel, plan.chunk)
    chunks = _chunks(device, kernel, calls)
    warm, settled = _warm(chunks, plan)
    seconds, chunked = [], 0
    for _ in range(plan.repeats):
        spent, count = 0.0, 0
        while spent < plan.seconds / plan.repeats:
            spent += next(chunks)
            count += 1
        seconds.append(spent / (count * calls))
        chunked += count
    device.wait()
    return Timing(tuple(seconds), chunked * calls, warm, settled)


def settled(chunks: Sequence[float]) -> bool:
    """Tell whether the last chunks took alike long, and the later ones no longer than the earlier ones."""
    last = list(chunks)[-_WINDOW:]
    if len(last) < _WINDOW:
        return False
    mean = statistics.fmean(last)
    early, late = statistics.fmean(last[: _WINDOW // 2]), statistics.fmean(last[_WINDOW // 2 :])
    return statistics.pstdev(last) < _MOST_VARIATION * mean and abs(late - early) < _MOST_DRIFT * mean


def _warm(chunks: Iterator[float], plan: Plan) -> tuple[float, bool]:
    """Let chunks go by until they have settled; give the seconds that took, and whether they have."""
    spent, seen = 0.0, deque[float](maxlen=_WINDOW)
    while spent < plan.warm_most:
        seen.append(next(chunks))
        spent += seen[-1]
        if spent >= plan.warm_least and settled(seen):
            return spent, True
    return spent, False


def _calls(device: Device, kernel: Kernel, chunk: float) -> int:
    """Find how many calls make a chunk; the first, which may choose or compile a kernel, is not timed."""
    kernel(0)
    device.wait()
    calls = 1
    while calls < _MOST_CALLS:
        begin = device.mark()
        for number in range(calls):
            kernel(number)
        end = device.mark()
        end.wait()
        spent = begin.until(end)
        if spent >= chunk / 4:
            return max(1, min(_MOST_CALLS, round(calls * chunk / spent)))
        calls *= 2
    return calls


def _chunks(device: Device, kernel: Kernel, calls: int) -> Iterator[float]:
    """Yield the seconds of one chunk after the other, while the next one is already queued."""
    marks = deque([device.mark()])
    number = 0
    while True:
        for _ in range(calls):
            kernel(number)
            number += 1
        marks.append(device.mark())
        if len(marks) > 2:  # noqa: PLR2004 - begin and end of the chunk before, and the end of this one
            begin = marks.popleft()
            marks[0].wait()
            yield begin.until(marks[0])
