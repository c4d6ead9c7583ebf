"""What the timing of workloads costs: a kernel through the harness against the same kernel in a bare loop.

Both run in turn, in one process, for as long, and give the seconds of one call: those that the harness
reports, with the thread beside it that watches the device, and those of the bare loop until the device is
done. On a processor both go by the processor time of this process, for others on the machine make a call
wait, and that is no overhead. The exit status is 0 if the overhead is below one percent in the whole
interval, 1 if it is above in the whole of it, and 2 if it cannot be told.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import TYPE_CHECKING

from gpuassay.measure.work.device import CpuMark, Device, choose, versions
from gpuassay.measure.work.formats import operands
from gpuassay.measure.work.telemetry import watching
from gpuassay.measure.work.timing import Plan, time_kernel
from interleaved import WORDS, compare, in_turn

if TYPE_CHECKING:
    from gpuassay.measure.work.device import GpuMark
    from gpuassay.measure.work.timing import Kernel

MOST = 1.01
_LEAST_MS = 5.0
_SIDES = {True: 8192, False: 640}
"""Of an accelerator and of a processor: a side whose product takes 5 ms there, or more."""


def main() -> int:
    """Measure, print, and give the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each part of each round")
    parser.add_argument("--side", type=int, help="of the square matrices")
    options = parser.parse_args()
    device = undisturbed(choose(0))
    side = options.side or _SIDES[device.accelerator]
    timed = pairs(device, side, options.seconds, options.rounds)
    found = compare(timed)
    status = found.against(0.0, MOST)
    each = statistics.median(second for _, second in timed) * 1e3
    print(f"{device.name}, {versions()}")
    print(f"kernel of {each:.2f} ms (float32, {side} x {side} x {side}), {options.seconds:g} s a part")
    print(f"harness over bare loop {found}; overhead below 1 %: {WORDS[status]}")
    if each < _LEAST_MS:
        print(f"the kernel is shorter than {_LEAST_MS:g} ms: choose a larger --side")
    return status


class Undisturbed(Device):
    """A processor whose clock stands still while others have it."""

    def mark(self) -> GpuMark | CpuMark:
        """Set a mark by the time that this process has had."""
        mark = CpuMark()
        mark.at = time.process_time_ns()
        return mark


def undisturbed(device: Device) -> Device:
    """Take a device as it is, but of a processor the time that we have of it."""
    return device if device.accelerator else Undisturbed(**vars(device))


def pairs(device: Device, side: int, seconds: float, rounds: int) -> list[tuple[float, float]]:
    """Give the seconds of one call in the harness and in the bare loop, round by round."""
    kernel = product(device, side)
    plan = Plan(seconds=seconds, repeats=1, warm_least=0.0, warm_most=0.0, chunk=seconds / 3)
    calls = max(1, round(seconds / bare(device, kernel, 5)))
    return in_turn(lambda: harnessed(device, kernel, plan), lambda: bare(device, kernel, calls), rounds)


def product(device: Device, side: int) -> Kernel:
    """Make a product of square matrices ready."""
    import torch

    made = operands("float32", (side, side, side), device, seed=1)
    result = torch.empty(side, side, device=device.place)
    return lambda _number: made.multiply(result)


def harnessed(device: Device, kernel: Kernel, plan: Plan) -> float:
    """Give the seconds of one call as the harness reports them."""
    with watching(device):
        return time_kernel(device, kernel, plan).seconds[0]


def bare(device: Device, kernel: Kernel, calls: int) -> float:
    """Give the seconds of one call in the simplest loop there is."""
    clock = time.perf_counter if device.accelerator else time.process_time
    kernel(0)
    device.wait()
    begin = clock()
    for number in range(calls):
        kernel(number)
    device.wait()
    return (clock() - begin) / calls


if __name__ == "__main__":
    sys.exit(main())
