"""Questions over HTTP to services of a cluster, each bounded in time and size, and each answered by an item.

No redirect is followed, no proxy and no ``.netrc`` is used, and TLS is verified: a token goes to the host it
was declared for, and nowhere else. It is no part of what is recorded.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gpuassay.evidence.item import Item

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import httpx2 as httpx

    from gpuassay.evidence.item import Status
    from gpuassay.judge.services import Services

MOST_BYTES = 32 * 1024**2
_AT_ONCE = 32
_LONGEST_WHY = 300
_REFUSED: Mapping[int, Status] = {401: "denied", 403: "denied", 404: "not_found"}
_REDIRECT = range(300, 400)


@dataclass(frozen=True, slots=True)
class Question:
    """One request: a GET, or a POST of ``body`` where there is one; ``id`` is that of its item.

    ``keep`` takes what may be recorded out of a good answer: some hold secrets beside what is asked for.
    """

    id: str
    url: str
    token: str = ""
    body: Mapping[str, Any] | None = None
    keep: Callable[[bytes], bytes] | None = None


def door(services: Services, monitor: str) -> tuple[str, str] | None:
    """Give the address of a part of the monitoring and the token for it; None where it is not declared."""
    where = services.monitoring
    address: str = getattr(where, monitor, "")
    if where is None or not address:
        return None
    return address, os.environ.get(where.tokens.get(monitor, ""), "")


def ask(questions: Sequence[Question], each_s: float, until: float) -> list[Item]:
    """Ask all, many at once, and give their answers in order.

    None takes longer than ``each_s`` seconds, name look-up, connecting and reading together; at ``until``,
    a time of ``time.monotonic``, the rest are cut.
    """
    return asyncio.run(_ask(questions, each_s, until))


async def _ask(questions: Sequence[Question], each_s: float, until: float) -> list[Item]:
    # Imported here: most runs ask no service, and need not wait for this at their start.
    import httpx2 as httpx  # noqa: PLC0415

    turn = asyncio.Semaphore(_AT_ONCE)
    async with httpx.AsyncClient(timeout=None, trust_env=False, follow_redirects=False) as client:

        async def one(question: Question) -> Item:
            async with turn:
                return await _bounded(client, question, min(each_s, until - time.monotonic()))

        return list(await asyncio.gather(*map(one, questions)))


async def _bounded(client: httpx.AsyncClient, question: Question, limit_s: float) -> Item:
    begin = time.monotonic()
    asked: dict[str, Any] = {"get" if question.body is None else "post": question.url}
    if question.body is not None:
        asked["body"] = dict(question.body)
    item = Item(question.id, 0, asked=asked)
    try:
        async with asyncio.timeout(max(0.0, limit_s)):
            answer = await _answer(client, question, item)
    except TimeoutError:
        answer = replace(item, status="timed_out", why=f"no answer within {round(max(0.0, limit_s), 1):g} s")
    except Exception as error:  # noqa: BLE001 - whatever a library raises over one address, the others are asked
        answer = replace(item, status="failed", why=_why(error))
    return replace(answer, seconds=round(time.monotonic() - begin, 3))


async def _answer(client: httpx.AsyncClient, question: Question, item: Item) -> Item:
    headers = {"Authorization": f"Bearer {question.token}"} if question.token else {}
    method = "GET" if question.body is None else "POST"
    async with client.stream(method, question.url, headers=headers, json=question.body) as response:
        code = response.status_code
        if code in _REDIRECT:
            to = urlsplit(response.headers.get("location", "")).netloc or "another page of the same host"
            return replace(item, status="failed", exit=code, why=f"HTTP {code}: it sends on to {to}")
        out = await _read(response)
    item = replace(item, exit=code, truncated=len(out) > MOST_BYTES)
    if response.is_success:
        return replace(item, out=out[:MOST_BYTES] if question.keep is None else question.keep(out))
    words = out[:_LONGEST_WHY].decode(errors="replace")
    status = _REFUSED.get(code, "failed")
    return replace(item, status=status, why=f"HTTP {code}: {' '.join(words.split()) or 'no words'}")


async def _read(response: httpx.Response) -> bytes:
    """Read one byte more than we keep, at most."""
    out = bytearray()
    async for piece in response.aiter_bytes():
        out += piece
        if len(out) > MOST_BYTES:
            break
    return bytes(out)


def _why(error: BaseException) -> str:
    """Give the words of what lies at the bottom: on the way up, a refused connection becomes a failed one."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return str(error)[:_LONGEST_WHY] or type(error).__name__
