"""Words as tools and drivers write them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.judge.fact import Absence, Unread

# What stands in place of a value: the texts of nvmlErrorString and the "N/A" of many tools, in small letters.
_NO_VALUE: Mapping[str, Absence] = {
    "n/a": "unsupported",
    "not supported": "unsupported",
    "requested functionality has been deprecated": "unsupported",
    "insufficient permissions": "denied",
    "function not found": "not_found",
    "not found": "not_found",
    "timeout": "timed_out",
    "gpu is lost": "failed",
    "gpu requires reset": "failed",
    "unknown error": "failed",
    "err!": "failed",
    "in use by another client": "failed",
    "insufficient external power": "failed",
    "corrupted inforom": "failed",
    "system is not in ready state": "failed",
}
_GRAVITY: tuple[Absence, ...] = (
    "not_asked",
    "not_found",
    "unsupported",
    "denied",
    "timed_out",
    "garbled",
    "failed",
)
_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([01][0-9a-f])\.([0-7])")
_LONGEST = 160  # of a foreign text inside a reason: the evidence has it whole


def no_value(text: str) -> Absence | None:
    """Tell what a text means that stands in place of a value, such as ``[N/A]``; None for any other text."""
    return _NO_VALUE.get(text.strip("[] ").casefold())


def graver(one: Unread, other: Unread) -> Unread:
    """Choose, of two reasons why the same thing is not known, the one that says more; the first if alike."""
    return other if _GRAVITY.index(other.kind) > _GRAVITY.index(one.kind) else one


def brief(text: str) -> str:
    """Cut a foreign text down to one printable line for a reason."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * _LONGEST]).split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def pci_address(text: str) -> str | None:
    """Write a PCI address the way the kernel does: ``00000000:5D:00.0`` is ``0000:5d:00.0``."""
    match = _ADDRESS.fullmatch(text.strip().lower())
    return f"{int(match[1], 16):04x}:{match[2]}:{match[3]}.{match[4]}" if match else None
