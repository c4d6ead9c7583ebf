"""The kernel's messages as the journal has them, written as /dev/kmsg writes them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from gpuassay.facts.source import take
from gpuassay.judge.fact import Unread

if TYPE_CHECKING:
    from gpuassay.evidence.item import Item
    from gpuassay.facts.source import Evidence

ITEM: Final = "kernel-journal"
_USER: Final = 8  # a facility that the kernel does not use: what does not say its own is not the kernel's
_FIRST_MESSAGE: Final = "Linux version "


def as_kmsg(evidence: Evidence) -> Item | None:
    """Give the journal's messages as a kernel log; None if there are none, or not all that were asked for."""
    fact = take(evidence, ITEM)
    if isinstance(fact, Unread):
        return None
    lines = [line for line in fact.value.out.decode(errors="replace").split("\n") if line.strip()]
    records = [_record(number, line) for number, line in enumerate(lines)]
    return replace(fact.value, out="\n".join(records).encode(errors="replace")) if records else None


def _record(number: int, line: str) -> str:
    """Write one entry as a record; a line that is no entry stays as it is, and is found to be no record."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return f"not an entry of the journal: {line}"
    if not isinstance(entry, dict):
        return f"not an entry of the journal: {line}"
    message = _message(entry.get("MESSAGE"))
    priority = _number(entry.get("SYSLOG_FACILITY"), _USER) * 8 + _number(entry.get("PRIORITY"), 6) % 8
    usec = entry.get("_SOURCE_MONOTONIC_TIMESTAMP") or entry.get("__MONOTONIC_TIMESTAMP")
    sequence = number if message.startswith(_FIRST_MESSAGE) else number + 1  # 0: it goes back to the boot
    return f"{priority},{sequence},{_number(usec, -1)},-;{message}"


def _message(value: Any) -> str:
    """Give a message on one line; what is no text comes as a list of bytes."""
    if isinstance(value, list) and all(type(byte) is int and 0 <= byte < 256 for byte in value):  # noqa: PLR2004 - a byte
        value = bytes(value).decode(errors="replace")
    return " ".join(value.split("\n")) if isinstance(value, str) else ""


def _number(value: Any, otherwise: int) -> int:
    fits = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 19  # noqa: PLR2004 - a counter
    return int(value) if fits else otherwise
