"""TransferBench, AMD's: all GPUs of a node copy to all others at once, each copy compared."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.plain import lines
from gpuassay.measure.started import ToolRun, command, nothing, start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.evidence.item import Item
    from gpuassay.judge.fact import Fact, Scalar

GET = "build it from github.com/ROCm/TransferBench into a folder of PATH; RVS brings it too"
_PLACES = "/opt/rocm*/bin /opt/TransferBench* /opt/*/bin"

_AVERAGE = re.compile(r"^Average\s+bandwidth \(GPU Timed\):\s*(\S+)\s*GB/s")
_WRONG = re.compile(r"Unexpected mismatch")
_ERROR = re.compile(r"^\[ERROR\]|\berror\b", re.IGNORECASE)
_VERSION = re.compile(r"TransferBench v(\S+)")


@dataclass
class Printed:
    """What a run printed."""

    average: float | None = None
    wrong: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    version: str = ""


def parse(text: str) -> Printed:
    """Read what a run printed, also if it was cut."""
    printed = Printed()
    for line in map(str.strip, lines(text)):
        if found := _AVERAGE.match(line):
            printed.average = _number(found[1])
            if printed.average is None:
                printed.problems.append(brief(line))
        elif _WRONG.search(line):
            printed.wrong.append(brief(line))
        elif _ERROR.search(line):
            printed.problems.append(brief(line))
        elif found := _VERSION.search(line):
            printed.version = found[1]
    return printed


def _number(word: str) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if 0 < value < math.inf else None


@dataclass(frozen=True)
class TransferBenchRun(ToolRun[Printed]):
    """One run on one node."""

    @property
    def wrong(self) -> Fact[int]:
        """How many copies came out wrong; it stops at the first."""
        printed = self.printed
        if isinstance(printed, Unread):
            return printed
        if printed.wrong or printed.average is not None:
            return Read(len(printed.wrong), self.ref, "; ".join(printed.wrong[:2]))
        return Unread("failed", "; ".join(printed.problems[:3]) or "it did not end", self.ref)

    @property
    def average_gbps(self) -> Fact[float]:
        """What each copy between two GPUs got, all of them at once, on the mean."""
        printed = self.printed
        if isinstance(printed, Unread):
            return printed
        if printed.average is None or printed.problems:
            lack = [*printed.wrong[:1], *printed.problems[:3]]
            return Unread("failed", "; ".join(lack) or "it printed no average: it did not end", self.ref)
        return Read(printed.average, self.ref, f"TransferBench {printed.version}: {self.said}")


class TransferBench:
    """``TransferBench a2a`` on the GPUs of each node."""

    method = 1

    def argv(self, args: Mapping[str, Scalar]) -> tuple[str, ...]:
        """Give the command, for copies of so many bytes."""
        return start("TransferBench", _PLACES, GET, "{tool}", "a2a", str(args["bytes"]))

    def read(self, node: str, args: Mapping[str, Scalar], item: Item | Unread, ref: str) -> TransferBenchRun:  # noqa: ARG002 - as all tools
        """Read a run."""
        if isinstance(item, Unread):
            return TransferBenchRun(node, item, ref)
        text = item.out.decode("utf-8", "replace")
        printed = parse(text)
        if printed.average is None and not printed.wrong and not printed.problems:
            return TransferBenchRun(node, nothing(item, ref, "TransferBench"), ref)
        return TransferBenchRun(node, printed, ref, command(text))
