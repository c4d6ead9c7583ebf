"""A small server that answers as OpenAI's does: well, slowly, with errors, or with half a stream."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = "HTTP/1.1 {code}\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n"
STREAM = HEAD.format(code="200 OK", kind="text/event-stream; charset=utf-8")
JSON = HEAD.format(code="{code}", kind="application/json")


@dataclass
class Endpoint:
    """A server that runs. ``how`` is well, half, silent, stream, garbled, hang, body, busy, moved or html."""

    url: str = ""
    how: str = "well"
    first_s: float = 0.0
    asked: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and close."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        fields = dict(line.split(": ", 1) for line in head.splitlines()[1:] if line)
        names = {name.lower(): value for name, value in fields.items()}
        body = json.loads(await reader.readexactly(int(names["content-length"])))
        self.asked.append(body)
        self.tokens.append(names.get("authorization", ""))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self._write(reader, writer, int(body["max_tokens"]))
        finally:
            self.at_once -= 1
            writer.close()

    async def _write(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tokens: int) -> None:
        plain = {
            "body": JSON.format(code="200 OK") + '{"error": {"message": "CUDA error: illegal access"}}',
            "busy": JSON.format(code="503 Busy") + '{"error": {"message": "queue is full"}}',
            "moved": HEAD.format(code="302 Found", kind="text/plain"),
            "html": HEAD.format(code="200 OK", kind="text/html") + "<h1>Sign in</h1>",
        }
        if self.how in plain:
            writer.write(plain[self.how].encode())
        elif self.how == "hang":
            await reader.read()  # until whoever asked has gone
        else:
            await self._stream(writer, tokens)
        await writer.drain()

    async def _stream(self, writer: asyncio.StreamWriter, tokens: int) -> None:
        writer.write(STREAM.encode())
        await writer.drain()
        await asyncio.sleep(self.first_s)
        half = {"half": tokens // 2, "silent": 0}.get(self.how, tokens)
        for _ in range(half):
            writer.write(_event({"choices": [{"delta": {"content": "word "}, "finish_reason": None}]}))
        if self.how == "half":
            return
        if self.how in ("stream", "garbled"):
            bad = b'data: {"error": {"message": "engine died", "code": 500}}\n\n'
            writer.write(bad if self.how == "stream" else b"data: {half\n\n")
            return
        writer.write(_event({"choices": [{"delta": {}, "finish_reason": "length"}]}))
        writer.write(_event({"choices": [], "usage": {"completion_tokens": half, "prompt_tokens": 99}}))
        writer.write(b"data: [DONE]\n\n")


def _event(content: object) -> bytes:
    return f"data: {json.dumps(content)}\n\n".encode()


@contextmanager
def served() -> Iterator[Endpoint]:
    """Run such a server on loopback until the block ends."""
    endpoint, ready, loop = Endpoint(), threading.Event(), asyncio.new_event_loop()

    async def serve() -> None:
        server = await asyncio.start_server(endpoint.answer, "127.0.0.1", 0)
        endpoint.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        ready.set()
        async with server:
            await stop.wait()

    stop = asyncio.Event()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(10)
        yield endpoint
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
