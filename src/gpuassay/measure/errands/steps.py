"""How the nodes of an errand keep step: through the first of them, over TCP."""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any

_AGAIN_S = 0.5


class Steps:
    """All nodes wait for each other through the first; it tells them at which address each is."""

    def __init__(self, rank: int, size: int, patience_s: float) -> None:
        """Come together. Raises OSError."""
        self.rank, self.size = rank, size
        place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        self._others: list[Any] = []
        self.addresses = {0: place[0]}
        if rank == 0:
            self._receive(place[1], patience_s)
        else:
            self._arrive(place, patience_s)

    def _receive(self, port: int, patience_s: float) -> None:
        with socket.create_server(("", port), backlog=self.size) as server:
            server.settimeout(patience_s)
            for _ in range(self.size - 1):
                connection, address = server.accept()
                connection.settimeout(patience_s)
                file = connection.makefile("rw")
                self.addresses[int(file.readline())] = address[0]
                self._others.append(file)
        self._tell(json.dumps(self.addresses))

    def _arrive(self, place: tuple[str, int], patience_s: float) -> None:
        until = time.monotonic() + patience_s
        while True:
            try:
                connection = socket.create_connection(place, timeout=patience_s)
                break
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(_AGAIN_S)
        file = connection.makefile("rw")
        file.write(f"{self.rank}\n")
        file.flush()
        self.addresses = {int(rank): address for rank, address in json.loads(file.readline()).items()}
        self._others = [file]

    def meet(self) -> None:
        """Wait until all nodes are here. Raises OSError."""
        if self.rank == 0:
            for one in self._others:
                if not one.readline():
                    raise OSError("another node has left")
            self._tell("go")
            return
        self._tell("here")
        if not self._others[0].readline():
            raise OSError("the first node has left")

    def _tell(self, words: str) -> None:
        for one in self._others:
            one.write(words + "\n")
            one.flush()
