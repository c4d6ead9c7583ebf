"""One stream of requests to an object store, by URLs that are signed for each: sent, read and compared."""

from __future__ import annotations

import http.client
import random
import re
import time
import urllib.parse
from collections import Counter
from typing import Any

SOCKET_S = 60.0
"""How long the store may be silent."""
DONE = (200, 201, 204, 206)
"""The HTTP statuses of what was done."""

_CHUNK = 1 << 20
_APART = 65_537  # odd, so that every object begins elsewhere in what is sent
_WAITS_S = (0.1, 0.2, 0.4, 0.8, 1.6)  # before asking again
_SLOW_DOWN = (429, 503)
_ABSENT, _NO_REQUEST, _SERVER = 404, 400, 500


class Line:
    """One connection to the store, made anew where it broke."""

    def __init__(self, patience_s: float) -> None:
        """Only hold."""
        self._patience_s = patience_s
        self._place: tuple[str, str] = ("", "")
        self._open: http.client.HTTPConnection | None = None

    def ask(self, method: str, url: str, body: Any = b"", **headers: str) -> tuple[int, str, bytes]:
        """Send a request; gives the status, the tag and the answer."""
        reply = self.begin(method, url, body, headers)
        return reply.status, reply.headers.get("ETag", ""), reply.read()

    def begin(self, method: str, url: str, body: Any, headers: dict[str, str]) -> http.client.HTTPResponse:
        """Send a request, and give the reply as soon as it begins."""
        parts = urllib.parse.urlsplit(url)
        if self._open is None or self._place != parts[:2]:
            self.close()
            kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
            self._place, self._open = parts[:2], kind(parts.netloc, timeout=self._patience_s)
        self._open.request(method, f"{parts.path}?{parts.query}", body or None, headers)
        return self._open.getresponse()

    def close(self) -> None:
        """Part, so that nothing of a broken answer is taken for the next."""
        if self._open is not None:
            self._open.close()
        self._open = None


class Content:
    """What is in objects: random bytes of a seed, of which each object is another piece."""

    def __init__(self, seed: str, length: int) -> None:
        """Make the bytes."""
        block = random.Random(seed).randbytes(length)  # noqa: S311 - so that it cannot be compressed
        self._twice, self._length = memoryview(block + block), length

    def of(self, number: int, size: int) -> memoryview:
        """Give that of one object."""
        start = number * _APART % self._length
        return self._twice[start : start + size]


class Stream:
    """One stream of a node: its pieces, one after the other, and what came of them."""

    def __init__(self, case: dict[str, Any], act: str, number: int, order: dict[str, Any]) -> None:
        """Take every so manieth piece."""
        part = case[act]
        self._act, self._passes, self._pieces = act, case["passes"], len(part["pieces"])
        self._own = part["pieces"][number :: order["rounds"]["streams"]]
        self._last = order["rounds"]["count"] * case["passes"] - 1
        self._follows = order["rounds"].get("follows", False)  # each round is read before the next is written
        self._seconds = order["rounds"]["seconds"]
        self._content = Content(part["seed"], case["length"])
        self._line = Line(SOCKET_S)
        self._room = memoryview(bytearray(_CHUNK))
        self._counts: Counter[str] = Counter()
        self._ms: list[float] = []
        self._said, self._tags = "", {}  # type: str, dict[int, str]

    def go(self, count: int) -> dict[str, Any]:
        """Move all pieces of a round; those for which no time is left are counted."""
        self._counts, self._ms, self._tags = Counter(), [], {}
        until = time.monotonic() + self._seconds
        for one in range(self._passes):
            for piece in self._own:
                if time.monotonic() > until:
                    self._counts["unmoved"] += 1
                else:
                    self._move(piece, count, one)
        return {"counts": dict(self._counts), "ms": self._ms, "tags": self._tags, "said": self._said}

    def complete(self, url: str, parts: list[tuple[int, str]]) -> dict[str, Any]:
        """Tell the store that an object has all its parts; with a status of 200 it may say that it failed."""
        listed = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>" for number, tag in parts
        )
        body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        self._counts, self._ms, self._tags = Counter(), [], {}

        def act() -> tuple[int, bytes]:
            status, _, answer = self._line.ask("POST", url, body)
            return (_SERVER if b"<Error" in answer and status in DONE else status), answer

        if not self._tried(act):
            self._counts["unmoved"] += len(parts)
        return {"counts": dict(self._counts), "ms": [], "tags": {}, "said": self._said}

    def _move(self, piece: dict[str, Any], count: int, one: int) -> None:
        newest = count * self._passes + (one if self._act == "write" else self._passes - 1)
        generation = newest if self._act == "write" or self._follows else self._last
        content = self._content.of(generation * self._pieces + piece["n"], piece["size"])
        begin = time.perf_counter()

        def write() -> tuple[int, bytes]:
            nonlocal begin
            begin = time.perf_counter()
            urls = piece["put"]
            status, tag, answer = self._line.ask("PUT", urls[count % len(urls)], content)
            self._tags[piece["n"]] = tag
            return status, answer

        def read() -> tuple[int, bytes]:
            nonlocal begin
            begin = time.perf_counter()
            return self._read(piece, content)

        if self._tried(write if self._act == "write" else read):
            self._ms.append(1e3 * (time.perf_counter() - begin))
            self._counts["bytes"] += piece["size"]
        else:
            self._counts["unmoved"] += 1

    def _read(self, piece: dict[str, Any], content: memoryview) -> tuple[int, bytes]:
        """Read an object, or a part of it, and compare what comes with what was sent."""
        headers = (
            {"Range": f"bytes={piece['from']}-{piece['from'] + piece['size'] - 1}"} if piece["part"] else {}
        )
        reply = self._line.begin("GET", piece["get"], b"", headers)
        if reply.status not in DONE:
            return reply.status, reply.read()
        came, alike = 0, True
        while size := reply.readinto(self._room):
            alike = alike and bytes(self._room[:size]) == bytes(content[came : came + size])
            came += size
        if came < piece["size"] and int(reply.headers.get("Content-Length", came)) > came:
            raise ConnectionError(f"an answer ended after {came} of {piece['size']} bytes")
        if not alike or came != piece["size"]:
            self._counts["wrong"] += 1
            self._said = self._said or f"{came} bytes came for {piece['size']}, or others than were written"
        return reply.status, b""

    def _tried(self, act: Any) -> bool:
        """Do a request, and again where that may help; tells whether it was done."""
        for wait in _WAITS_S:
            self._counts["requests"] += 1
            try:
                status, answer = act()
            except (OSError, http.client.HTTPException) as error:
                self._line.close()
                self._counts["errors"] += 1
                self._said = self._said or words_of(error)
            else:
                if status in DONE:
                    return True
                self._refused(status, answer)
                if _NO_REQUEST <= status < _SERVER and status not in _SLOW_DOWN:
                    return False
            time.sleep(wait)
        return False

    def _refused(self, status: int, answer: bytes) -> None:
        if status in _SLOW_DOWN:
            self._counts["slow_downs"] += 1
            return
        self._counts["lost" if status == _ABSENT and self._act == "read" else "errors"] += 1
        self._said = self._said or f"HTTP {status} {code_of(answer)}"


def code_of(answer: bytes) -> str:
    """Name the error that a store tells in its answer; empty if it tells none."""
    found = re.search(rb"<Code>([^<]{1,80})</Code>", answer)
    return found[1].decode("ascii", "replace") if found else ""


def words_of(error: BaseException) -> str:
    """Say what went wrong in one line."""
    return f"{type(error).__name__}: {error}"[:200]
