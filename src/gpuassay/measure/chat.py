"""Chat completions of an OpenAI-compatible endpoint, streamed, each with its times and what became of it.

A status of 200 proves nothing: an error may stand in the body or in the stream, and a stream may end before
its end. What was received is written down as numbers; of the text nothing is kept.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuassay.facts.text import brief
from gpuassay.measure.work.answer import Answer, request, told

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx2 as httpx

    from gpuassay.measure.work.dialogues import Dialogue, Turn

_REDIRECT = range(300, 400)
_OK = 200


@dataclass(frozen=True)
class Door:
    """Where an endpoint is, which model it serves, and the token for it."""

    url: str
    model: str
    token: str = field(default="", repr=False)


def talk(
    door: Door, script: Sequence[Dialogue], at_once: int, each_s: float, until: float
) -> list[list[Answer]]:
    """Hold dialogues, ``at_once`` of them at a time, and give the answers of each.

    A request may take ``each_s`` seconds; at ``until``, a time of ``time.monotonic``, the rest are cut. A
    dialogue whose answer failed ends there: what follows would be about nothing.
    """
    return asyncio.run(_talk(door, script, at_once, (each_s, until)))


async def _talk(
    door: Door, script: Sequence[Dialogue], at_once: int, bounds: tuple[float, float]
) -> list[list[Answer]]:
    import httpx2 as httpx  # noqa: PLC0415 - most runs ask no service

    turn, begin = asyncio.Semaphore(at_once), time.monotonic()
    async with httpx.AsyncClient(timeout=None, trust_env=False, follow_redirects=False) as client:

        async def one(dialogue: Dialogue) -> list[Answer]:
            async with turn:
                return await _held(client, door, dialogue, begin, bounds)

        return list(await asyncio.gather(*map(one, script)))


async def _held(
    client: httpx.AsyncClient, door: Door, dialogue: Dialogue, begin: float, bounds: tuple[float, float]
) -> list[Answer]:
    said = [{"role": "system", "content": dialogue.system}]
    answers: list[Answer] = []
    for number, turn in enumerate(dialogue.turns, 1):
        said.append({"role": "user", "content": turn.text})
        sent = time.monotonic()
        answer = Answer(number, round(sent - begin, 4))
        answers.append(answer)
        limit = min(bounds[0], bounds[1] - sent)
        try:
            async with asyncio.timeout(max(0.0, limit)):
                await _ask(client, door, said, turn, answer)
        except TimeoutError:
            answer.error = f"no end within {max(0.0, limit):.0f} s"
        except Exception as error:  # noqa: BLE001 - whatever a library raises over one request, others go on
            answer.error = f"{type(error).__name__}: {brief(str(error)) or 'no words'}"
        if answer.error or not answer.done:
            return answers
        said.append({"role": "assistant", "content": answer.text})
    return answers


async def _ask(
    client: httpx.AsyncClient, door: Door, said: Sequence[dict[str, str]], turn: Turn, answer: Answer
) -> None:
    headers = {"Authorization": f"Bearer {door.token}"} if door.token else {}
    body = request(door.model, said, turn)
    begin = time.monotonic()
    async with client.stream("POST", f"{door.url}/chat/completions", headers=headers, json=body) as response:
        answer.code = response.status_code
        kind = response.headers.get("content-type", "")
        if answer.code != _OK or "event-stream" not in kind:
            answer.error = await _unstreamed(response, kind)
            return
        async for line in response.aiter_lines():
            data = line.removeprefix("data:").strip() if line.startswith("data:") else ""
            if data and not answer.take(data, round(time.monotonic() - begin, 4)):
                return


async def _unstreamed(response: httpx.Response, kind: str) -> str:
    """Say what an answer that is no stream means."""
    out = bytearray()
    async for piece in response.aiter_bytes():
        out += piece
        if len(out) > 1 << 16:
            break
    code, text = response.status_code, out.decode("utf-8", "replace")
    if code in _REDIRECT:
        return f"HTTP {code}: it sends on to another place"
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if isinstance(document, dict) and document.get("error"):
        return f"HTTP {code}, and in its body: {told(document['error'])}"
    return (
        f"HTTP {code}: no stream of events but {kind or 'nothing that is named'}: {brief(text) or 'no words'}"
    )
