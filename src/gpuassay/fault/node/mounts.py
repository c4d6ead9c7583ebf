"""What is mounted on a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class Mount(NamedTuple):
    """A file system: what is mounted, of which kind, and with what."""

    source: str
    kind: str
    options: tuple[str, ...]

    def option(self, name: str) -> str:
        """Give the value of an option; empty where it is not there."""
        return next((one[len(name) + 1 :] for one in self.options if one.startswith(f"{name}=")), "")


def mounted(root: Path, path: str) -> Mount | None:
    """Give what is mounted at a path, the last of it; None where nothing is."""
    found = None
    for line in (root / "proc/self/mounts").read_text(encoding="utf-8").splitlines():
        source, place, kind, options = line.split()[:4]
        if place == path:
            found = Mount(source, kind, tuple(options.split(",")))
    return found
