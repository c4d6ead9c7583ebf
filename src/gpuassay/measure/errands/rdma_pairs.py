"""Runs perftest between pairs of nodes: each a client of its partner and its server, on all rails at once.

It travels with Python's own library alone. The nodes keep step through the first of them, over TCP; what
each tool printed goes home as it is, and is read there.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpuassay.measure.errands.steps import Steps

FIRST_PORT = 18_515  # perftest's own default; a rail each from there on
BELL = 18_514  # by which a client tells its server that it is done, however that went
_AGAIN_S, _TRIES, _GRACE_S = 0.5, 20, 2.0
_HUGE = 1 << 30
"""A larger message is tried only where the memory of the host has room for it on all rails at once."""
_REFUSED = "Couldn't connect"  # a client that came before its server


def main(order: dict[str, Any]) -> int:
    """Run an order: its cases, each in every round, once with each of a pair as the client."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rows: list[dict[str, Any]] = []
    document = {"workload": "perftest", "method": order["method"], "node": order["nodes"][rank], "rows": rows}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended
    try:
        if size > 1:
            _work(order, Steps(rank, size, order["patience_s"]), rows)
    except Exception as error:  # noqa: BLE001 - whatever came until then is told
        document["ended"] = f"{type(error).__name__}: {error}"[:300]
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()
    return 1 if "ended" in document else 0


def _work(order: dict[str, Any], steps: Steps, rows: list[dict[str, Any]]) -> None:
    for partners in order["rounds"]:
        other = partners[steps.rank]
        for case in order["cases"]:
            for client_is_lower in (True, False):
                steps.meet()
                if other < 0:
                    continue
                client = (steps.rank < other) is client_is_lower
                found = _pair(order, case, steps, other, client=client)
                rows += found if client else []


def _pair(
    order: dict[str, Any], case: dict[str, Any], steps: Steps, other: int, *, client: bool
) -> list[dict[str, Any]]:
    """Run one case on all rails that both have; give what the clients printed."""
    mine, theirs = (order["rails"][order["nodes"][rank]] for rank in (steps.rank, other))
    lack = _lack(case, len(mine))
    runs = [
        Run({**order, "lack": lack}, case, number, rail, steps.addresses[other] if client else "")
        for number, (rail, _) in enumerate(zip(mine, theirs))  # noqa: B905 - a node with fewer sets the count
    ]
    bell = None if client else socket.create_server(("", BELL))
    try:
        _attend(runs, bell, time.monotonic() + order["patience_s"])
    finally:
        for run in runs:
            run.end()
        if bell:
            bell.close()
    if client:
        with suppress(OSError):  # the server has gone already
            socket.create_connection((steps.addresses[other], BELL), timeout=_GRACE_S).close()
    return [{"case": case, "with": order["nodes"][other], **run.document()} for run in runs]


def _attend(runs: list[Run], bell: socket.socket | None, until: float) -> None:
    """Wait for all processes; servers no longer than a moment after their clients are done."""
    ended = [run.ended() for run in runs]
    while not all(ended) and time.monotonic() < until:
        if bell and select.select([bell], [], [], 0)[0]:
            bell.accept()[0].close()
            until = min(until, time.monotonic() + _GRACE_S)
        time.sleep(0.02)
        ended = [run.ended() for run in runs]


class Run:
    """One process of a tool, client or server, on one rail; a client that came too early comes again."""

    def __init__(
        self, order: dict[str, Any], case: dict[str, Any], number: int, rail: list[Any], address: str
    ) -> None:
        """Start it, if the tool is here."""
        self.rail, self.why, self.tries = rail, "", 0
        self.argv = [case["tool"], "-F", "-d", rail[0], "-i", str(rail[1]), "-p", str(FIRST_PORT + number)]
        self.argv += ["-x", str(rail[2])] if rail[2] >= 0 else []
        self.argv += [*case["how"], *_memory(case["memory"], number), *([address] if address else [])]
        self.client = bool(address)
        self.process: Any = None
        self.code, self.again_at = -1, 0.0
        self.out = self.err = ""
        if case["memory"] == "gpu" and not _memory("gpu", number):
            self.why = "unsupported: there is no GPU"
        elif order.get("lack"):
            self.why = order["lack"]
        elif not shutil.which(case["tool"]):
            self.why = f"not found: {case['tool']}: {order['get']}"
        else:
            self._start()

    def _start(self) -> None:
        self.tries, self.again_at = self.tries + 1, 0.0
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(  # noqa: S603 - as ordered
            self.argv, stdin=subprocess.DEVNULL, start_new_session=True, errors="replace", **pipes
        )

    def ended(self) -> bool:
        """Whether there is no more to wait for."""
        if self.again_at:
            if time.monotonic() >= self.again_at:
                self._start()
            return False
        if self.process is None:
            return True
        if self.process.poll() is None:
            return False
        self.out, self.err = (pipe.read() for pipe in (self.process.stdout, self.process.stderr))
        early = self.client and self.process.returncode and _REFUSED in self.out + self.err
        if early and self.tries < _TRIES:
            self.again_at = time.monotonic() + _AGAIN_S
            return False
        self.process, self.code = None, self.process.returncode
        return True

    def end(self) -> None:
        """End what still runs, with all that it started."""
        if self.process is None:
            return
        self.why = "timed out: it was ended"
        if self.again_at:  # it has ended, and was to be started again
            return
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.out, self.err = self.process.communicate()

    def document(self) -> dict[str, Any]:
        """Give what came of it."""
        told = {"rail": self.rail[:2], "command": self.argv, "out": self.out, "err": self.err[-500:]}
        return {**told, **({"why": self.why} if self.why else {"exit": self.code})}


def _lack(case: dict[str, Any], rails: int) -> str:
    """Say that memory is too small for a huge message, of which perftest keeps two, on all rails at once."""
    how = case["how"]
    size = int(how[how.index("-s") + 1]) if "-s" in how else 0
    if size <= _HUGE:
        return ""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    if 2 * size * rails <= free // 2:
        return ""
    return f"not tried: {2 * size * rails >> 30} GiB for all rails are more than half of the free memory"


def _memory(kind: str, number: int) -> list[str]:
    """Say whose memory is sent from: that of the GPU of this number, by its vendor's word."""
    if kind == "host":
        return []
    for pattern, word in (("nvidia[0-9]*", "cuda"), ("kfd", "rocm")):
        if devices := list(Path("/dev").glob(pattern)):
            return [f"--use_{word}={number % len(devices) if word == 'cuda' else number}"]
    return []
