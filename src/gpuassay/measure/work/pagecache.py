"""Files out of the page cache, and how much of them is still there: what makes a first reading a first one.

No privilege is needed. A page that some process has mapped stays, and tmpfs has nothing else than the cache;
so it is looked at afterwards, and not believed.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_PAGE = mmap.PAGESIZE
_LEAST = 1 << 20  # bytes of a file whose pages are counted: the small ones are many, and weigh little


def evict(files: Iterable[Path]) -> float:
    """Take files out of the cache of this node; gives the share of the large ones' bytes that stayed."""
    listed = [file for file in files if file.is_file() and not file.is_symlink()]
    for file in listed:
        _drop(file)
    counts = [_pages(file) for file in listed if file.stat().st_size >= _LEAST]
    counts = counts or [_pages(file) for file in listed if file.stat().st_size]
    pages = sum(count for _, count in counts)
    return sum(held for held, _ in counts) / pages if pages else 0.0


def _drop(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fdatasync(descriptor)  # what is not on storage yet stays
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _pages(file: Path) -> tuple[int, int]:
    """Count the pages of a file that are in memory, and all of them."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
        count = -(-len(mapped) // _PAGE)
        held = (ctypes.c_ubyte * count)()
        start = ctypes.c_char.from_buffer(mapped)
        library = ctypes.CDLL(None, use_errno=True)
        failed = library.mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(len(mapped)), held)
        del start  # a mapping that is pointed at cannot be closed
        if failed:
            raise OSError(ctypes.get_errno(), f"mincore of {file}")
        return sum(one & 1 for one in held), count
