"""The processes of a node, as the kernel shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

ENDED = ("", "Z")
_NAME = 15  # the kernel keeps no more of a name


def all_of(root: Path) -> list[int]:
    """List all processes."""
    return sorted(int(place.name) for place in (root / "proc").glob("[0-9]*"))


def named(root: Path, name: str) -> list[int]:
    """List the processes of a name that have not ended."""
    found = []
    for pid in all_of(root):
        try:
            if (root / f"proc/{pid}/comm").read_text(encoding="utf-8").strip() == name[:_NAME]:
                found.append(pid)
        except OSError:
            continue
    return [pid for pid in found if state(root, pid) not in ENDED]


def state(root: Path, pid: int) -> str:
    """Give the state of a process by the kernel's letter: T is stopped; empty where there is none."""
    return (_stat(root, pid) or [""])[0]


def started(root: Path, pid: int) -> str:
    """Give when a process began: with its number that is its identity."""
    return "".join(_stat(root, pid)[19:20])


def words(root: Path, pid: int, name: str) -> list[str]:
    """Read its ``cmdline`` or ``environ``. Raises OSError."""
    raw = (root / f"proc/{pid}/{name}").read_bytes()
    return [word.decode(errors="replace") for word in raw.split(b"\0") if word]


def environment(root: Path, pid: int) -> dict[str, str]:
    """Read its environment. Raises OSError."""
    return dict(word.split("=", 1) for word in words(root, pid, "environ") if "=" in word)


def _stat(root: Path, pid: int) -> list[str]:
    try:
        text = (root / f"proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
