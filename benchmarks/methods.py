"""Our figures beside other methods on the same device, in turn: one command for whoever has a GPU.

Prints a page for docs/measured/ (python benchmarks/methods.py > docs/measured/DATE-gpu.md):

- products: as the workload `gemm` times them, without a gap and with operands that go round through memory,
  beside mamf-finder's way: one pair of operands, before each call the cache flushed and the result written
  over, each call between two events of its own, and the mean of all calls of a window under full load;
- memory: the copy of the workload `memory` beside a plain loop of copies between two events;
- the harness beside a bare loop, as benchmarks/harness.py has it.

The exit status is 0 if all that was held to a bound stays within it in its whole interval, 1 if anything lies
beyond, 2 otherwise. On a processor everything is tiny, and the figures show only that all of it works.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import harness
from gpuassay.measure.work import gemm, memory
from gpuassay.measure.work.device import choose, versions
from gpuassay.measure.work.formats import FORMATS, operands
from gpuassay.measure.work.timing import Plan, time_kernel
from interleaved import WORDS, Compared, compare, in_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuassay.measure.work.case import Work
    from gpuassay.measure.work.device import Device

_COPY = (0.98, 1.02)
_BATCH = 50  # calls that are queued before they are waited for
_SIDES = {True: 8192, False: 128}


@dataclass(frozen=True)
class Row:
    """One comparison: what of, the figures of both ways and their unit, and what came of it."""

    what: str
    ours: float
    theirs: float
    unit: str
    found: Compared
    status: int

    def __str__(self) -> str:
        """Give it as a row of the page."""
        figures = f"{self.ours:.4g} | {self.theirs:.4g} {self.unit}"
        return f"| {self.what} | {figures} | {self.found} | {WORDS[self.status]} |"


def main() -> int:
    """Compare, print the page, and give the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each part of each round")
    parser.add_argument("--warm", type=float, default=4.0, help="seconds of full load before each part")
    parser.add_argument("--format", default="bfloat16", choices=("bfloat16", "float16", "float32"))
    options = parser.parse_args()
    device = harness.undisturbed(choose(0))
    # Full load all the time: what a part begins with is the heat of the one before.
    plan = Plan(seconds=options.seconds, repeats=1, warm_least=options.warm, warm_most=2 * options.warm)
    rows = [
        products(device, options.format, plan, options.rounds),
        copies(device, plan, options.rounds),
        overhead(device, options.seconds, options.rounds),
    ]
    print(_page(device, rows, sys.argv))
    return max((row.status for row in rows), key=(0, 2, 1).index)


def products(device: Device, name: str, plan: Plan, rounds: int) -> Row:
    """Time products in our way and in mamf-finder's; the medians agree if their interval has room for one."""
    side = _SIDES[device.accelerator]
    work = gemm.prepare({"format": name, "m": side, "n": side, "k": side}, device)
    theirs = call_by_call(device, name, side, plan)
    pairs = in_turn(lambda: ours(device, work, plan), theirs, rounds)
    found = compare(pairs)
    status = 0 if found.low <= 1 <= found.high else 1
    what = f"{name} {side} x {side} x {side} beside mamf-finder's way"
    return _row(what, pairs, work.flops / 1e12, "TFLOP/s", (found, status))


def copies(device: Device, plan: Plan, rounds: int) -> Row:
    """Time copies in our way and in a plain loop; within 2 % they agree."""
    work = memory.prepare({"kernel": "copy"}, device)
    pairs = in_turn(lambda: ours(device, work, plan), lambda: plain_copies(device, work, plan), rounds)
    found = compare(pairs)
    what = "copy beside a plain loop of copies, within 2 %"
    return _row(what, pairs, work.bytes / 1e9, "GB/s", (found, found.against(*_COPY)))


def overhead(device: Device, seconds: float, rounds: int) -> Row:
    """Time a product in the harness and in a bare loop; the overhead is to be below 1 %."""
    pairs = harness.pairs(device, _SIDES[device.accelerator], seconds, rounds)
    found = compare(pairs)
    return _row(
        "harness beside a bare loop, below 1 %",
        pairs,
        1e-3,
        "calls/ms",
        (found, found.against(0, harness.MOST)),
    )


def _row(
    what: str, pairs: Sequence[tuple[float, float]], amount: float, unit: str, came: tuple[Compared, int]
) -> Row:
    mine, theirs = (amount / statistics.median(one) for one in zip(*pairs, strict=True))
    return Row(what, mine, theirs, unit, *came)


def ours(device: Device, work: Work, plan: Plan) -> float:
    """Give the seconds of one call as a workload reports them."""
    return time_kernel(device, work.kernel, plan).seconds[0]


def call_by_call(device: Device, name: str, side: int, plan: Plan) -> Callable[[], float]:
    """Make the way ready that times each call by itself, and behind a flushed cache."""
    import torch

    made = operands(name, (side,) * 3, device, seed=1)
    kind = getattr(torch, FORMATS[name].result)
    before = torch.randn(side, side, device=device.place).to(kind)
    result, flushed = (
        torch.empty_like(before),
        torch.empty(device.flush, dtype=torch.uint8, device=device.place),
    )

    def batch() -> list[float]:
        marks = []
        for _ in range(_BATCH):
            flushed.zero_()
            result.copy_(before)
            begin = device.mark()
            made.multiply(result)
            marks.append((begin, device.mark()))
        device.wait()
        return [begin.until(end) for begin, end in marks]

    def timed() -> float:
        _until(plan.warm_least, batch)
        return statistics.fmean(_until(plan.seconds, batch))

    return timed


def plain_copies(device: Device, work: Work, plan: Plan) -> float:
    """Give the seconds of one call in a plain loop between two marks."""

    def batch() -> list[float]:
        begin = device.mark()
        for number in range(_BATCH):
            work.kernel(number)
        end = device.mark()
        end.wait()
        return [begin.until(end) / _BATCH]

    _until(plan.warm_least, batch)
    return statistics.fmean(_until(plan.seconds, batch))


def _until(seconds: float, batch: Callable[[], list[float]]) -> list[float]:
    """Run batches for some seconds, one at least, and give what all gave."""
    end, found = time.monotonic() + seconds, batch()
    while time.monotonic() < end:
        found += batch()
    return found


def _page(device: Device, rows: Sequence[Row], command: Sequence[str]) -> str:
    about = ", ".join(f"{name} {version}" for name, version in versions().items())
    tiny = "" if device.accelerator else "A processor: all is tiny, and this shows only that it works.\n\n"
    lines = [
        f"# The workloads beside other methods on {device.name}, {datetime.now(UTC):%Y-%m-%d}\n",
        f"{about}. `python {' '.join(command)}`.\n",
        f"{tiny}The ratio is that of the seconds of a call, with its interval of 95 %.\n",
        "| what | ours | theirs | ratio | |",
        "|---|---|---|---|---|",
        *map(str, rows),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
