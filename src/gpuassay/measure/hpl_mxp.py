"""HPL-MxP, NVIDIA's or rocHPL-MxP: whether the residual passed, and how fast each GPU was.

What it prints as GFLOPS counts the whole solution; the faster LU GFLOPS count a part of it. On one node the
rate says little (panels and refinement take their share), so nodes are held to each other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.plain import lines
from gpuassay.measure.started import ToolRun, command, nothing, start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.evidence.item import Item
    from gpuassay.judge.fact import Fact, Scalar

GET = "it is in NVIDIA's HPC-Benchmarks image, behind a licence (AMD: build github.com/ROCm/rocHPL-MxP)"
_PLACES = "/workspace /workspace/hpl-mxp-linux-* /opt/rochplmxp /opt/*/bin"

_RATE = re.compile(r"^(?P<lu>LU )?GFLOPS\s*=\s*(?P<all>\S+?),\s*per GPU\s*=\s*(?P<one>\S+)")
_TABLE = re.compile(r"^W\w+\s+\d+\s+\d+\s+(?P<p>\d+)\s+(?P<q>\d+)\s+\S+\s+(?P<gflops>\S+)")
_RESIDUAL = re.compile(r"\|\|Ax-b\|\|_oo.*=\s*(?P<value>\S+)\s+\.*\s*(?P<word>[A-Z]+)\s*$")
_SETTING = re.compile(r"^N\s*=\s*\d+,.*")


@dataclass
class Printed:
    """What a run printed: GFLOP/s of each GPU, and its verdicts on the residual, one a solution."""

    per_gpu: float | None = None
    verdicts: tuple[str, ...] = ()
    setting: str = ""
    problem: str = ""


def parse(text: str) -> Printed:
    """Read what a run printed, also if it was cut."""
    printed = Printed()
    for line in map(str.strip, lines(text)):
        if (found := _RATE.match(line)) and not found["lu"]:
            _rate(printed, line, found["one"], 1)
        elif found := _TABLE.match(line):
            _rate(printed, line, found["gflops"], int(found["p"][:6]) * int(found["q"][:6]))
        elif found := _RESIDUAL.search(line):
            printed.verdicts = (*printed.verdicts, found["word"])
        elif _SETTING.match(line):
            printed.setting = brief(line)
    return printed


def _rate(printed: Printed, line: str, word: str, ranks: int) -> None:
    """Take a rate; the slowest of several solutions counts."""
    try:
        value = float(word) / ranks
    except (ValueError, ZeroDivisionError):
        value = 0.0
    if not 0 < value < float("inf"):
        printed.problem = f"{brief(line)}: no rate"
        return
    printed.per_gpu = min(value, printed.per_gpu or value)


@dataclass(frozen=True)
class HplRun(ToolRun[Printed]):
    """One run on one node."""

    @property
    def passed(self) -> Fact[bool]:
        """Whether the residual of each solution passed."""
        printed = self.printed
        if isinstance(printed, Unread):
            return printed
        if not printed.verdicts:
            return Unread("failed", printed.problem or "it printed no residual: it did not end", self.ref)
        bad = [word for word in printed.verdicts if word != "PASSED"]
        return Read(not bad, self.ref, f"residual {bad[0]}" if bad else "")

    @property
    def per_gpu_tflops(self) -> Fact[float]:
        """The rate of each GPU, over the whole solution."""
        printed = self.printed
        if isinstance(printed, Unread):
            return printed
        if printed.problem or printed.per_gpu is None:
            return Unread("failed", printed.problem or "it printed no GFLOPS", self.ref)
        return Read(printed.per_gpu / 1e3, self.ref, f"{printed.setting}, by {self.said or 'hpl-mxp'}")


class HplMxp:
    """HPL-MxP over the GPUs of each node."""

    method = 1

    def argv(self, args: Mapping[str, Scalar]) -> tuple[str, ...]:
        """Give the command: NVIDIA's script or AMD's, a rank for each GPU, by MPI."""
        sizes = ("--n", str(args["order"]), "--nb", str(args["block"]))
        grid = ("--nprow", "{rows}", "--npcol", "{columns}", "--nporder", "row")
        run = ("mpirun", "--allow-run-as-root", "--bind-to", "none", "-np", "{gpus}", "{tool}", *sizes, *grid)
        return start("hpl-mxp.sh rochplmxp", _PLACES, GET, *run)

    def read(self, node: str, args: Mapping[str, Scalar], item: Item | Unread, ref: str) -> HplRun:  # noqa: ARG002 - as all tools
        """Read a run; where a licence is in the way of having it, it was not run."""
        if isinstance(item, Unread):
            return HplRun(node, item, ref)
        text = item.out.decode("utf-8", "replace")
        printed = parse(text)
        if printed.verdicts or printed.problem or printed.per_gpu:
            return HplRun(node, printed, ref, command(text))
        why = nothing(item, ref, "hpl-mxp")
        return HplRun(node, Unread("not_asked", why.why, ref) if why.kind == "not_found" else why, ref)
