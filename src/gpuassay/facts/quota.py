"""What a user may fill of a file system, in the words of quota(1), lfs and beegfs-ctl."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact

_KIB = 1024
# FILESYSTEM KBYTES SOFT HARD GRACE FILES SOFT HARD: an asterisk marks what is over, brackets what is stale.
_ROW = re.compile(r"/?\S+ \[?\d+\*?\]?\*? (\d+) (\d+) \S+ \[?\d+\*?\]? \d+ \d+(?: |$)", re.ASCII)
_UNITS = {"": 1, "B": 1, "K": _KIB, "KIB": _KIB, "M": _KIB**2, "MIB": _KIB**2, "G": _KIB**3, "GIB": _KIB**3}
_UNITS |= {"T": _KIB**4, "TIB": _KIB**4, "P": _KIB**5, "PIB": _KIB**5}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", re.ASCII)
_NONE = re.compile(r":\s*none\s*$|^\s*unlimited\s*$", re.MULTILINE | re.IGNORECASE)


def limit_bytes(told: Record) -> Fact[int | None]:
    """Read the most that the user may fill, in bytes; None where there is no limit.

    The hard limit counts, and where there is none the soft one. Where no tool was there, nobody was asked.
    """
    if told.unread is not None:
        return told.unread
    tool, out = told.text("tool", r"[\w-]{1,32}", "a tool"), told.look("out")
    if isinstance(tool, Unread):
        return tool
    if isinstance(out, Unread):
        return out
    if not isinstance(out.value, str):
        return told.garbled("out", out.value, "what a tool printed")
    if _NONE.search(out.value):
        return Read(None, out.evidence, f"{tool.value} says that there is none")
    sizes = _of_beegfs(out.value) if tool.value == "beegfs-ctl" else _of_rows(" ".join(out.value.split()))
    if sizes is None:
        return Unread("garbled", f"{tool.value} said {brief(out.value)}", out.evidence)
    return Read(next((size for size in sizes if size), None), out.evidence, f"by {tool.value}")


def _of_rows(line: str) -> list[int] | None:
    """Find both limits in what quota(1) and lfs print, which may break a line after the name."""
    found = _ROW.search(line)
    return None if found is None else [int(found[2]) * _KIB, int(found[1]) * _KIB]


def _of_beegfs(text: str) -> list[int] | None:
    """Find the hard limit in a table with commas: name, id, size, hard, files, hard."""
    rows = [line.split(",") for line in text.splitlines() if line.count(",") >= 5]  # noqa: PLR2004 - six columns
    if len(rows) < 2:  # noqa: PLR2004 - a head and a row
        return None
    found = _SIZE.fullmatch(rows[1][3].strip())
    if rows[1][3].strip() in ("unlimited", "-"):
        return [0]
    if found is None or found[2].upper() not in _UNITS:
        return None
    return [int(float(found[1]) * _UNITS[found[2].upper()])]
