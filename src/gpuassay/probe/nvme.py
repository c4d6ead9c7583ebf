"""The health log of each NVMe drive, which only root may ask for; the drive is asked and nothing is set."""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import struct
from typing import Any

from gpuassay.probe.answer import unread, unread_because
from gpuassay.probe.files import entries

_CONTROLLER = re.compile(r"nvme\d+")

# linux/nvme_ioctl.h: struct nvme_passthru_cmd (72 bytes), NVME_IOCTL_ADMIN_CMD
_COMMAND = struct.Struct("<BBHIIIQQIIIIIIIIII")
_ADMIN = 0xC0484E41

# NVM Express Base Specification 2.0, Get Log Page (02h): SMART / Health Information (02h), 512 bytes, of the
# whole drive; "retain asynchronous event", so that who waits for an event of this log still gets it.
_GET_LOG_PAGE, _ALL, _SIZE = 0x02, 0xFFFFFFFF, 512
_SMART = 0x02 | 1 << 15 | (_SIZE // 4 - 1) << 16
_DEADLINE_MS = 2000


def health(root: str = "/sys/class/nvme", devices: str = "/dev") -> dict[str, Any]:
    """Read the log of each controller; none where the kernel has no such class. Raises OSError."""
    names = [name for name in entries(root, os.path.dirname(root)) if _CONTROLLER.fullmatch(name)]  # noqa: PTH120 - pathlib is slow to import
    return {name: _ask(f"{devices}/{name}") for name in names}


def _ask(path: str) -> dict[str, Any]:
    log = ctypes.create_string_buffer(_SIZE)
    address = ctypes.addressof(log)
    command = (_GET_LOG_PAGE, 0, 0, _ALL, 0, 0, 0, address, 0, _SIZE, _SMART, 0, 0, 0, 0, 0, _DEADLINE_MS, 0)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            status = fcntl.ioctl(descriptor, _ADMIN, bytearray(_COMMAND.pack(*command)))
        finally:
            os.close(descriptor)
    except OSError as error:
        error.filename = path
        return unread_because(error)
    if status:
        return unread("unsupported", f"{path}: the drive refuses its health log (NVMe status {status:#x})")
    return fields(log.raw)


def fields(log: bytes) -> dict[str, int]:
    """Take the health log apart."""
    return {
        "critical_warning": log[0],
        "spare_percent": log[3],
        "spare_threshold_percent": log[4],
        "used_percent": log[5],
        "media_errors": int.from_bytes(log[160:176], "little"),
    }
