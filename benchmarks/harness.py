"""What the timing of workloads costs: a kernel through the harness against the same kernel in a bare loop.

Both run in turn, in one process, in parts of a tenth of a second, and the fastest parts are compared, which
nothing else on the machine disturbed: a ratio of one run, so that the machine's speed cancels out.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from gpuassay.measure.work import gemm
from gpuassay.measure.work.device import choose
from gpuassay.measure.work.timing import Plan, time_kernel

if TYPE_CHECKING:
    from gpuassay.measure.work.timing import Kernel

ROUNDS = 25
CALLS = 200  # as many as make a part of the harness
PLAN = Plan(seconds=0.3, warm_least=0.0, warm_most=0.0)


def main() -> None:
    """Measure, and print one line."""
    device = choose(0)
    work = gemm.prepare({"format": "float32", "m": 128, "n": 128, "k": 128}, device)
    kernel = _longer(work.kernel, 16)
    bare, timed = [], []
    for _ in range(ROUNDS):
        bare.append(min(_bare(kernel) for _ in range(PLAN.repeats)))
        timed.append(min(time_kernel(device, kernel, PLAN).seconds))
    best = min(timed) / min(bare)
    middle = statistics.median(timed) / statistics.median(bare)
    print(f"kernel {min(bare) * 1e3:.3f} ms; harness over bare: {best:.4f} undisturbed, {middle:.4f} median")


def _longer(kernel: Kernel, times: int) -> Kernel:
    """Make one kernel of several calls."""

    def longer(number: int) -> None:
        for call in range(times):
            kernel(number + call)

    return longer


def _bare(kernel: Kernel) -> float:
    """Time calls in the simplest loop there is."""
    begin = time.perf_counter()
    for number in range(CALLS):
        kernel(number)
    return (time.perf_counter() - begin) / CALLS


if __name__ == "__main__":
    main()
