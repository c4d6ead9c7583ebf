"""How a well-known tool is started on a node: looked for, with the number of GPUs, its command kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from gpuassay.facts.text import brief
from gpuassay.measure.diagnosis import no_report

if TYPE_CHECKING:
    from gpuassay.evidence.item import Item
    from gpuassay.judge.fact import Unread

# How many GPUs there are is counted by their device files, or AMD's topology; rows times columns are as many.
_START = """\
import glob, os, sys
names, how = sys.argv[1].split(), sys.argv[3]
folders = os.environ.get("PATH", "").split(":")
folders += [folder for place in sys.argv[2].split() for folder in sorted(glob.glob(place))]
def fits(path):
    return os.path.isfile(path) and os.access(path, os.R_OK if path.endswith(".py") else os.X_OK)
found = next((f + "/" + n for n in names for f in folders if f and fits(f + "/" + n)), "")
if not found:
    sys.stderr.write("none of " + ", ".join(names) + " is here: " + how + "\\n")
    sys.exit(127)
gpus = len(glob.glob("/dev/nvidia[0-9]*"))
for file in glob.glob("/sys/class/kfd/kfd/topology/nodes/*/properties"):
    gpus += "simd_count 0\\n" not in open(file).read()
gpus = max(1, gpus)
rows = max(n for n in range(1, gpus + 1) if gpus % n == 0 and n * n <= gpus)
words = {"{tool}": found, "{gpus}": str(gpus), "{rows}": str(rows), "{columns}": str(gpus // rows)}
argv = [words.get(word, word) for word in sys.argv[4:]]
print("# command:", *argv, flush=True)
os.execvp(argv[0], argv)
"""
_COMMAND = "# command:"
P = TypeVar("P")


@dataclass(frozen=True)
class ToolRun(Generic[P]):
    """One run of a tool on one node: what was ``printed``, as its parser reads it, or why nothing was.

    ``said`` is the command line that was really run, where the tool tells it.
    """

    node: str
    printed: P | Unread
    ref: str
    said: str = ""
    models: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """Its place: the node."""
        return self.node


def start(names: str, places: str, get: str, *argv: str) -> tuple[str, ...]:
    """Give a command that looks for a tool by its names, in PATH and in ``places``, and becomes ``argv``.

    In it ``{tool}`` stands for where it is, ``{gpus}`` for how many GPUs the node has, and ``{rows}`` and
    ``{columns}`` for a grid of as many. ``get`` is said where the tool is missing: how to get it.
    """
    return ("python3", "-I", "-S", "-B", "-c", _START, names, places, get, *argv)


def command(text: str) -> str:
    """Give the command line that was really run, from what it printed."""
    lines = (line for line in text.splitlines() if line.startswith(_COMMAND))
    return next((line.removeprefix(_COMMAND).strip() for line in lines), "")


def nothing(item: Item, ref: str, tool: str) -> Unread:
    """Say why a tool gave nothing, with its last words."""
    said = item.err.strip().splitlines()[-1:]
    return no_report(replace(item, why="; ".join(filter(None, (item.why, *map(brief, said))))), ref, tool)
