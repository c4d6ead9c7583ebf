"""How an act gets to a node: our modules as text, and an order."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.probe import travel
from gpuassay.probe.launch import PYTHON

if TYPE_CHECKING:
    from collections.abc import Mapping

_NODE = Path(__file__).parent / "node"

ARGV = (PYTHON, *travel.argv("")[1:])
"""The command line of an act."""


def pack(order: Mapping[str, Any], module: str = "main") -> bytes:
    """Pack an order for standard input, and the module that takes it."""
    sources = {"gpuassay": "", "gpuassay.fault": ""}
    for path in sorted(_NODE.glob("*.py")):
        name = "gpuassay.fault.node" + ("" if path.stem == "__init__" else f".{path.stem}")
        sources[name] = path.read_text(encoding="utf-8")
    return travel.packed(sources, f"gpuassay.fault.node.{module}", dict(order))


def armed(order: Mapping[str, Any], hold_s: float) -> bytes:
    """Pack the order that leaves a dead-man, who in ``hold_s`` seconds undoes what ``order`` is about."""
    undo = base64.b64encode(pack({**order, "verb": "fire"})).decode()
    return pack({**order, "verb": "arm", "hold_s": hold_s, "undo": undo})
