"""elbencho in one folder: large files past the page cache; its table of results, beside what it printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuassay.measure.disk import commands

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAMES = ("elbencho",)
_PATIENCE = 1200.0


def version(found: str) -> str:
    """Ask for the version."""
    said = commands.run([found, "--version"], 20)["out"]
    return next((line.strip(" *") for line in said.splitlines() if "Version" in line), "")[:200]


def measure(found: str, folder: Path, order: Mapping[str, Any], free: int) -> dict[str, Any]:
    """Write and read a file for each thread."""
    tasks = int(order["tasks"])
    size = max(1, min(int(order["size_mib"]), int(0.05 * free) // tasks >> 20))
    table, files = folder / "result.csv", [str(folder / f"file{number}") for number in range(tasks)]
    words = ["-w", "-r", "--direct", "-t", str(tasks), "-b", "1M", "-s", f"{size}M", "--csvfile", str(table)]
    told = commands.run([found, *words, *files], _PATIENCE)
    return {**told, "table": table.read_text(errors="replace")} if table.exists() else told
