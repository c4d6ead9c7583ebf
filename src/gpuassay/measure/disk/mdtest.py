"""mdtest in one folder: how many files a second are made, looked at and removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuassay.measure.disk import commands
from gpuassay.measure.disk.ior import launcher

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAMES = ("mdtest",)
_PATIENCE = 1200.0


def version(found: str) -> str:
    """Ask for the version, which only a run gives: its first lines have it, and are kept."""
    return commands.version([found, "-h"])


def measure(found: str, folder: Path, order: Mapping[str, Any], free: int) -> dict[str, Any]:  # noqa: ARG001 - as all tools
    """Make, stat, read and remove files of 4 KB, each task in a folder of its own."""
    words = ["-F", "-u", "-n", str(order["files"]), "-w", "3901", "-e", "3901", "-i", str(order["repeats"])]
    return commands.run([*launcher(int(order["tasks"])), found, *words, "-d", str(folder)], _PATIENCE)
