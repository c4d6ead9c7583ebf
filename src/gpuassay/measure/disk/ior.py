"""ior and mdtest in one folder: by MPI where it is there, else by one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuassay.measure.disk import commands

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAMES = ("ior",)
_PATIENCE = 1200.0


def version(found: str) -> str:
    """Ask for the version: it stands in the first line of every run, and no option gives it."""
    lines = commands.run([found, "-h"], 20)
    return next((line for line in f"{lines['out']}\n{lines['err']}".splitlines() if "IOR" in line), "")[:200]


def measure(found: str, folder: Path, order: Mapping[str, Any], free: int) -> dict[str, Any]:
    """Write a file for each task, read it back from another task's place, and compare."""
    tasks = int(order["tasks"])
    block = max(1, min(int(order["size_mib"]), int(0.05 * free) // tasks >> 20))
    words = [
        "-a",
        "POSIX",
        "-F",
        "-C",
        "-e",
        "-w",
        "-W",
        "-r",
        "-G",
        "42",
        "-t",
        "1m",
        "-b",
        f"{block}m",
        "-i",
        str(order["repeats"]),
    ]
    return commands.run([*launcher(tasks), found, *words, "-o", str(folder / "ior")], _PATIENCE)


def launcher(tasks: int) -> list[str]:
    """Give the words that start as many tasks; none where there is no MPI."""
    mpirun = commands.find("mpirun")
    return [mpirun, "--allow-run-as-root", "--oversubscribe", "-np", str(tasks)] if mpirun else []
