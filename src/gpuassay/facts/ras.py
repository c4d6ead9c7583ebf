"""The error counters and bad pages of AMD's driver (``ras/`` of each GPU), in the form of NVML's answers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact

UNSUPPORTED = {"unread": "unsupported", "why": "AMD's driver has no such thing"}
"""Stands where NVML has a value and AMD's driver has none."""

_SUFFIX = "_err_count"
_COUNTS = re.compile(r"(?:(?:ue|ce|de): \d{1,18}\n?)+", re.ASCII)
_BUSY = "Query currently inaccessible"  # while the GPU is being reset
_BOGUS = 1_048_560  # what the counter of a memory controller that sleeps reads as
_UMC = 0x1  # bit of the memory controller in the mask of protected blocks (amdgpu_ras.h)
_PAGE = re.compile(r"0x[0-9a-f]{1,16} : 0x[0-9a-f]{1,8} : ([RPF])", re.ASCII)
_PAGES = {"retired": "R", "pending": "P", "unreservable": "F"}


def protection(ras: Record) -> dict[str, Any]:
    """Tell whether the memory is protected; that cannot be switched at run time, so nothing is pending."""
    mask = ras.text("features", r"feature mask: 0x[0-9a-f]{1,8}", "a mask of features")
    current: Any = (
        _mark(mask) if isinstance(mask, Unread) else bool(int(mask.value.split("0x")[1], 16) & _UMC)
    )
    return {"current": current, "pending": UNSUPPORTED}


def errors(ras: Record) -> dict[str, Any]:
    """Count the errors since the driver was loaded; those that were kept from programs were not corrected."""
    return {
        "volatile_uncorrected": _sum(ras, ("ue", "de")),
        "volatile_corrected": _sum(ras, ("ce",)),
        "aggregate_uncorrected": UNSUPPORTED,
        "sram_threshold_exceeded": UNSUPPORTED,
    }


def _sum(ras: Record, kinds: tuple[str, ...]) -> Any:
    """Add up kinds of error over all blocks; one block that cannot be read leaves the sum unread."""
    if isinstance(ras.values, Unread):
        return _mark(ras.values)
    total, found = 0, False
    for key in ras.values:
        if key.endswith(_SUFFIX):
            counts = _counts(ras, key)
            if isinstance(counts, Unread):
                return _mark(counts)
            found, total = True, total + sum(counts.value.get(kind, 0) for kind in kinds)
    return total if found else {"unread": "not_found", "why": "the driver counts the errors of no block"}


def _counts(ras: Record, key: str) -> Fact[dict[str, int]]:
    fact = ras.look(key)
    if isinstance(fact, Unread):
        return fact
    if fact.value == _BUSY:
        return Unread("failed", f"{key} could not be asked: the GPU is being reset", fact.evidence)
    if not isinstance(fact.value, str) or not _COUNTS.fullmatch(fact.value):
        return ras.garbled(key, fact.value, "counts of errors")
    counts = {line[:2]: int(line[4:]) for line in fact.value.splitlines()}
    if counts.get("ue") == _BOGUS:
        return Unread("failed", f"{key} reads {_BOGUS}, as that of memory which sleeps does", fact.evidence)
    return Read(counts, fact.evidence)


def pages(ras: Record) -> Any:
    """Count the pages of memory that are retired, wait to be, or could not be."""
    fact = ras.look("gpu_vram_bad_pages")
    if isinstance(fact, Unread):
        return _mark(fact)
    lines = fact.value.splitlines() if isinstance(fact.value, str) else [fact.value]
    marks = [
        match[1] for match in (_PAGE.fullmatch(line) for line in lines if isinstance(line, str)) if match
    ]
    if len(marks) < len(lines):
        return _mark(ras.garbled("gpu_vram_bad_pages", fact.value, "a list of pages"))
    return {name: marks.count(mark) for name, mark in _PAGES.items()}


def _mark(unread: Unread) -> dict[str, str]:
    return {"unread": unread.kind, "why": unread.why}
