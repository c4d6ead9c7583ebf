"""A rank of a job is killed or stopped, as a bug of its own would do it: the job's loss, and not the node's.

Only a process is touched that was started for this very trial, and has its mark in its environment.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.fault.node import processes
from gpuassay.fault.node.words import Blocked, NotRestored, Plan, Refused, boot_id

if TYPE_CHECKING:
    from collections.abc import Mapping

MARK = "GPUASSAY_TRIAL"
"""The name under which such a process has the trial's mark."""

_HOWS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
_SOON_S = 5.0
_BEGUN_S = 20.0  # for the rank to begin, which is started beside this


class RankSignal:
    """``process`` is the name of the rank's process, ``how``: kill or stop."""

    def __init__(self, args: Mapping[str, Any], root: str = "/") -> None:
        """Only hold."""
        self._name, self._how = str(args["process"]), str(args.get("how", "kill"))
        self._mark = str(args.get("mark", ""))
        self._root = Path(root)

    def plan(self) -> Plan:
        """Find a rank of our own. Raises Refused."""
        if self._how not in _HOWS:
            raise Refused(f"how = {self._how}: expected one of {', '.join(_HOWS)}")
        until = time.monotonic() + _BEGUN_S
        while not (ours := self._ranks()):
            if time.monotonic() > until:
                raise Refused(f"no {self._name} runs here that was started for this trial ({self._mark})")
            time.sleep(0.1)
        pid = ours[0]
        stop = self._how == "stop"
        return Plan(
            does=(f"kill -{'STOP' if stop else 'KILL'} {pid} ({self._name}, of our job)",),
            undoes=(f"kill -CONT {pid}",) if stop else (),
            expects="the job ends, or hangs; the node is well and stays in service",
            state={"pid": pid, "started": processes.started(self._root, pid), "boot": boot_id()},
            warns=() if stop else ("a killed rank does not come back: its job is lost",),
        )

    def inject(self, state: Mapping[str, Any]) -> None:
        """Send the signal. Raises Blocked."""
        if not self._same(state):
            raise Blocked(f"{self._name} is not the process any more that the plan was made for")
        os.kill(state["pid"], _HOWS[self._how])

    def verify_injected(self, state: Mapping[str, Any]) -> str:
        """Look into the table of processes. Raises Blocked."""
        until = time.monotonic() + _SOON_S
        wanted = ("T",) if self._how == "stop" else processes.ENDED
        while self._state(state) not in wanted:
            if time.monotonic() > until:
                raise Blocked(f"{self._name} ({state['pid']}) runs on")
            time.sleep(0.05)
        return f"{self._name} ({state['pid']}) is {'stopped' if self._how == 'stop' else 'gone'}"

    def undo(self, state: Mapping[str, Any]) -> None:
        """Let a stopped one go on."""
        if self._how == "stop" and state["boot"] == boot_id() and self._state(state) == "T":
            os.kill(state["pid"], signal.SIGCONT)

    def verify_undone(self, state: Mapping[str, Any]) -> str:
        """Find it not stopped. Raises NotRestored."""
        if self._state(state) == "T":
            raise NotRestored(f"{self._name} ({state['pid']}) is stopped still")
        return f"{self._name} ({state['pid']}) is not stopped"

    def _ranks(self) -> list[int]:
        """List the processes of that name which were started for this trial."""
        named = processes.named(self._root, self._name)
        return [pid for pid in named if self._mark and self._marked(pid) == self._mark]

    def _state(self, state: Mapping[str, Any]) -> str:
        return processes.state(self._root, state["pid"]) if self._same(state) else ""

    def _same(self, state: Mapping[str, Any]) -> bool:
        return bool(processes.started(self._root, state["pid"]) == state["started"])

    def _marked(self, pid: int) -> str:
        try:
            return processes.environment(self._root, pid).get(MARK, "")
        except OSError:
            return ""
