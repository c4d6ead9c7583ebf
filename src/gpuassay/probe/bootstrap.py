"""The first lines of ours on a node; they take the rest from standard input.

The rest is text of modules, packed, and the name of the one whose ``main`` is to run. It is imported from
memory: nothing is written to the node, so this works where its disk is full or read-only, and a program that
is killed leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from importlib import import_module
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any, Optional, cast

if TYPE_CHECKING:
    from importlib.abc import Loader
    from types import ModuleType

BAGGAGE: dict[str, Any] = json.loads(zlib.decompress(sys.stdin.buffer.read()))
SOURCES: dict[str, str] = BAGGAGE["sources"]


class Carried:
    """Finds and loads the modules that were brought along."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> Optional[ModuleSpec]:
        """Tell how to load a module; None for one that was not brought."""
        if name not in SOURCES:
            return None
        package = any(other.startswith(f"{name}.") for other in SOURCES)
        return ModuleSpec(name, cast("Loader", Carried), origin=f"<{name}>", is_package=package)

    @staticmethod
    def create_module(_spec: ModuleSpec) -> None:
        """Leave the making of the module to Python."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Run the module's text."""
        exec(compile(SOURCES[module.__name__], f"<{module.__name__}>", "exec"), vars(module))  # noqa: S102


sys.meta_path.insert(0, Carried)
os._exit(import_module(BAGGAGE["main"]).main(*BAGGAGE["arguments"]))
