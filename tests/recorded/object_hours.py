"""What healthy nodes tell of an hour in which they moved the same objects again and again; made up."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from gpuassay.measure import NODE_SURVEYS
from recorded import object_speeds
from recorded.object_speeds import READ, WRITE, measurement, told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuassay.evidence.item import Item

NAME = "object_endurance"
_WINDOW_S = 60.0  # longer than a real one, so that a recording stays small
_SPREAD = 0.02
_SHARE = 0.85  # of the most that was found with objects of this size in a short run


def services(names: Sequence[str]) -> list[Item]:
    """Return what each node told, and what became of the objects."""
    documents = {name: _document(name) for name in names}
    return told(NAME, documents, of=measurement(NAME).args["seconds"])


def made_from() -> str:
    """Return all that decides what is measured."""
    return object_speeds.made_from(NAME)


def _document(name: str) -> dict[str, Any]:
    draw = random.Random(f"hour/{name}")  # noqa: S311 - made up
    rows = [_row(draw) for _ in range(int(float(measurement(NAME).args["seconds"]) / _WINDOW_S))]
    document: dict[str, Any] = {
        "node": name,
        "method": NODE_SURVEYS[NAME].method,
        "tiny": False,
        "rows": rows,
    }
    size = int(measurement(NAME).args["size"])
    for act in ("write", "read"):
        requests = round(sum(row[act] for row in rows) / size)
        counts = dict.fromkeys(("slow_downs", "errors", "wrong", "lost", "unmoved"), 0)
        document[act] = {"status": "ok", "size": size, "requests": requests, **counts, "said": []}
    return document


def _row(draw: random.Random) -> dict[str, float]:
    """Return a window in which as much was written as was read."""
    speeds = {"write": WRITE * _SHARE, "read": READ * _SHARE}
    speeds = {act: speed * 1e9 * draw.uniform(1 - _SPREAD, 1 + _SPREAD) for act, speed in speeds.items()}
    moved = _WINDOW_S / sum(1 / speed for speed in speeds.values())
    row: dict[str, float] = {"span": _WINDOW_S}
    for act, speed in speeds.items():
        row |= {act: round(moved), f"{act}_s": round(moved / speed, 3)}
    args = measurement(NAME).args
    each = int(args["streams"]) * int(args["size"])
    return row | {"longest_s": round(1.2 * each / min(speeds.values()), 3)}
