"""The file systems that a healthy recorded node has mounted: a shared home by NFS, and scratch of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from recorded.items import library

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuassay.evidence.item import Item

TB = 10**12
HOW = "vers=4.2,rsize=1048576,wsize=1048576,hard,proto=tcp,nconnect=16,timeo=600,sec=sys,local_lock=none"
SECTOR = 512
LARGE = 2 * TB // SECTOR  # smaller drives are the system's


def item(devices: Iterable[Item], *, shared: bool) -> Item:
    """Return what the probe tells of a node with these devices; ``shared`` gives it its cluster's home."""
    drives: dict[str, Any] = next((json.loads(one.out) for one in devices if one.id == "nvme"), {})
    sizes = {name: int(size) for drive in drives.values() for name, size in drive["sectors"].items()}
    large = {name: size for name, size in sizes.items() if size > LARGE}
    system = next((name for name in sizes if name not in large), "sda")
    mounts = [
        *([_home()] if shared else []),
        _local("/", "ext4", f"/dev/{system}2", [system], 1_900_000_000_000),
    ]
    if shared and large:
        mounts.append(
            _local("/scratch", "xfs", "/dev/md0", [*large], sum(large.values()) * SECTOR * 997 // 1000)
        )
    return library("storage", "file systems", {"mounts": mounts, "links": {}, "left_out": 0})


def _home() -> dict[str, Any]:
    return {
        "at": "/home",
        "type": "nfs4",
        "source": "nfs1:/export/home",
        "options": "rw,nosuid,nodev,relatime",
        "super": f"rw,{HOW}",
        "local": False,
        "fsid": "6b2d0c4e5f8a1973:0",
        "space": {**_room(20 * TB, 14 * TB), "inode": 128, "writable_for_us": False, "snapshots": 7},
    }


def _local(at: str, kind: str, source: str, drives: list[str], size: int) -> dict[str, Any]:
    return {
        "at": at,
        "type": kind,
        "source": source,
        "options": "rw,relatime",
        "super": "rw",
        "local": True,
        "drives": drives,
        "space": {**_room(size, size * 4 // 5), "inode": 2, "writable_for_us": True},
    }


def _room(size: int, free: int) -> dict[str, int]:
    return {"bytes": size, "bytes_free": free, "inodes": size // 16384, "inodes_free": size // 17000}
