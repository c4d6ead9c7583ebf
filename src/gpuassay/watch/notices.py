"""The eyes on messages about a node: the site's alerts, a receiver of our own, and a ticket."""

from __future__ import annotations

import json
import re
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.measure.http import Question, ask, door
from gpuassay.target import TargetError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from gpuassay.judge.services import Services
    from gpuassay.watch import Eye

_PATIENCE_S = 5.0
_PATHS = {"alertmanager": "/api/v2/alerts?active=true", "prometheus": "/api/v1/alerts"}
_MOST_BYTES, _MOST_MESSAGES = 64 * 1024, 200


class AlertEye:
    """Looks at the alerts that fire, and keeps the labels of those that name the node."""

    every_s = 2.0

    def __init__(self, services: Services, monitor: str, node: str) -> None:
        """Take which of the site's services is asked, ``alertmanager`` or ``prometheus``."""
        self.name = monitor
        address, self._token = door(services, monitor) or ("", "")
        self._url = address + _PATHS[monitor]
        self._node = node

    def look(self) -> Item:
        """Ask for the alerts."""
        until = time.monotonic() + _PATIENCE_S
        question = Question(self.name, self._url, self._token, keep=lambda out: alerts_of(out, self._node))
        return ask([question], _PATIENCE_S, until)[0]

    def key(self, item: Item) -> Hashable:
        """Compare what they say."""
        return item.status, item.out


class TicketEye:
    """Looks at a ticket, a file or an address, and keeps the lines that name the node."""

    name = "ticket"
    every_s = 2.0

    def __init__(self, place: str, node: str) -> None:
        """Take where it is."""
        self._place = place
        self._node = node

    def look(self) -> Item:
        """Read it."""
        if "://" in self._place:
            until = time.monotonic() + _PATIENCE_S
            return ask([Question("ticket", self._place, keep=self._lines)], _PATIENCE_S, until)[0]
        item = Item("ticket", 0, asked={"read": self._place})
        try:
            return replace(item, out=self._lines(Path(self._place).read_bytes()))
        except OSError as error:
            return replace(item, status="failed", why=f"{self._place}: {error.strerror}")

    def key(self, item: Item) -> Hashable:
        """Compare its lines."""
        return item.status, item.out

    def _lines(self, out: bytes) -> bytes:
        return "\n".join(line for line in _text(out).splitlines() if names(line, self._node)).encode()


class HookEye:
    """Listens where the site file says, and keeps the messages that name the node."""

    name = "webhook"
    every_s = 0.5

    def __init__(self, listen: str, node: str) -> None:
        """Listen from now on, on ADDRESS:PORT. Raises TargetError."""
        host, _, port = listen.rpartition(":")
        self._messages: list[str] = []
        self._listen = listen
        try:
            self._server = ThreadingHTTPServer((host, int(port)), _handler(self._take, node))
        except OSError as error:
            why = f"[notices] listen = {listen}: {error.strerror}: name an address of this machine's"
            raise TargetError(why) from error
        threading.Thread(target=self._server.serve_forever, daemon=True, name="webhook").start()

    def look(self) -> Item:
        """Give what came so far."""
        return Item("webhook", 0, asked={"listen": self._listen}, out=json.dumps(self._messages).encode())

    def key(self, item: Item) -> Hashable:
        """Compare what came."""
        return item.out

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()

    def _take(self, message: str) -> None:
        if len(self._messages) < _MOST_MESSAGES:
            self._messages.append(message)


def alerts_of(out: bytes, node: str) -> bytes:
    """Keep the labels of the alerts that name a node, of either service's answer."""
    found = json.loads(out)
    listed = found["data"]["alerts"] if isinstance(found, dict) else found
    firing = [one["labels"] for one in listed if one.get("state", "firing") != "pending"]
    ours = [labels for labels in firing if any(names(str(value), node) for value in labels.values())]
    return json.dumps(sorted(ours, key=str)).encode()


def names(text: str, node: str) -> bool:
    """Tell whether a text names a node: n1 is not named by n10, but by n1:9100 and n1.example.org."""
    return re.search(rf"(?<![\w-]){re.escape(node)}(?![\w-])", text) is not None


@contextmanager
def eyes(services: Services, node: str) -> Iterator[list[Eye]]:
    """Give the eyes on all places that the site file names. Raises TargetError where none can listen."""
    found: list[Eye] = [AlertEye(services, monitor, node) for monitor in _PATHS if door(services, monitor)]
    if services.notices.ticket:
        found.append(TicketEye(services.notices.ticket, node))
    with ExitStack() as stack:
        if services.notices.listen:
            hook = HookEye(services.notices.listen, node)
            stack.callback(hook.close)
            found.append(hook)
        yield found


def _handler(take: Callable[[str], None], node: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE_S

        def do_POST(self) -> None:
            """Take a message, of whatever form."""
            length = self.headers.get("Content-Length", "0")
            text = _text(self.rfile.read(min(int(length) if length.isdecimal() else 0, _MOST_BYTES)))
            if names(text, node):
                take(" ".join(text.split()))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing on the terminal of a run."""

    return Handler


def _text(out: bytes) -> str:
    return out.decode(errors="replace")
