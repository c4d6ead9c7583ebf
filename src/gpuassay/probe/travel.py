"""How the probe gets to a node: as one command line, and one packed text for its standard input."""

from __future__ import annotations

import importlib.util
import json
import zlib
from pathlib import Path

_HERE = Path(__file__).parent
_STAYS = {"__init__", "bootstrap", "travel"}


def argv(python: str) -> list[str]:
    """Give the command line: an isolated Python (no site packages, no PYTHON* variables, no bytecode)."""
    return [python, "-I", "-S", "-B", "-c", (_HERE / "bootstrap.py").read_text(encoding="utf-8")]


def pack() -> bytes:
    """Pack the probe's modules and, if this Python has it, nvidia-ml-py; the same text, the same bytes."""
    sources = {"gpuassay": "", "gpuassay.probe": ""}
    for path in sorted(_HERE.glob("*.py")):
        if path.stem not in _STAYS:
            sources[f"gpuassay.probe.{path.stem}"] = path.read_text(encoding="utf-8")
    pynvml = importlib.util.find_spec("pynvml")
    if pynvml and pynvml.origin:
        sources["pynvml"] = Path(pynvml.origin).read_text(encoding="utf-8")
    return zlib.compress(json.dumps(sources).encode(), 9)
