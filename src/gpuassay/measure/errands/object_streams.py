"""Moves objects between a node and a store by URLs that are signed for each, in step with all nodes.

No key comes here: each URL is good for one object, and for the time of the measurement. A node reads what
another has written, and compares every byte. Only Python's own library is needed.
"""

from __future__ import annotations

import ctypes
import http.client
import json
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from typing import Any

from gpuassay.measure.errands.steps import Steps
from gpuassay.measure.errands.stream import DONE, SOCKET_S, Line, Stream, code_of, words_of

_MORE_S = 90.0  # beside the time of a round, until a node is taken for lost
_DEATH = 1  # PR_SET_PDEATHSIG, linux/prctl.h
_FORK = multiprocessing.get_context("fork")


def main(order: dict[str, Any]) -> int:
    """Move the objects of each case of this node's plan, round by round, and print what came of it."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rows: list[dict[str, Any]] = []
    document = {"node": order["nodes"][rank], "method": order["method"], "tiny": order["tiny"], "rows": rows}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the streams are ended
    try:
        steps = Steps(rank, size, order["rounds"]["seconds"] + _MORE_S) if size > 1 else None
        _work(order, steps, rows)
    except Exception as error:  # noqa: BLE001 - whatever came until then is told
        document["ended"] = f"{type(error).__name__}: {error}"[:300]
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()
    return 1 if "ended" in document else 0


def _work(order: dict[str, Any], steps: Steps | None, rows: list[dict[str, Any]]) -> None:
    """Do all cases; a node without its plan still keeps step, so that the others are measured."""
    plan, why = fetched(order["plans"][int(os.environ["RANK"])])
    for number, name in enumerate(order["cases"]):
        case = plan[number] if plan else None
        for act in ("write", "read"):
            row: dict[str, Any] = {"case": name, "act": act}
            streams = Streams(case, act, order) if case else None
            try:
                for count in range(order["rounds"]["count"]):
                    if steps:
                        steps.meet()
                    if streams:
                        streams.go(count)
            finally:
                if streams:
                    streams.end()
            rows.append({**row, **(streams.told() if streams else {"status": "failed", "why": why})})


def fetched(url: str) -> tuple[list[dict[str, Any]], str]:
    """Fetch what this node is to do, which lies in the store; or say why that could not be."""
    try:
        line = Line(SOCKET_S)
        status, _, body = line.ask("GET", url)
        if status in DONE:
            return json.loads(body), ""
        return [], f"the store's answer to the first request was HTTP {status} {code_of(body)}"
    except (OSError, http.client.HTTPException, ValueError) as error:
        return [], f"the store was not reached: {words_of(error)}"


class Streams:
    """All streams of a node in one case, each a process of its own: reading, comparing and TLS take time."""

    def __init__(self, case: dict[str, Any], act: str, order: dict[str, Any]) -> None:
        """Start them; they wait."""
        self._case, self._act, self._seconds = case, act, order["rounds"]["seconds"] + SOCKET_S
        self.rounds: list[dict[str, Any]] = []
        self._counts: Counter[str] = Counter()
        self._ms: list[float] = []
        self._said: list[str] = []
        self._pipes, self._processes = [], []
        for number in range(min(order["rounds"]["streams"], len(case[act]["pieces"]))):
            ours, theirs = _FORK.Pipe()
            process = _FORK.Process(target=_serve, args=(theirs, case, act, number, order), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)
        for pipe in self._pipes:
            self._hear(pipe)  # what they send is made: that is not timed

    def go(self, count: int) -> None:
        """Let all move their pieces, and take the time from the first to the last."""
        begin = time.monotonic()
        told = self._all([("go", count)] * len(self._pipes))
        uploads = self._case[self._act].get("complete", [])
        if uploads:
            tags = {number: tag for one in told for number, tag in one["tags"].items()}
            told += self._completed(uploads[count], tags)
        counts: Counter[str] = Counter()
        for one in told:
            counts.update(one["counts"])
            self._ms += one["ms"]
            self._said += [one["said"]] if one["said"] else []
        self._counts.update(counts)
        self.rounds.append({"seconds": time.monotonic() - begin, "bytes": counts["bytes"]})

    def _completed(self, uploads: list[dict[str, Any]], tags: dict[int, str]) -> list[dict[str, Any]]:
        """Complete the objects of which all parts are there, by all streams at once."""
        told: list[dict[str, Any]] = []
        ready = [
            (one["url"], [(place, tags[number]) for place, number in enumerate(one["pieces"], 1)])
            for one in uploads
            if all(number in tags for number in one["pieces"])
        ]
        for first in range(0, len(ready), len(self._pipes)):
            told += self._all([("complete", *one) for one in ready[first : first + len(self._pipes)]])
        return told

    def _all(self, asked: list[Any]) -> list[dict[str, Any]]:
        busy = self._pipes[: len(asked)]
        for pipe, one in zip(busy, asked):  # noqa: B905 - nodes may have Python 3.9
            pipe.send(one)
        return [self._hear(pipe) for pipe in busy]

    def _hear(self, pipe: Any) -> Any:
        if not pipe.poll(self._seconds):
            raise TimeoutError(f"a stream has not answered within {self._seconds:g} s")
        return pipe.recv()

    def end(self) -> None:
        """End all."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()

    def told(self) -> dict[str, Any]:
        """Say what came of all rounds."""
        ms = sorted(self._ms)
        shares = {"p50": 0.50, "p90": 0.90, "p99": 0.99, "p100": 1.0}
        return {
            "status": "ok",
            "size": self._case["size"],
            "streams": len(self._pipes),
            "from": self._case[self._act].get("from", ""),
            "rounds": self.rounds,
            "ms": {name: ms[min(len(ms) - 1, int(share * len(ms)))] for name, share in shares.items() if ms},
            **{name: self._counts[name] for name in _COUNTS},
            "said": self._said[:3],
        }


_COUNTS = ("requests", "slow_downs", "errors", "wrong", "lost", "unmoved")


def _serve(pipe: Any, case: dict[str, Any], act: str, number: int, order: dict[str, Any]) -> None:
    """Be a stream until the parent ends it, or is gone."""
    ctypes.CDLL(None).prctl(_DEATH, signal.SIGKILL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stream = Stream(case, act, number, order)
    pipe.send("ready")
    while True:
        what, *how = pipe.recv()
        pipe.send(stream.go(*how) if what == "go" else stream.complete(*how))
