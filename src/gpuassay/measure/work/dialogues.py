"""What agents ask of a model: many turns, a prefix that all share and each lets grow, mostly short answers.

The pattern is that of InferenceX AgentX, small: a long system prompt that is the same for all; in each turn
what a tool gave back is put behind all that was said before, and the model answers with a short call of the
next tool; the last answer is long. The text is made of common words by a seed, so that every run and every
endpoint is asked the same, and no prefix is shared by chance.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_SEED = 20261130
WORDS = (
    *("table", "file", "query", "node", "result", "error", "value", "list", "index", "report", "search"),
    *("open", "read", "write", "check", "user", "time", "path", "line", "count", "key", "name", "page"),
    *("order", "field", "state", "cache", "graph", "model", "train", "batch", "step", "test", "build"),
)
_LEAST_SHARE = 0.2  # of the longest tool result, for the shortest


@dataclass(frozen=True)
class Turn:
    """What is put behind the conversation, and how long the answer may be, in tokens."""

    text: str
    most_tokens: int


@dataclass(frozen=True)
class Dialogue:
    """A conversation: its system prompt, and its turns."""

    system: str
    turns: tuple[Turn, ...]


def dialogues(args: Mapping[str, Any]) -> list[Dialogue]:
    """Make ``dialogues`` of ``turns`` each.

    ``shared`` words are the same for all, each turn adds up to ``added``; answers have ``short`` tokens at
    the most, the last one ``long``.
    """
    shared = _text(random.Random(_SEED), int(args["shared"]))  # noqa: S311 - a seed is what is wanted
    return [
        Dialogue(f"You call tools. {shared}", _turns(number, args))
        for number in range(int(args["dialogues"]))
    ]


def _turns(number: int, args: Mapping[str, Any]) -> tuple[Turn, ...]:
    draw = random.Random(f"{_SEED} {number}")  # noqa: S311 - as above
    turns, added = int(args["turns"]), int(args["added"])
    found = []
    for turn in range(1, turns + 1):
        size = draw.randint(max(1, int(_LEAST_SHARE * added)), max(1, added))
        last = turn == turns
        asked = (
            "Sum up all results in detail." if last else "Name the next tool and its arguments in one line."
        )
        text = f"Result {turn} of tool {draw.choice(WORDS)}: {_text(draw, size)}. {asked}"
        found.append(Turn(text, int(args["long" if last else "short"])))
    return tuple(found)


def _text(draw: random.Random, size: int) -> str:
    return " ".join(draw.choices(WORDS, k=size))
