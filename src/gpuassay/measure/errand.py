"""How a workload gets to a rank: a Python that has torch, and our modules as text on its standard input."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.probe.launch import PYTHON
from gpuassay.probe.travel import packed

if TYPE_CHECKING:
    from collections.abc import Mapping

_WORK = Path(__file__).parent / "work"

# Unlike the probe's, this Python keeps its packages and the PYTHON* variables, by which a site may provide
# torch. What lies in the current folder is no part of either.
_COMMAND = "import sys;sys.path[:]=[p for p in sys.path if p];exec(sys.stdin.buffer.readline())"


ARGV = (PYTHON, "-B", "-c", _COMMAND)
"""The command line of a rank."""


def pack(order: Mapping[str, Any]) -> bytes:
    """Pack the workloads and an order for standard input; with nvidia-ml-py, if this Python has it."""
    sources = {"gpuassay": "", "gpuassay.measure": ""}
    for path in sorted(_WORK.glob("*.py")):
        name = "gpuassay.measure.work" + ("" if path.stem == "__init__" else f".{path.stem}")
        sources[name] = path.read_text(encoding="utf-8")
    return packed(sources, "gpuassay.measure.work.main", dict(order))
