"""A value is put into the cache of DCGM's host engine, where its other clients find it.

Only the cache is written, and real samples follow: so it is put there every second anew, by a process that
lives no longer than the dead-man is armed. Clients with a host engine of their own do not see it.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.fault.node import deadman
from gpuassay.fault.node.words import Blocked, NotRestored, Plan, Refused, need_root, run

if TYPE_CHECKING:
    from collections.abc import Mapping

XID = 230  # DCGM_FI_DEV_XID_ERRORS: an event, so no real sample follows
_AGAIN = (
    'while [ -e "$1/armed" ] && [ -e "$1/on" ]; do '
    'dcgmi test --inject --gpuid "$2" -f "$3" -v "$4"; sleep 1; done'
)
_TRIES = 5
_END_S = 30.0  # dcgmi may wait that long for its host engine


class Dcgm:
    """``field`` is the number of a field, ``value`` what it shall show, ``gpu`` DCGM's number of a GPU."""

    def __init__(self, args: Mapping[str, Any], root: str = "/") -> None:
        """Only hold."""
        self._field, self._value = int(args["field"]), str(args["value"])
        self._gpu = int(args.get("gpu", 0))
        self._place = deadman.folder(str(args["mark"]), str(Path(root) / "run"))

    def plan(self) -> Plan:
        """Ask the host engine for the GPU and for what it shows now. Raises Refused."""
        need_root()
        status, said = run("dcgmi", "discovery", "--list")
        if status != 0:
            raise Refused(f"dcgmi reaches no host engine on this node: {said}")
        if not any(line.split()[1:2] == [str(self._gpu)] for line in said.splitlines()):
            raise Refused(f"DCGM knows no GPU {self._gpu} on this node")
        before = self._shown()
        if before == float(self._value):
            raise Refused(f"field {self._field} of GPU {self._gpu} is {self._value} already")
        back = self._back(before)
        return Plan(
            does=(f"every second: {' '.join(self._inject(self._value))}",),
            undoes=(f"once: {' '.join(self._inject(back))}; real samples follow",),
            expects=f"clients of this host engine find {self._value} in field {self._field}",
            state={"back": back},
            warns=(
                ("the host engine keeps Xids in its health until it is restarted, which is the provider's",)
                if self._field == XID
                else ()
            ),
        )

    def inject(self, state: Mapping[str, Any]) -> None:
        """Put the value there, and leave who does so again. Raises Blocked."""
        self._once(self._value)
        (self._place / "on").touch()
        argv = (
            "/bin/sh",
            "-c",
            _AGAIN,
            "sh",
            str(self._place),
            str(self._gpu),
            str(self._field),
            self._value,
        )
        pid, _ = deadman.apart(*argv)
        (self._place / "again").write_text(json.dumps(pid), encoding="utf-8")

    def verify_injected(self, state: Mapping[str, Any]) -> str:
        """Read the field as any client would. Raises Blocked."""
        shown = [self._shown() for _ in range(_TRIES)]
        if float(self._value) not in shown:
            raise Blocked(f"field {self._field} of GPU {self._gpu} shows {shown[-1]}, not {self._value}")
        _, known = run("dcgmi", "test", "--introspect", "--gpuid", str(self._gpu), "-f", str(self._field))
        told = " ".join(known.split())[:300]
        return f"dcgmi dmon shows {self._value} in field {self._field} of GPU {self._gpu}; its cache: {told}"

    def undo(self, state: Mapping[str, Any]) -> None:
        """End who does it again, wait for that, and put the earlier value there."""
        (self._place / "on").unlink(missing_ok=True)
        until = time.monotonic() + _END_S
        while self._goes_on() and time.monotonic() < until:
            time.sleep(0.1)
        with suppress(Blocked):  # verify_undone tells
            self._once(state["back"])

    def verify_undone(self, state: Mapping[str, Any]) -> str:
        """Find another value in the field. Raises NotRestored."""
        shown = self._shown()
        if self._goes_on() or shown == float(self._value):
            raise NotRestored(f"field {self._field} of GPU {self._gpu} shows {shown} still")
        return f"field {self._field} of GPU {self._gpu} shows {shown}, and nobody puts {self._value} there"

    def _inject(self, value: str) -> tuple[str, ...]:
        where = ("--gpuid", str(self._gpu), "-f", str(self._field))
        return ("dcgmi", "test", "--inject", *where, "-v", value)

    def _once(self, value: str) -> None:
        status, said = run(*self._inject(value))
        if status != 0:
            raise Blocked(f"dcgmi did not take the value: {said}")

    def _back(self, before: float | None) -> str:
        return "0" if before is None else f"{before:g}"

    def _shown(self) -> float | None:
        """Read the newest sample of the field; None where it shows no number, as before a first Xid."""
        ask = ("dcgmi", "dmon", "-e", str(self._field), "-i", f"gpu:{self._gpu}", "-c", "1")
        _, said = run(*ask)
        for line in said.splitlines():
            words = line.split()
            if words[:2] == ["GPU", str(self._gpu)] and words[2:]:
                with suppress(ValueError):
                    return float(words[-1])
        return None

    def _goes_on(self) -> bool:
        try:
            pid = int(json.loads((self._place / "again").read_text(encoding="utf-8")))
            os.kill(pid, 0)
        except (OSError, ValueError):
            return False
        return str(self._place) in Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")
