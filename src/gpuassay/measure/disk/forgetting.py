"""Files that were just written, dropped from the node's memory, so that reading them is reading storage."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_PROT_READ, _MAP_SHARED = 1, 1  # sys/mman.h
_FAILED = ctypes.c_void_p(-1).value


def forget(paths: Iterable[Path]) -> float:
    """Write files out and ask for them to be dropped from memory; tells what share of their pages is gone."""
    gone = total = 0
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)  # what is not written out yet is not dropped
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            size = os.fstat(descriptor).st_size
            pages = -(-size // mmap.PAGESIZE)
            gone += pages - _resident(descriptor, size, pages)
            total += pages
        finally:
            os.close(descriptor)
    return gone / total if total else 0.0


def _resident(descriptor: int, size: int, pages: int) -> int:
    """Count the pages of a file that are in memory; where it cannot be told, all of them are taken to be."""
    if not size:
        return 0
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    at = libc.mmap(None, size, _PROT_READ, _MAP_SHARED, descriptor, 0)
    if at in (None, _FAILED):
        return pages
    told = (ctypes.c_ubyte * pages)()
    try:
        if libc.mincore(ctypes.c_void_p(at), ctypes.c_size_t(size), told):
            return pages
    finally:
        libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(size))
    return sum(page & 1 for page in told)
