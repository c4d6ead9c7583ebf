"""File systems in user space (FUSE), as many clients of shared storage are: which process serves one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay.fault.node import processes
from gpuassay.fault.node.words import Refused

if TYPE_CHECKING:
    from pathlib import Path

_DEVICE = "/dev/fuse"


def server(root: Path, path: str) -> int:
    """Give the one process that serves what is mounted at a path. Raises Refused.

    Where several serve file systems of the node, it is the one whose command line names the path.
    """
    found = [pid for pid in processes.all_of(root) if _serves(root, pid)]
    if len(found) > 1:
        found = [pid for pid in found if path in processes.words(root, pid, "cmdline")]
    if len(found) != 1:
        count = len(found) or "no"
        raise Refused(f"{count} processes can be told to serve {path}, expected one that holds {_DEVICE}")
    return found[0]


def _serves(root: Path, pid: int) -> bool:
    try:
        return any(str(place.readlink()) == _DEVICE for place in (root / f"proc/{pid}/fd").iterdir())
    except OSError:  # it has just ended
        return False
