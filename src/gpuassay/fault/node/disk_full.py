"""A node's scratch is filled, as a job does that never cleans up."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.fault.node.mounts import mounted
from gpuassay.fault.node.words import Blocked, NotRestored, Plan, Refused, need_root, run

if TYPE_CHECKING:
    from collections.abc import Mapping

_FULL, _FREE_ENOUGH = 0.95, 0.90
_VITAL = ("", "boot", "etc", "home", "run", "tmp", "usr", "var", "var/lib", "var/log")
_FILL_S = 100.0


class DiskFull:
    """``path`` is where the scratch is mounted; without it, the first that the site file declares as own."""

    def __init__(self, args: Mapping[str, Any], root: str = "/") -> None:
        """Only hold."""
        self._path = str(args.get("path") or args.get("scratch", ""))
        self._root = Path(root)
        self._place = self._root / self._path.lstrip("/")
        self._file = self._place / f".gpuassay-fault-{args['mark']}"

    def plan(self) -> Plan:
        """Look that it is a file system of its own, with room. Raises Refused."""
        need_root()
        if not self._path:
            raise Refused("the site file declares no storage of each node's own ([[mount]] role = local)")
        if self._path == "/" or mounted(self._root, self._path) is None:
            raise Refused(f"{self._path} is no file system of its own")
        device = self._place.stat().st_dev
        vital = [name for name in _VITAL if self._device(name) == device]
        if vital:
            raise Refused(f"{self._path} is the file system of /{vital[0]}, without which the node is lost")
        room = os.statvfs(self._place)
        used = 1 - room.f_bavail / room.f_blocks
        if used > _FREE_ENOUGH:
            raise Refused(f"{self._path} is {used:.0%} full already")
        size = int((_FULL - used) * room.f_blocks) * room.f_frsize
        return Plan(
            does=(f"fallocate -l {size} {self._file}",),
            undoes=(f"rm {self._file}",),
            expects=f"{self._path} is {_FULL:.0%} full",
            state={"size": size},
            warns=(f"whatever else writes to {self._path} may find it full",),
        )

    def inject(self, state: Mapping[str, Any]) -> None:
        """Take the room. Raises Blocked."""
        status, said = run("fallocate", "-l", str(state["size"]), str(self._file), patience_s=_FILL_S)
        if status != 0:
            raise Blocked(f"fallocate: {said}")

    def verify_injected(self, state: Mapping[str, Any]) -> str:
        """Ask the file system how full it is. Raises Blocked."""
        used = self._used()
        if used < _FULL - 0.01:
            raise Blocked(f"{self._path} is {used:.0%} full: its room is not taken by what a file claims")
        return f"{self._path} is {used:.0%} full"

    def undo(self, state: Mapping[str, Any]) -> None:
        """Give the room back."""
        self._file.unlink(missing_ok=True)

    def verify_undone(self, state: Mapping[str, Any]) -> str:
        """Find our file gone. Raises NotRestored."""
        if self._file.exists():
            raise NotRestored(f"{self._file} is still there")
        return f"{self._path} is {self._used():.0%} full, and nothing of ours is there"

    def _used(self) -> float:
        room = os.statvfs(self._place)
        return 1 - room.f_bavail / room.f_blocks

    def _device(self, name: str) -> int | None:
        try:
            return (self._root / name).stat().st_dev
        except OSError:
            return None
