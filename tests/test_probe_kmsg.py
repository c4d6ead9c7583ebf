"""The kernel's log: from the oldest record to the newest, within bounds, and no other file in its place."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuassay.probe import kmsg

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FOREVER = 1 << 30
END = BlockingIOError(errno.EAGAIN, "")
OVERRUN = BrokenPipeError(errno.EPIPE, "")


def device(*records: bytes | OSError) -> Callable[[], bytes]:
    """Answer reads as the kernel does: a record each time, or an error."""
    rest = list(records)

    def read() -> bytes:
        record = rest.pop(0)
        if isinstance(record, OSError):
            raise record
        return record

    return read


def always() -> bool:
    """Have all the time in the world."""
    return True


def test_records_to_the_end() -> None:
    """Each record is a line, without the keys that follow some."""
    read = device(b"6,1,10,-;one\n SUBSYSTEM=pci\n DEVICE=+pci:0000:18:00.0\n", b"4,2,20,-;two\n", END)
    assert kmsg.newest(read, FOREVER, always) == ([b"6,1,10,-;one", b"4,2,20,-;two"], True)


def test_records_overwritten_while_reading() -> None:
    """The kernel says EPIPE and goes on with what is left: so does the reader."""
    read = device(b"6,1,10,-;one\n", OVERRUN, b"6,9,90,-;nine\n", END)
    assert kmsg.newest(read, FOREVER, always) == ([b"6,1,10,-;one", b"6,9,90,-;nine"], True)


def test_another_error_is_no_end() -> None:
    """A log that breaks off in the middle is not passed for whole."""
    with pytest.raises(OSError, match="Input/output"):
        kmsg.newest(device(b"6,1,10,-;one\n", OSError(errno.EIO, os.strerror(errno.EIO))), FOREVER, always)


def test_a_log_that_never_ends() -> None:
    """One that is written faster than it is read is left off when its time is up, and that is said."""
    turns = iter([True, True, False])
    lines, whole = kmsg.newest(lambda: b"4,1,1,-;again\n", FOREVER, lambda: next(turns))
    assert (len(lines), whole) == (2, False)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line)), st.integers(0, 200))
def test_the_newest_are_kept(lines: list[bytes], cap: int) -> None:
    """Whatever the log and the cap: what is kept is its end, fits, and is called whole only if it is."""
    read = device(*(line + b"\n" for line in lines), END)
    kept, whole = kmsg.newest(read, cap, always)
    assert kept == lines[len(lines) - len(kept) :]
    assert sum(len(line) + 1 for line in kept) <= cap
    assert whole == (kept == lines)


@pytest.mark.parametrize("path", ["file", "/dev/null", "/dev/zero"])
def test_another_file_under_the_name(tmp_path: Path, path: str) -> None:
    """A container may have a plain file or another device there: its silence is no healthy log."""
    (tmp_path / "file").touch()
    answer = kmsg.kmsg(FOREVER, str(tmp_path / path))
    assert (answer.status, answer.out) == ("not_found", b"")
    assert answer.why.endswith("is not the kernel's log here")


def test_no_log_at_all(tmp_path: Path) -> None:
    """A container without the device: the reader's caller calls that not found."""
    with pytest.raises(FileNotFoundError):
        kmsg.kmsg(FOREVER, str(tmp_path / "kmsg"))


def test_this_machines_log() -> None:
    """Where it may be read, it begins with records in the kernel's form; else the system says why not."""
    try:
        answer = kmsg.kmsg(FOREVER)
    except (FileNotFoundError, PermissionError):
        return
    if answer.status == "ok":
        priority, sequence, microseconds, *_ = answer.out.partition(b";")[0].split(b",")
        assert priority.isdigit()
        assert sequence.isdigit()
        assert microseconds.isdigit()
    else:
        assert answer.status == "not_found"
