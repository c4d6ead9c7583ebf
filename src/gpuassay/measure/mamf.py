"""mamf-finder: the highest matmul rate (MAMF) and the one that lasts (MSMF), of version 2 or version 4.

Version 2 knows bursts only and ends in the best mean, median and maximum; version 4 has two headlines, whose
watts, clock and temperature may be missing, and says n/a where it confirmed none. They measure differently,
so neither stands in for the other.
"""

from __future__ import annotations

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

GET = (
    "take compute/accelerator/benchmarks/mamf-finder.py of github.com/stas00/ml-engineering, "
    "with nvidia-ml-py or amdsmi"
)
_PLACES = "/opt/*/compute/accelerator/benchmarks /opt/mamf-finder /opt/*/bin"

_VERSION = re.compile(r"benchmark version:\s*(\d+)")
_HEADLINE = re.compile(
    r"^(MAMF|MSMF) \([^)]*\):\s*(?:n/a|(?P<value>[\d.]+) TFLOPS @ (?P<shape>\S+))(?P<rest>.*)$"
)
_BEST = re.compile(r"^(mean|median|max):\s*([\d.]+) TFLOPS @ (\S+)")
_NOTES = re.compile(r"SUSPECT|sibling GPU|below the rated max|telemetry: off|Traceback|Error:")
_SUSTAINED_SINCE = 4


@dataclass
class Printed:
    """What it printed: TFLOP/s and words for each headline, by ``MAMF``, ``MSMF``, ``median`` and so on."""

    version: int | None = None
    best: dict[str, tuple[float, str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def parse(text: str) -> Printed:
    """Read what a run printed, also if it was cut."""
    printed = Printed()
    for line in lines(text):
        if found := _VERSION.search(line):
            printed.version = int(found[1][:9])
        elif found := _HEADLINE.match(line.strip()):
            _keep(printed, found[1], found["value"], f"{found['shape']} {found['rest'].strip()}")
        elif found := _BEST.match(line.strip()):
            _keep(printed, found[1], found[2], found[3])
        elif _NOTES.search(line):
            printed.notes.append(brief(line.strip()))
    return printed


def _keep(printed: Printed, name: str, value: str | None, words: str) -> None:
    try:
        number = float(value or "")
    except ValueError:  # n/a, or 1.2.3
        return
    if number > 0:
        printed.best[name] = (number, words.strip())


@dataclass(frozen=True)
class MamfRun(ToolRun[Printed]):
    """One run on the first GPU of a node."""

    @property
    def burst_tflops(self) -> Fact[float]:
        """The highest rate: the headline of version 4, the median of the best shape of version 2."""
        return self._figure("MAMF", "median")

    @property
    def sustained_tflops(self) -> Fact[float]:
        """The rate that lasts at the power limit; version 2 has none."""
        return self._figure("MSMF")

    def _figure(self, *names: str) -> Fact[float]:
        printed = self.printed
        if isinstance(printed, Unread):
            return printed
        if suspect := [note for note in printed.notes if "SUSPECT" in note]:
            return Unread("failed", f"the tool doubts it itself: {suspect[0]}", self.ref)
        name = next((one for one in names if one in printed.best), "")
        if not name:
            return Unread("failed", self._lack(printed, names[0]), self.ref)
        value, words = printed.best[name]
        told = [f"{name} @ {words}", f"benchmark version {printed.version}", *printed.notes[:2], self.said]
        return Read(value, self.ref, "; ".join(filter(None, told)))

    @staticmethod
    def _lack(printed: Printed, name: str) -> str:
        if name == "MSMF" and printed.version is not None and printed.version < _SUSTAINED_SINCE:
            return f"benchmark version {printed.version} has no sustained figure: take version 4 or newer"
        return "; ".join([f"it printed no {name}", *printed.notes[:3]])


class Mamf:
    """``mamf-finder.py`` on the first GPU of each node."""

    method = 1

    def argv(self, args: Mapping[str, Scalar]) -> tuple[str, ...]:
        """Give the command: square and oblong shapes of each of the sizes."""
        sizes = str(args["sizes"]).split()
        shapes = [word for side in "mnk" for word in (f"--{side}", *sizes)]
        how = ("--dtype", str(args["format"]), *shapes, "--cuda_device", "0")
        return start("mamf-finder.py mamf-finder", _PLACES, GET, "python3", "-B", "{tool}", *how)

    def read(self, node: str, args: Mapping[str, Scalar], item: Item | Unread, ref: str) -> MamfRun:  # noqa: ARG002 - as all tools
        """Read a run; one that was interrupted prints its best so far, and has not found it."""
        if isinstance(item, Unread):
            return MamfRun(node, item, ref)
        text = item.out.decode("utf-8", "replace")
        printed = parse(text)
        if item.status != "ok" or not (printed.best or printed.notes):
            return MamfRun(node, nothing(item, ref, "mamf-finder"), ref)
        return MamfRun(node, printed, ref, command(text))
