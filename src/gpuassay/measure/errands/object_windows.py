"""Moves the same objects to a store and back for long, and tells how fast that was, window by window.

No key comes here: each URL is good for one object, and for the time of the measurement. Every object is read
before it is written anew, and each byte compared. Only Python's own library is needed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

from gpuassay.measure.errands.object_streams import Streams, fetched


def main(order: dict[str, Any]) -> int:
    """Write and read the objects of this node's plan until the time is over, and print what came of it."""
    rank = int(os.environ["RANK"])
    rows: list[dict[str, Any]] = []
    document = {"node": order["nodes"][rank], "method": order["method"], "tiny": order["tiny"], "rows": rows}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the streams are ended
    try:
        plan, why = fetched(order["plans"][rank])
        document |= _last(plan[0], order, rows) if plan else {"ended": why}
    except Exception as error:  # noqa: BLE001 - whatever came until then is told
        document["ended"] = f"{type(error).__name__}: {error}"[:300]
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()
    return 1 if "ended" in document else 0


def _last(case: dict[str, Any], order: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Move all objects again and again, and add a row for each window."""
    ways = {act: Streams(case, act, order) for act in ("write", "read")}
    begin, count = time.monotonic(), 0
    try:
        while (at := time.monotonic()) < begin + order["lasts_s"]:
            row = dict.fromkeys(("write", "write_s", "read", "read_s", "longest_s"), 0.0)
            until = min(begin + order["lasts_s"], at + order["window_s"])
            while time.monotonic() < until:
                for act, streams in ways.items():
                    streams.go(count)
                    done = streams.rounds.pop()
                    row[act] += done["bytes"]
                    row[f"{act}_s"] += done["seconds"]
                    row["longest_s"] = max(row["longest_s"], done["seconds"])
                count += 1
            rows.append({"span": round(time.monotonic() - at, 3), **row})
    finally:
        for streams in ways.values():
            streams.end()
    return {act: streams.told() for act, streams in ways.items()}
