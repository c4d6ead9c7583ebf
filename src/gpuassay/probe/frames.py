"""The lines in which answers travel: marked, compressed, with a checksum, one message a line.

A line is written as soon as its message is known, so that a probe that is killed loses nothing it has sent.
Whatever else comes down the same channel (a greeting, a warning) is passed over; a damaged line is reported.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARK = b"@gpuassay1 "
_LONGEST_LINE = 1 << 26
_LARGEST_MESSAGE = 1 << 28


def frame(message: dict[str, Any]) -> bytes:
    """Write a message, ``{"item": …}`` or at the end ``{"end": {"items": count}}``, as a line."""
    body = base64.b64encode(zlib.compress(json.dumps(message).encode()))
    return b"%s%08x %s\n" % (_MARK, zlib.crc32(body), body)


class Frames:
    """Reads lines as they come, in pieces of any size.

    ``ended`` tells whether the last line has come; ``problems`` what was damaged or is missing by its count.
    """

    def __init__(self) -> None:
        self.ended = False
        self.problems: list[str] = []
        self._items = 0
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Give the items that these bytes complete."""
        self._rest += data
        if b"\n" not in data:
            if len(self._rest) > _LONGEST_LINE:
                self.problems.append(f"a line of more than {_LONGEST_LINE} bytes was dropped")
                self._rest.clear()
            return
        whole, _, self._rest = self._rest.rpartition(b"\n")
        # What never says a word of ours costs one look, however many lines of it there are.
        for line in whole.split(b"\n") if _MARK in whole else ():
            _, mark, body = bytes(line).partition(_MARK)
            if mark:
                yield from self._item(body)

    def _item(self, body: bytes) -> Iterator[dict[str, Any]]:
        try:
            message = _unpack(body)
        except ValueError as error:
            self.problems.append(f"a line of the probe is damaged: {error}")
            return
        if isinstance(message.get("item"), dict):
            self._items += 1
            yield message["item"]
        elif isinstance(message.get("end"), dict):
            self.ended = True
            if message["end"].get("items") != self._items:
                self.problems.append(
                    f"{self._items} of {message['end'].get('items')} lines of the probe came"
                )


def _unpack(body: bytes) -> dict[str, Any]:
    """Read a line's message. Raises ValueError."""
    checksum, _, packed = body.strip().partition(b" ")
    if checksum != b"%08x" % zlib.crc32(packed):
        raise ValueError("its checksum is wrong")
    try:
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(base64.b64decode(packed), _LARGEST_MESSAGE)
        message = json.loads(text) if unpacker.eof else None
    except (ValueError, RecursionError, zlib.error) as error:
        raise ValueError(f"it cannot be read ({error})") from error
    if not isinstance(message, dict):
        raise ValueError("it holds no message")  # noqa: TRY004 - damage, whatever its type
    return message
