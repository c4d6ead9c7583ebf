"""For tests of the probe: a fresh Python that runs a piece of it, and a look for what it left running."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path


def python(code: str, **environment: str) -> str:
    """Run code in a fresh Python that finds the same modules as this one; give what it prints."""
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **path, **environment},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


class Mark:
    """A mark in the environment, by which all that a test has started is found again."""

    def __init__(self) -> None:
        self.environment = {"GPUASSAY_TEST_MARK": uuid.uuid4().hex}

    def survivors(self, patience_s: float = 10) -> list[int]:
        """Give the marked processes that are still there; one that is just ending is waited for."""
        return [pid for pid in self._marked() if not _gone(pid, patience_s)]

    def end(self) -> None:
        """Kill what is marked."""
        for pid in self._marked():
            if pid != os.getpid():
                os.kill(pid, signal.SIGKILL)

    def _marked(self) -> list[int]:
        mark = self.environment["GPUASSAY_TEST_MARK"].encode()
        found = []
        for process in Path("/proc").iterdir():
            with suppress(OSError):
                if process.name.isdigit() and mark in (process / "environ").read_bytes():
                    found.append(int(process.name))
        return found


def _gone(pid: int, patience_s: float) -> bool:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    gone = bool(poll.poll(patience_s * 1000))
    os.close(descriptor)
    return gone
