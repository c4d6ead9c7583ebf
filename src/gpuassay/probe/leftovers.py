"""What earlier users left behind in shared memory: how much, of how many owners; never what."""

from __future__ import annotations

import os
import stat
import time
from typing import Any

_MOST = 100_000  # entries; more would take longer to count than it is worth
_BLOCK = 512  # of st_blocks, whatever the file system's own


def shm(root: str = "/dev/shm") -> dict[str, Any]:  # noqa: S108 - it is only looked at
    """Add up the files of /dev/shm by the number of their owner. Raises OSError."""
    space = os.statvfs(root)
    owners: dict[str, dict[str, int]] = {}
    count, newest = 0, 0.0
    with os.scandir(root) as entries:
        for entry in entries:
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # gone since it was listed
                continue
            count += 1
            if count > _MOST or not stat.S_ISREG(found.st_mode):
                continue
            owner = owners.setdefault(str(found.st_uid), {"files": 0, "bytes": 0})
            owner["files"] += 1
            owner["bytes"] += found.st_blocks * _BLOCK
            newest = max(newest, found.st_mtime)
    return {
        "size_bytes": space.f_blocks * space.f_frsize,
        "free_bytes": space.f_bavail * space.f_frsize,
        "entries": count,
        "owners": owners,
        "newest_age_s": max(0, round(time.time() - newest)) if owners else 0,
    }
