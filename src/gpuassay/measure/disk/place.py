"""A folder of our own in a mount: found, made, measured, and removed whatever happens."""

from __future__ import annotations

import contextlib
import ctypes
import getpass
import os
import shutil
import signal
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARK = ".gpuassay-"
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class NoPlaceError(Exception):
    """Nothing can be written below a mount; says what was tried."""


def end_tidily() -> None:
    """Let every signal that ends us, also our parent's death, unwind: what was made is removed on the way."""
    for number in _ENDING:
        signal.signal(number, _leave)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _leave(number: int, _frame: object) -> NoReturn:
    for one in _ENDING:  # a second one must not cut the removal short
        signal.signal(one, signal.SIG_IGN)
    raise SystemExit(128 + number)


@contextlib.contextmanager
def folder(mount: str) -> Iterator[Path]:
    """Make a folder below a mount, and remove it. Raises NoPlaceError."""
    tried = []
    for parent in _candidates(mount):
        try:
            _sweep(parent)
            made = Path(tempfile.mkdtemp(prefix=f"{_MARK}{_host()}-{os.getpid()}-", dir=parent))
        except OSError as error:
            tried.append(f"{parent}: {error.strerror}")
            continue
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)
        return
    raise NoPlaceError(f"no folder here can be written to: {'; '.join(tried)}")


def _candidates(mount: str) -> list[Path]:
    """List where a user may write: the mount itself, or in it the folder that is the user's own."""
    root, named = Path(mount), [os.environ.get(name, "") for name in ("HOME", "SCRATCH", "TMPDIR")]
    own = [Path(one) for one in named if one.startswith("/") and root in (Path(one), *Path(one).parents)]
    with contextlib.suppress(KeyError, OSError):  # a user without a name, as in many containers
        own.append(root / getpass.getuser())
    return list(dict.fromkeys([*own, root]))


def _sweep(parent: Path) -> None:
    """Remove what an earlier run on this node left that was killed outright: its process is gone."""
    for left in parent.glob(f"{_MARK}{_host()}-*-*"):
        pid = left.name.rsplit("-", 2)[1]
        if pid.isdigit() and left.lstat().st_uid == os.getuid() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(left, ignore_errors=True)


def _host() -> str:
    return socket.gethostname().partition(".")[0]


def about(path: Path) -> dict[str, Any]:
    """Tell of the file system that a folder lies in: which, how large, and how full."""
    told = os.statvfs(path)
    size, free = told.f_blocks * told.f_frsize, told.f_bavail * told.f_frsize
    at, kind, source = _mounted(path)
    return {"bytes": size, "free": free, "at": at, "type": kind, "source": source}


def _mounted(path: Path) -> tuple[str, str, str]:
    """Find the mount that a path lies on: where, of which type and from whom."""
    found = ("", "", "")
    for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines():
        before, _, after = line.partition(" - ")
        at = before.split()[4].replace("\\040", " ")
        if Path(at) in (path, *path.parents) and len(at) >= len(found[0]):
            kind, source = after.split()[:2]
            found = (at, kind, source)
    return found


def keeps_out_of_memory(path: Path) -> bool:
    """Tell whether files here can be read past the page cache (O_DIRECT)."""
    probe = path / "direct"
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_WRONLY | os.O_DIRECT, 0o600))
    except OSError:
        return False
    finally:
        probe.unlink(missing_ok=True)
    return True
