"""The kernel log as those read it who watch for faults: record by record, from where it ended."""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_RECORD = 8192  # the kernel gives one record a read, of no more than this
_LOOK_S = 0.05
_HEAD = re.compile(r"([0-9]+),[0-9]+,[0-9]+,[^;]*;")
_KERNEL_BELOW = 8  # facility 0 in the upper bits of the priority: no program can write with it


class Record(NamedTuple):
    """One record: its text, and whether the kernel itself wrote it."""

    text: str
    by_kernel: bool


def path(root: Path) -> Path:
    """Give the place of the kernel log."""
    return root / "dev/kmsg"


class Reader:
    """Reads what comes after it was opened."""

    def __init__(self, root: Path) -> None:
        """Open it at its end. Raises OSError."""
        self._file = os.open(path(root), os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self._file, 0, os.SEEK_END)
        self._seen = ""

    def until(self, signs: tuple[str, ...], patience_s: float) -> list[Record]:
        """Give all that came, once a record holds each of ``signs``, or that long has passed."""
        end = time.monotonic() + patience_s
        while True:
            self._seen += self._more()
            if all(sign in self._seen for sign in signs) or time.monotonic() > end:
                return [_record(line) for line in self._seen.splitlines() if not line.startswith(" ")]
            time.sleep(_LOOK_S)

    def close(self) -> None:
        """Close it."""
        os.close(self._file)

    def _more(self) -> str:
        texts = []
        while True:
            try:
                chunk = os.read(self._file, _RECORD)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # records were overwritten before they were read; the next read goes on behind them
            if not chunk:
                break
            texts.append(chunk.decode(errors="replace"))
        return "".join(texts)


def _record(line: str) -> Record:
    head = _HEAD.match(line)
    if head is None:
        return Record(line, by_kernel=False)
    return Record(line[head.end() :], int(head[1]) < _KERNEL_BELOW)
