"""A folder of our own on somebody's file system, which goes when we go, whatever ends us.

A keeper, a process of its own, waits for the end of its standard input and then removes the folder: so it
is removed after a kill that no program can catch. What even the keeper did not live to remove (the node went
down) is removed by the next one that comes here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

PREFIX = ".gpuassay-"
_STALE_S = 6 * 3600  # longer than any measurement may take
_PATIENCE_S = 60.0
_KEEPER = """\
import shutil, signal, sys
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
sys.stdin.read()
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""


class Scratch:
    """The folder: made on entering, removed on leaving and also if this process is killed."""

    def __init__(self, mount: str) -> None:
        """Take where a file system is mounted."""
        self._mount = mount
        self._keeper: subprocess.Popen[bytes] | None = None
        self.path = Path()

    def __enter__(self) -> Self:
        """Make it. Raises OSError where nothing may be written."""
        place = writable(self._mount)
        _remove_stale(place)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        self._keeper = subprocess.Popen(  # noqa: S603 - this Python, and a text of ours
            [sys.executable, "-I", "-S", "-B", "-c", _KEEPER, str(self.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Have it removed."""
        self.close()

    def close(self) -> None:
        """Remove it, and wait until it is gone."""
        if self._keeper and self._keeper.stdin:
            self._keeper.stdin.close()
            self._keeper.wait(_PATIENCE_S)
            self._keeper = None


def writable(mount: str) -> Path:
    """Find where in a file system this user may write: its top, the user's home, or a folder of that name.

    Raises PermissionError.
    """
    home = os.environ.get("HOME", "")
    top = Path(mount)
    tried = [top, *([Path(home)] if f"{home}/".startswith(f"{mount.rstrip('/')}/") else [])]
    tried.append(top / os.environ.get("USER", "")) if os.environ.get("USER") else None
    for place in tried:
        if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
            return place
    raise PermissionError(f"this user may write in none of {', '.join(map(str, tried))}")


def room(path: Path) -> dict[str, Any]:
    """Say how large the file system is and how full, and of what type: no figure means anything without."""
    seen = os.statvfs(path)
    return {
        "type": _type(path),
        "bytes": seen.f_blocks * seen.f_frsize,
        "bytes_free": seen.f_bavail * seen.f_frsize,
    }


def _type(path: Path) -> str:
    """Find the type of the file system in the kernel's table: of the longest mount that leads there."""
    real, found = f"{path.resolve()}/", ("", "unknown")
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        at, kind = line.split()[4], line.partition(" - ")[2].split()[:1]
        if real.startswith(f"{at.rstrip('/')}/") and len(at) >= len(found[0]) and kind:
            found = at, kind[0]
    return found[1]


def _remove_stale(place: Path) -> None:
    """Remove what earlier runs of this user left here when their node went down."""
    before = time.time() - _STALE_S
    for folder in place.glob(f"{PREFIX}*"):
        about = folder.lstat()
        if about.st_uid == os.getuid() and about.st_mtime < before:
            shutil.rmtree(folder, ignore_errors=True)
