"""What torchtitan logs on healthy nodes: made up, around what is publicly known of each product."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SPREAD = 0.006
_FIRST = {"llama3_8b": 11.9, "gpt_oss_20b": 12.3}
_LAST = 1.5
_JOINED = 0.975  # of the speed of a node by itself


def rows(
    args: Mapping[str, Any], tokens_per_s: float, place: tuple[str, int], nodes: int
) -> list[dict[str, Any]]:
    """Return a row for each scope; ``place`` names the node and the rank's number there."""
    name, local = place
    found = []
    for scope, share, ranks in (("node", 1.0, 8), ("all", _JOINED, 8 * nodes)):
        seed = name if scope == "node" else "all"
        log = list(_log(args, tokens_per_s * share, f"{args['model']}/{seed}")) if local == 0 else []
        row = {"case": {"scope": scope}, "ranks": ranks, "command": ["--config", str(args["model"])]}
        found.append({**row, "seconds": 151.2, "tail": [], "status": "ok", "log": log})
    return found


def _log(args: Mapping[str, Any], tokens_per_s: float, seed: str) -> Iterator[str]:
    """Yield lines in the form of torchtitan 0.3."""
    draw = random.Random(seed)  # noqa: S311 - made up
    chip = draw.uniform(1 - SPREAD, 1 + SPREAD)
    head = "[titan] 2026-11-30 08:00:00,000 - root - INFO - "
    yield f"{head}torchtitan version: 0.3.0 (0.0.0 means __version__ is not defined correctly)."
    yield f"{head}Peak FLOPS used for computing MFU: 3.120e+14"
    for step in range(1, args["steps"] + 1):
        speed = 210.0 if step == 1 else tokens_per_s * chip * draw.uniform(0.995, 1.005)
        loss = _LAST + (_FIRST[args["model"]] - _LAST) * math.exp(-(step - 1) / 9)
        yield (
            f"{head}step: {step:2}  loss: {loss:8.5f}  grad_norm: {2 * draw.random():7.4f}  "
            f"memory: 61.20GiB(77.00%)  tps: {round(speed):,}  tflops: 400.00  mfu: 128.21%"
        )
    yield f"{head}Training completed"
