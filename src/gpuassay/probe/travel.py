"""How our programs get to a node: one short command, and one packed text for its standard input."""

from __future__ import annotations

import importlib.util
import json
import zlib
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
_STAYS = {"__init__", "bootstrap", "travel"}

# One line, without quotes that end it, backslashes and exclamation marks: any login shell leaves it whole
# between single quotes, csh and fish too. It is the last of ours that Python 2 or 3.4 can read.
_COMMAND = (
    "import sys;"
    "sys.version_info<(3,9)and sys.exit("
    '"gpuassay needs Python 3.9 or newer, this is "+sys.version.split()[0]);'
    "exec(sys.stdin.buffer.readline())"
)


def argv(python: str) -> list[str]:
    """Give the command line: an isolated Python (no site packages, no PYTHON* variables, no bytecode)."""
    return [python, "-I", "-S", "-B", "-c", _COMMAND]


def pack(main: str = "main", *arguments: Any) -> bytes:
    """Pack a program for standard input: ``main`` of that module of ours, with arguments that JSON holds.

    All our modules go along and, if this Python has it, nvidia-ml-py; the same program, the same bytes.
    """
    sources = {"gpuassay": "", "gpuassay.probe": ""}
    for path in sorted(_HERE.glob("*.py")):
        if path.stem not in _STAYS:
            sources[f"gpuassay.probe.{path.stem}"] = path.read_text(encoding="utf-8")
    return packed(sources, f"gpuassay.probe.{main}", *arguments)


def packed(sources: dict[str, str], main: str, *arguments: Any) -> bytes:
    """Pack the text of modules by name, of which ``main`` has the function ``main``, and nvidia-ml-py."""
    pynvml = importlib.util.find_spec("pynvml")
    if pynvml and pynvml.origin:
        sources = {**sources, "pynvml": Path(pynvml.origin).read_text(encoding="utf-8")}
    baggage = {"sources": sources, "main": main, "arguments": arguments}
    first = (_HERE / "bootstrap.py").read_text(encoding="utf-8")
    return b"exec(%s)\n" % ascii(first).encode() + zlib.compress(json.dumps(baggage).encode(), 9)
