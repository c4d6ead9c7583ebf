"""Where the ranks of one node wait for each other, so that all of its GPUs work at the same time.

An abstract socket (it leaves no file behind) joins them: the first rank opens it, the others come to it.
One that does not come is not waited for longer than ``PATIENCE_S``, and what was measured says how many
were there.
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PATIENCE_S = 120.0
_AGAIN_S = 0.05


class Meeting:
    """The ranks of a node. ``wait`` is called by each of them as often as by the others."""

    def __init__(self, environment: Mapping[str, str], patience_s: float = PATIENCE_S) -> None:
        """Take this rank's place from what a launcher tells it; without one, it is alone."""
        self._rank = int(environment.get("LOCAL_RANK", "0"))
        self._size = int(environment.get("LOCAL_WORLD_SIZE", "1"))
        port, node = environment.get("MASTER_PORT", "0"), environment.get("GROUP_RANK", "0")
        self._name = f"\0gpuassay-{port}-{node}"
        self._patience_s = patience_s
        self._others: list[socket.socket] | None = None

    def wait(self) -> int:
        """Wait for the others; gives how many are here, this one too."""
        if self._size == 1:
            return 1
        try:
            return self._host() if self._rank == 0 else self._guest()
        except OSError:  # whoever lost the others does not look for them again
            self._size = 1
            return 1

    def close(self) -> None:
        """Part."""
        for other in self._others or ():
            other.close()

    def _host(self) -> int:
        until = time.monotonic() + self._patience_s
        if self._others is None:
            self._others = self._accept(until)
        here = []
        for other in self._others:
            with suppress(OSError):
                other.settimeout(max(_AGAIN_S, until - time.monotonic()))
                if other.recv(1):
                    here.append(other)
        self._others = here
        for other in here:
            with suppress(OSError):
                other.sendall(bytes([1 + len(here)]))
        return 1 + len(here)

    def _accept(self, until: float) -> list[socket.socket]:
        came: list[socket.socket] = []
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
            door.bind(self._name)
            door.listen(self._size)
            with suppress(TimeoutError):
                while len(came) < self._size - 1:
                    door.settimeout(max(_AGAIN_S, until - time.monotonic()))
                    came.append(door.accept()[0])
        return came

    def _guest(self) -> int:
        if self._others is None:
            self._others = [self._knock(time.monotonic() + self._patience_s)]
        (host,) = self._others
        host.settimeout(2 * self._patience_s)
        host.sendall(b"1")
        here = host.recv(1)
        return here[0] if here else 1

    def _knock(self, until: float) -> socket.socket:
        while True:
            door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                door.connect(self._name)
            except OSError:
                door.close()
                if time.monotonic() > until:
                    raise
                time.sleep(_AGAIN_S)
            else:
                return door
