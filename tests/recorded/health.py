"""What NVML says of the health of one idle GPU that has none to complain of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recorded.items import library

if TYPE_CHECKING:
    from gpuassay.evidence.item import Item

NOT_SUPPORTED = {"unread": "unsupported", "why": "NVML: Not Supported (3)", "code": 3}
NAMESPACE = "pid:[4026531836]"  # the machine's own, the same on every Linux


def gpu(power_mw: int, degrees: int, limit: int = 88, slowdown: int = -3) -> dict[str, Any]:
    """Return the part of a GPU's entry; ``limit`` is the highest temperature of operation."""
    return {
        "ecc_errors": {
            "volatile_uncorrected": 0,
            "volatile_corrected": 0,
            "aggregate_uncorrected": 0,
            "sram_threshold_exceeded": False,
        },
        "repairs_pending": {"channel": False, "tpc": False},
        "unrepairable_memory": False,
        "fields": {
            "memory_c": degrees,
            "pcie_replays": 0,
            "slowdown_tlimit_c": slowdown,
            "recovery_action": 0,
        },
        "clock_event_reasons": 1,  # idle
        "temperature": {
            "gpu_c": degrees,
            "tlimit_c": limit - degrees,
            "slowdown_c": NOT_SUPPORTED,
            "memory_max_c": NOT_SUPPORTED,
        },
        "usage": {
            "busy_percent": 0,
            "power_mw": power_mw,
            "memory_bytes": 0,
            "processes": {"count": 0, "listed": [], "namespace": NAMESPACE},
        },
        "addressing": "None",
        "inforom_valid": True,
    }


NO_PCI_ERRORS = 0  # in place of the three files of a function that has counted no error


def shm(size: int) -> Item:
    """Return an empty shared memory of half the machine's memory, as the kernel makes it."""
    half = size // 2 // 4096 * 4096
    found = {"size_bytes": half, "free_bytes": half, "entries": 0, "owners": {}, "newest_age_s": 0}
    return library("shm", "shm", found)
