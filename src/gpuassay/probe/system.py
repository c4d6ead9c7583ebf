"""What the kernel and the processor say of themselves, as far as no plain file holds it."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from typing import Any

from gpuassay.probe.answer import unread
from gpuassay.probe.exposure import marked
from gpuassay.probe.files import head

# One processor's paragraph is a few KiB; all of them would be megabytes, and slow to make for the kernel.
_ONE_PROCESSOR = 1 << 14

_STA_NANO = 0x2000  # linux/timex.h: the offset is in nanoseconds


class _Timex(ctypes.Structure):
    """The beginning of ``struct timex``, and room for its rest (208 bytes in all on 64-bit Linux)."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 256),
    )


def host() -> dict[str, Any]:
    """Name the node and its size; the host name as the kernel has it, no name service is asked."""
    kernel = os.uname()
    page = os.sysconf("SC_PAGE_SIZE")
    return {
        "hostname": kernel.nodename,
        "kernel": kernel.release,
        "machine": kernel.machine,
        "python": ".".join(map(str, sys.version_info[:3])),
        "uid": os.getuid(),
        "cpus": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * page,
        "page_size": page,
    }


def cpuinfo(path: str = "/proc/cpuinfo") -> dict[str, Any]:
    """Name the first processor, and tell whether it sees a hypervisor. Raises OSError."""
    pairs = (line.partition(":") for line in head(path, _ONE_PROCESSOR).split("\n\n")[0].splitlines())
    fields = {key.strip(): value.strip() for key, _, value in pairs}
    arm = [f"{key} {fields[key]}" for key in ("CPU implementer", "CPU part") if key in fields]
    model = fields.get("model name") or fields.get("cpu") or ", ".join(arm)
    hypervisor: Any = unread("not_found", "this architecture has no flag for it")
    if "flags" in fields:
        hypervisor = "hypervisor" in fields["flags"].split()
    return {"model": model or unread("not_found", "no model in /proc/cpuinfo"), "hypervisor": hypervisor}


def virtualization(path: str = "/proc/cpuinfo", device: str = "/dev/kvm") -> dict[str, Any]:
    """Tell whether the first processor has the extensions for virtual machines, and who may use them.

    Raises OSError.
    """
    flags = re.search(r"^flags\s*:(.*)$", head(path, _ONE_PROCESSOR).split("\n\n")[0], re.MULTILINE)
    extensions: Any = unread("not_found", "this architecture has no flag for it")
    if flags:
        extensions = not {"vmx", "svm"}.isdisjoint(flags[1].split())
    return {"extensions": extensions, "device": marked([device])}


def clock() -> dict[str, Any]:
    """Read the state of the kernel's clock (adjtimex(2) with no mode set). Raises OSError."""
    timex = _Timex()
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    if state < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "adjtimex")
    return {
        "state": state,
        "status": timex.status,
        "offset_us": timex.offset / 1000 if timex.status & _STA_NANO else float(timex.offset),
        "maxerror_us": timex.maxerror,
        "esterror_us": timex.esterror,
    }
