"""A server that a workload runs on its node, and that is gone when the workload is, whatever ends that.

It has a session of its own. A keeper beside it, in another one, holds the end of a pipe of which we hold the
beginning: when we are gone, also by a kill that nobody can catch, the pipe is closed, and the keeper kills
all that is left of the server.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Self

_KEEPER = """\
import os, signal, sys
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
sys.stdin.read()
try:
    os.killpg(int(sys.argv[1]), signal.SIGKILL)
except ProcessLookupError:
    pass
"""
_GONE_S, _AGAIN_S = 10.0, 0.05


class Kept:
    """The server: started on entering, and ended on leaving with all that it started."""

    def __init__(self, argv: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path) -> None:
        """Take its command, where it works, what is added to its environment, and where it may write."""
        self._argv, self._folder, self._environment, self._log = argv, folder, environment, log
        self.left: list[str] = []
        """What of it was still there some seconds after it was ended: names of processes."""

    def __enter__(self) -> Self:
        """Start it, and its keeper."""
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with self._log.open("wb") as said:
            self._child = subprocess.Popen(  # noqa: S603 - argv is ours
                self._argv,
                cwd=self._folder,
                env={**os.environ, **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        keeper = [sys.executable, "-I", "-S", "-B", "-c", _KEEPER, str(self._child.pid)]
        self._keeper = subprocess.Popen(  # noqa: S603 - this Python, and a text of ours
            keeper, stdin=subprocess.PIPE, start_new_session=True, **quiet
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it, look whether it is gone, and let the keeper go."""
        with suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        until = time.monotonic() + _GONE_S
        while (left := _of_session(self._child.pid)) and time.monotonic() < until:
            time.sleep(_AGAIN_S)
        self.left = left
        self._keeper.kill()
        self._keeper.communicate()

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._child.poll() is not None

    @property
    def last_words(self) -> str:
        """The last line that it wrote."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        return lines[0][:200] if lines else "it said nothing"


def _of_session(session: int) -> list[str]:
    """Name the processes of a session that live."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            before, _, after = file.read_text(encoding="utf-8", errors="replace").rpartition(")")
        except OSError:
            continue  # it has just gone
        state, _, _, own = after.split()[:4]
        if own == str(session) and state not in "ZX":
            found.append(before.partition("(")[2])
    return sorted(found)
