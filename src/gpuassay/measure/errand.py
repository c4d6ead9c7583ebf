"""How programs of ours get to a rank: as text of modules on the standard input of a Python there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.probe import travel
from gpuassay.probe.launch import PYTHON
from gpuassay.probe.travel import packed

if TYPE_CHECKING:
    from collections.abc import Mapping

_HERE = Path(__file__).parent
_WITH = {"rdma_pairs": ("steps",), "object_streams": ("steps", "stream")}
_WITH["object_windows"] = (*_WITH["object_streams"], "object_streams")

# Unlike the probe's, this Python keeps its packages and the PYTHON* variables, by which a site may provide
# torch. What lies in the current folder is no part of either.
_COMMAND = "import sys;sys.path[:]=[p for p in sys.path if p];exec(sys.stdin.buffer.readline())"


ARGV = (PYTHON, "-B", "-c", _COMMAND)
"""The command line of a rank."""

ALONE = tuple(travel.argv(PYTHON))
"""The command line of a short program that needs nothing but Python's own library."""


def alone(name: str, order: Mapping[str, Any]) -> bytes:
    """Pack one module of ``errands``, those that it needs, and its order for standard input."""
    sources = {"gpuassay": "", "gpuassay.measure": "", "gpuassay.measure.errands": ""}
    for one in (*_WITH.get(name, ()), name):
        text = (_HERE / "errands" / f"{one}.py").read_text(encoding="utf-8")
        sources[f"gpuassay.measure.errands.{one}"] = text
    return packed(sources, f"gpuassay.measure.errands.{name}", dict(order))


def pack(order: Mapping[str, Any], package: str = "work") -> bytes:
    """Pack a package of ours and an order for standard input; with nvidia-ml-py, if this Python has it."""
    sources = {"gpuassay": "", "gpuassay.measure": ""}
    for path in sorted((_HERE / package).glob("*.py")):
        name = f"gpuassay.measure.{package}" + ("" if path.stem == "__init__" else f".{path.stem}")
        sources[name] = path.read_text(encoding="utf-8")
    return packed(sources, f"gpuassay.measure.{package}.main", dict(order))
