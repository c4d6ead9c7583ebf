"""One chat completion, streamed: how it is asked for, and what became of it.

What was received is written down as numbers; of the text nothing is kept.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpuassay.measure.work.words import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuassay.measure.work.dialogues import Turn

_MOST_TEXT = 1 << 20  # characters of one answer; an endpoint that goes on for ever is cut


def request(model: str, said: Sequence[dict[str, str]], turn: Turn) -> dict[str, Any]:
    """Ask for the next answer of a dialogue, always the likeliest, and for the server's own count."""
    return {
        "model": model,
        "messages": list(said),
        "max_tokens": turn.most_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@dataclass
class Answer:
    """What came of one request; seconds count from its sending."""

    turn: int
    begin_s: float
    code: int = 0
    error: str = ""
    first_s: float | None = None
    last_s: float | None = None
    pieces: int = 0
    tokens: int | None = None
    prompt_tokens: int | None = None
    finish: str = ""
    done: bool = False
    text: str = field(default="", repr=False)

    def document(self) -> dict[str, Any]:
        """Give it as it is recorded: without its text, and without what did not come."""
        told = {key: value for key, value in vars(self).items() if key not in ("text", "error")}
        came = {key: value for key, value in told.items() if value is not None}
        return {**came, "error": self.error} if self.error else came

    def take(self, data: str, now_s: float) -> bool:
        """Take the data of one event; tells whether the stream goes on."""
        if data == "[DONE]":
            self.done = True
            return False
        try:
            event = json.loads(data)
        except ValueError:
            self.error = f"its stream holds what is no JSON: {one_line(data)}"
            return False
        if not isinstance(event, dict) or event.get("error"):
            said = event.get("error") if isinstance(event, dict) else event
            self.error = f"HTTP {self.code}, and in its stream: {told(said)}"
            return False
        self._read(event, now_s)
        return len(self.text) < _MOST_TEXT

    def _read(self, event: dict[str, Any], now_s: float) -> None:
        usage = event.get("usage")
        if isinstance(usage, dict):
            self.tokens, self.prompt_tokens = (
                _count(usage.get(f"{kind}_tokens")) for kind in ("completion", "prompt")
            )
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        delta: dict[str, Any] = choice["delta"] if isinstance(choice.get("delta"), dict) else {}
        said = [delta.get(key) for key in ("content", "reasoning_content", "reasoning", "tool_calls")]
        if any(said):
            self.first_s = now_s if self.first_s is None else self.first_s
            self.last_s = now_s
            self.pieces += 1
            self.text += delta["content"] if isinstance(delta.get("content"), str) else ""
        if isinstance(choice.get("finish_reason"), str):
            self.finish = choice["finish_reason"]


def _count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def told(error: object) -> str:
    """Say an error as an endpoint wrote it."""
    said = error.get("message", error) if isinstance(error, dict) else error
    return one_line(str(said)) or "no words"
