"""Timing: from the plateau on, without a gap, in several parts; here by a clock that the test sets."""

from __future__ import annotations

from typing import Any, cast

import pytest

from gpuassay.measure.work import timing
from gpuassay.measure.work.timing import Plan, settled, time_kernel


class Clocked:
    """A device whose queue takes as long as the test says, call by call."""

    def __init__(self, seconds: list[float]) -> None:
        self.seconds = seconds
        self.queued = self.passed = 0.0
        self.calls = 0
        self.idle = 0

    def call(self, _number: int) -> None:
        """Queue a call."""
        self.queued += self.seconds[min(self.calls, len(self.seconds) - 1)]
        self.calls += 1

    def wait(self) -> None:
        """Let all pass."""
        self.passed = self.queued

    def mark(self) -> Mark:
        """Set a mark behind what is queued."""
        return Mark(self, self.queued)


class Mark:
    """A place in the queue."""

    def __init__(self, device: Clocked, at: float) -> None:
        self.device = device
        self.at = at

    def wait(self) -> None:
        """Let the device come this far, and note whether nothing was queued behind it."""
        self.device.passed = max(self.device.passed, self.at)
        self.device.idle += self.device.passed == self.device.queued

    def until(self, later: Mark) -> float:
        """Tell the seconds between two."""
        return later.at - self.at


def timed(device: Clocked, plan: Plan) -> timing.Timing:
    """Time its calls."""
    return time_kernel(cast("Any", device), device.call, plan)


def test_an_even_kernel_is_timed_to_the_second() -> None:
    """Each repeat gives what a call takes, and the plateau is seen at once."""
    found = timed(Clocked([0.001]), Plan(seconds=3.0, warm_least=0.5, warm_most=5.0))

    assert found.seconds == pytest.approx((0.001,) * 3)
    assert found.settled
    assert 0.5 <= found.warm_seconds < 1.5
    assert found.calls * 0.001 == pytest.approx(3.0, rel=0.2)


def test_what_comes_before_the_plateau_does_not_count() -> None:
    """A GPU that starts at high clocks and slows down is judged by what it can keep up."""
    falling = [0.001 + 0.001 * min(1.0, call / 3000) for call in range(6000)]

    found = timed(Clocked(falling), Plan(seconds=1.0, warm_least=0.1, warm_most=30.0))
    assert found.settled
    assert found.seconds == pytest.approx((0.002,) * 3, rel=0.02)


def test_a_kernel_that_never_settles_is_timed_and_says_so() -> None:
    """It is not waited for longer than planned."""
    restless = [0.001 * (1 + (call // 100) % 2) for call in range(100_000)]

    found = timed(Clocked(restless), Plan(seconds=1.0, warm_least=0.1, warm_most=2.0))
    assert not found.settled
    assert found.warm_seconds < 2.5


def test_the_device_never_runs_dry_while_it_is_timed() -> None:
    """The next calls are queued before those under way are waited for."""
    device = Clocked([0.001])
    timed(device, Plan(seconds=1.0, warm_least=0.2, warm_most=1.0))
    before = device.idle

    timed(device, Plan(seconds=5.0, warm_least=0.2, warm_most=1.0))
    assert device.idle - before == before, "a longer run waits idle no more often: only to find its chunk"


def test_without_warming_up_it_is_timed_at_once() -> None:
    """The highest rate is that of a cool device."""
    found = timed(Clocked([0.001]), timing.plan(0.3, warm=False))

    assert found.warm_seconds == 0.0
    assert found.seconds == pytest.approx((0.001,) * 3)


@pytest.mark.parametrize(
    ("chunks", "is_settled"),
    [
        ([1.0] * 8, True),
        ([1.0] * 7, False),
        ([1.0, 1.1] * 4, False),
        ([1.0, 1.0, 1.0, 1.0, 1.02, 1.02, 1.02, 1.02], False),
        ([9.0, *[1.0] * 8], True),
    ],
)
def test_a_rate_has_settled_when_it_neither_varies_nor_drifts(
    chunks: list[float], *, is_settled: bool
) -> None:
    """Too few tell nothing, and only the last ones count."""
    assert settled(chunks) is is_settled
