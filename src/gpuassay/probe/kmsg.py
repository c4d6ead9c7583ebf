"""The kernel's log, record by record, without waiting for the next one and without clearing any."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections import deque
from typing import TYPE_CHECKING

from gpuassay.probe.answer import Answer

if TYPE_CHECKING:
    from typing import Callable

_RECORD = 1 << 15  # more than the kernel's longest record (CONSOLE_EXT_LOG_MAX, 8 KiB)
_KMSG = os.makedev(1, 11)  # Documentation/admin-guide/devices.txt


def kmsg(cap: int, path: str = "/dev/kmsg", budget_s: float = 5.0) -> Answer:
    """Read from the oldest record to the newest, and keep the newest ``cap`` bytes. Raises OSError.

    Each record is one line, ``priority,sequence,microseconds,flags;message``; the key=value lines that may
    follow a message are left out. Some containers have a terminal or a plain file under this name, where
    silence would look like a healthy log: that is *not found*.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not _is_kernel_log(descriptor):
            return Answer(status="not_found", why=f"{path} is not the kernel's log here")
        until = time.monotonic() + budget_s  # a log that is written faster than it is read has no end
        lines, whole = newest(lambda: os.read(descriptor, _RECORD), cap, lambda: time.monotonic() < until)
    finally:
        os.close(descriptor)
    if not lines:
        return Answer(status="failed", why=f"{path} held no record at all")
    return Answer(out=b"\n".join(lines), truncated=not whole)


def newest(read: Callable[[], bytes], cap: int, go_on: Callable[[], bool]) -> tuple[list[bytes], bool]:
    """Read records until there is none, and keep the newest; also tell whether that is all of them."""
    kept: deque[bytes] = deque()
    size, whole = 0, True
    while go_on():
        try:
            record = read()
        except BlockingIOError:
            return list(kept), whole
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise
            continue  # overwritten before it was read: the kernel goes on with the oldest that is left
        if not record:
            return list(kept), whole
        kept.append(record.partition(b"\n")[0])
        size += len(kept[-1]) + 1
        while size > cap:
            size -= len(kept.popleft()) + 1
            whole = False
    return list(kept), False


def _is_kernel_log(descriptor: int) -> bool:
    found = os.fstat(descriptor)
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == _KMSG
