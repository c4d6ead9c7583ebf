"""Files as evidence needs them: private, whole or not there, and never followed out of their folder."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader


class RecordingError(Exception):
    """A recording or a run's folder cannot be read or written; one sentence that names the place."""


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turn what the system refuses (no space, no permission) into a ``RecordingError`` naming ``path``."""
    try:
        yield
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from error


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading.

    A link is refused, for it may lead out of the folder; a pipe too, for it would be waited for.
    Raises OSError.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, "not a regular file")
    return os.fdopen(descriptor, "rb")


def list_tree(folder: Path) -> tuple[list[str], list[str]]:
    """List what is below a folder, as sorted paths with ``/``: regular files; all else but folders."""
    regular: list[str] = []
    other: list[str] = []
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(place, name)
            mode = path.lstat().st_mode
            if not stat.S_ISDIR(mode):
                (regular if stat.S_ISREG(mode) else other).append(path.relative_to(folder).as_posix())
    return sorted(regular), sorted(other)


def append_line(path: Path, line: bytes, *, durable: bool = False) -> None:
    """Append one line to a private file, whole or not at all; ``durable`` waits until it is on the disk.

    A line that an earlier, killed writer left half-written is closed first, so that it spoils only itself.
    Raises ``RecordingError``.
    """
    with naming(path):
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            try:
                _write_all(descriptor, b"\n" * torn + line + b"\n")
            except OSError:
                with suppress(OSError):
                    os.ftruncate(descriptor, size)
                raise
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_atomic(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write a private file so that a reader finds the old content or the new, never a part.

    Raises ``RecordingError``; nothing of a failed attempt is left behind.
    """
    with naming(path):
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
        try:
            try:
                _write_all(descriptor, data)
                if durable:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _write_all(descriptor: int, data: bytes) -> None:
    """Write until all is written; a full disk may take a part before it refuses."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
