"""A knock at a port: if it is open, whose certificate it shows, and the status of one answer; no content."""

from __future__ import annotations

import asyncio
import re
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})\b")
# DER's tags of a certificate's text: UTF8String, PrintableString, and the dNSName of an alternative name.
_TAGS = (0x0C, 0x13, 0x82)
_LONGEST = 127


async def knock(
    address: str, port: int, path: str, seconds: float, names: Sequence[str] = ()
) -> dict[str, Any]:
    """Connect, by TLS where ``names`` are expected, and ask for ``path`` if there is one.

    ``state`` is answered, closed, silent or failed. With ``names``, ``own`` tells whether the certificate
    is for one of them; where it is not, nothing is asked.
    """
    try:
        async with asyncio.timeout(seconds):
            return await _knock(address, port, path, names)
    except TimeoutError:
        return {"state": "silent"}
    except ConnectionRefusedError:
        return {"state": "closed"}
    except (OSError, ValueError) as error:
        return {"state": "failed", "why": str(getattr(error, "strerror", None) or error)[:200]}


async def _knock(address: str, port: int, path: str, names: Sequence[str]) -> dict[str, Any]:
    reader, writer = await asyncio.open_connection(address, port, ssl=_unverified() if names else None)
    try:
        told: dict[str, Any] = {"state": "answered"}
        if names:
            shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            told["own"] = any(is_for(shown or b"", name) for name in names)
        if path and told.get("own", True):
            host = f"[{address}]" if ":" in address else address
            request = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUser-Agent: gpuassay\r\n"
            writer.write(f"{request}Connection: close\r\n\r\n".encode())
            answer = _STATUS.match(await reader.readline())
            told |= {"status": int(answer[1])} if answer else {"state": "failed", "why": "this is no HTTP"}
        return told
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def is_for(certificate: bytes, name: str) -> bool:
    """Tell whether a certificate names a node: as itself, as a kubelet's user, or before a time stamp."""
    held, word = certificate.lower(), name.lower().encode()
    fields = (word, b"system:node:" + word)
    whole = any(
        bytes((tag, len(one))) + one in held for tag in _TAGS for one in fields if 0 < len(one) <= _LONGEST
    )
    stamped = any(bytes((tag, length)) + word + b"@" in held for tag in _TAGS for length in range(_LONGEST))
    return bool(word) and (whole or stamped)


def _unverified() -> ssl.SSLContext:
    """Take any certificate: a kubelet's is mostly its own, and no credential is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
