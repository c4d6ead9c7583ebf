"""What a healthy inference endpoint answers to agents: made up, like its cluster."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpuassay.judge.catalog import load_catalog
from gpuassay.measure import SURVEYS
from gpuassay.measure.work.agents import METHOD, spread
from gpuassay.measure.work.dialogues import dialogues
from recorded.description import FIXTURES
from recorded.items import library

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.evidence.item import Item
    from gpuassay.judge.catalog import Measurement
    from gpuassay.measure.work.dialogues import Dialogue

FIRST_S, NEXT_S, THINK_S = 0.28, 0.011, 0.01
TOKENS_OF_A_WORD = 1.3


def services(_names: Sequence[str]) -> list[Item]:
    """Return the answers of both measurements of the endpoint."""
    root = FIXTURES.parents[1]
    catalog = load_catalog(root / "thresholds.toml", root / "advisories.toml")
    return [item for one in catalog.measurements.values() if one.tool == "inference" for item in _told(one)]


def _told(measurement: Measurement) -> Iterator[Item]:
    asked = {
        "survey": "inference",
        "method": SURVEYS["inference"].method,
        "args": dict(measurement.args),
    }
    place = f"survey/{measurement.name}"
    yield replace(library(f"{place}/endpoint", "", {"model": "gpt-oss-120b", "gpus": 8}), asked=asked)
    draw, begin = random.Random(measurement.name), 0.0  # noqa: S311 - made up
    for number, dialogue in enumerate(dialogues(measurement.args)):
        answers = [*_answers(dialogue, begin, draw)]
        content = {"turns": len(dialogue.turns), "answers": answers}
        yield replace(library(f"{place}/dialogue/{number}", "", content), asked=asked)
        begin += answers[-1]["begin_s"] / int(measurement.args["at_once"])


def served(args: Mapping[str, Any], node: str, gpus: int) -> dict[str, Any]:
    """Return what the one rank of a node prints that has started vLLM and talked to it."""
    draw, begin, talks = random.Random(node), 0.0, []  # noqa: S311 - made up
    for dialogue in dialogues(args):
        answers = [*_answers(dialogue, begin, draw)]
        talks.append({"turns": len(dialogue.turns), "answers": answers})
        begin += answers[-1]["begin_s"] / int(args["at_once"])
    row = {
        "status": "ok",
        "ready_seconds": 74.5,
        "gpus": spread(gpus, {"kv_heads": args["kv_heads"]}),
        "command": ["python3", "-m", "vllm.entrypoints.openai.api_server", "--load-format", "dummy"],
        "dialogues": talks,
        "model": args["model"],
        "version": "0.13.0",
        "left": [],
    }
    return {
        "workload": "agents",
        "method": METHOD,
        "rank": 0,
        "versions": {"python": "3.12.3", "machine": "x86_64", "kernel": "6.8.0-87-generic"},
        "rows": [row],
    }


def _answers(dialogue: Dialogue, begin: float, draw: random.Random) -> Iterator[dict[str, Any]]:
    words = len(dialogue.system.split())
    for number, turn in enumerate(dialogue.turns, 1):
        words += len(turn.text.split())
        tokens = turn.most_tokens
        first = FIRST_S * draw.uniform(0.7, 1.3)
        last = first + NEXT_S * draw.uniform(0.9, 1.2) * (tokens - 1)
        yield {
            "turn": number,
            "begin_s": round(begin, 4),
            "code": 200,
            "first_s": round(first, 4),
            "last_s": round(last, 4),
            "pieces": tokens,
            "tokens": tokens,
            "prompt_tokens": round(TOKENS_OF_A_WORD * words),
            "finish": "length",
            "done": True,
        }
        words += tokens
        begin += last + THINK_S
