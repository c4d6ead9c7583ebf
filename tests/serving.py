"""Servers on loopback for the tests of surveys, answering by a function or hanging; all are stopped."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, TypeAlias

from gpuassay.evidence.recording import read_survey
from gpuassay.evidence.writer import add_measurement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from gpuassay.evidence.item import Item
    from gpuassay.evidence.recording import NodeEvidence


@dataclass
class Asked:
    """What came in: path, token, body."""

    path: str
    token: str
    body: bytes


@dataclass
class Site:
    """A server that runs: its address, and what it was asked."""

    address: str
    port: int
    asked: list[Asked] = field(default_factory=list)

    def paths(self) -> list[str]:
        """Name what was asked, without what follows a "?"."""
        return [one.path.partition("?")[0] for one in self.asked]


Answer: TypeAlias = "tuple[int, bytes | str, Mapping[str, str]]"
HANG: Answer = (0, "", {})
"""In place of an answer: the connection is accepted, and nothing is ever said."""


@contextmanager
def served(answer: Callable[[Asked], Answer], host: str = "127.0.0.1", port: int = 0) -> Iterator[Site]:
    """Run a server that answers by a function, until the block ends."""
    stopped = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        """Looks answers up."""

        def do_GET(self) -> None:
            """Answer."""
            length = int(self.headers.get("Content-Length") or 0)
            asked = Asked(self.path, self.headers.get("Authorization", ""), self.rfile.read(length))
            site.asked.append(asked)
            code, body, headers = answer(asked)
            if not code:
                stopped.wait()
                return
            out = body if isinstance(body, bytes) else body.encode()
            self.send_response(code)
            for name, value in {"Content-Length": str(len(out)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(out)

        do_POST = do_GET  # noqa: N815 - the name that http.server looks for

        def log_message(self, *_: object) -> None:
            """Print nothing."""

        def log_error(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    site = Site(f"http://{host}:{server.server_address[1]}", server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield site
    finally:
        stopped.set()
        server.shutdown()
        thread.join()
        server.server_close()


def free_port() -> int:
    """Give a port of loopback that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def surveyed(folder: Path, name: str, items: Iterable[Item]) -> NodeEvidence:
    """Read answers as they are read from a recording."""
    folder.mkdir(parents=True, exist_ok=True)
    for item in items:
        add_measurement(folder, name, "", item)
    return read_survey(folder, name)
