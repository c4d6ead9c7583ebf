"""A daemon that nodes cannot do without is frozen or killed: slurmd, kubelet, the fabric manager."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.fault.node import processes
from gpuassay.fault.node.words import Blocked, NotRestored, Plan, Refused, boot_id, need_root, run

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEPT = ("PATH", "LANG", "SLURM_CONF", "SLURMD_OPTIONS", "KUBECONFIG")  # of its environment: no secrets
_HOWS = ("freeze", "kill")
_START_S = 15.0


class Service:
    """``service`` is the name of its process, ``unit`` of its systemd unit, ``how``: freeze or kill."""

    def __init__(self, args: Mapping[str, Any], root: str = "/") -> None:
        """Only hold."""
        self._name = str(args["service"])
        self._unit = str(args.get("unit") or self._name)
        self._how = str(args.get("how", "freeze"))
        self._root = Path(root)

    def plan(self) -> Plan:
        """Find the one process of that name. Raises Refused."""
        need_root()
        if self._how not in _HOWS:
            raise Refused(f"how = {self._how}: expected one of {', '.join(_HOWS)}")
        found = [pid for pid in self._pids() if self._state(pid) not in ("", "T", "Z")]
        if len(found) != 1:
            raise Refused(f"{len(found) or 'no'} processes named {self._name} run on the node, expected one")
        pid = found[0]
        argv = processes.words(self._root, pid, "cmdline")
        state = {
            "pid": pid,
            "started": processes.started(self._root, pid),
            "boot": boot_id(),
            "argv": argv,
            "environment": {
                name: value for name, value in processes.environment(self._root, pid).items() if name in _KEPT
            },
            "managed": run("systemctl", "is-active", self._unit)[1] == "active",
        }
        stop, start = ("STOP", "CONT") if self._how == "freeze" else ("KILL", "")
        again = f"systemctl start {self._unit}" if state["managed"] else " ".join(argv)
        return Plan(
            does=(f"kill -{stop} {pid} ({self._name})",),
            undoes=(f"kill -{start} {pid}" if start else again,),
            expects=f"{self._name} answers no more: the scheduler, or who watches it, takes the node out",
            state=state,
        )

    def inject(self, state: Mapping[str, Any]) -> None:
        """Freeze or kill it. Raises Blocked."""
        if not self._same(state):
            raise Blocked(f"{self._name} is not the process any more that the plan was made for")
        os.kill(state["pid"], signal.SIGSTOP if self._how == "freeze" else signal.SIGKILL)

    def verify_injected(self, state: Mapping[str, Any]) -> str:
        """Look into the table of processes. Raises Blocked."""
        until = time.monotonic() + 5
        while True:
            seen = self._state(state["pid"]) if self._same(state) else ""
            if self._how == "freeze" and seen == "T":
                return f"{self._name} ({state['pid']}) is stopped"
            if self._how == "kill" and seen in ("", "Z") and not self._pids():
                return f"no {self._name} runs"
            if time.monotonic() > until:
                raise Blocked(f"{self._name} runs on, or again: {self._pids()}")
            time.sleep(0.05)

    def undo(self, state: Mapping[str, Any]) -> None:
        """Let it go on, or start it where nobody else has."""
        if state["boot"] != boot_id():
            return  # whoever booted the node has mended it
        if self._same(state):
            if self._state(state["pid"]) == "T":
                os.kill(state["pid"], signal.SIGCONT)
        elif not self._pids():
            if state["managed"]:
                run("systemctl", "start", self._unit)
            else:
                self._start(state)

    def verify_undone(self, state: Mapping[str, Any]) -> str:
        """Find it running. Raises NotRestored."""
        until = time.monotonic() + _START_S
        while True:
            running = [pid for pid in self._pids() if self._state(pid) not in ("", "T", "Z")]
            if running:
                return f"{self._name} runs ({running[0]})" + (
                    "" if state["boot"] == boot_id() else ", booted since"
                )
            if time.monotonic() > until:
                raise NotRestored(f"{self._name} does not run")
            time.sleep(0.1)

    def _start(self, state: Mapping[str, Any]) -> None:
        subprocess.Popen(  # noqa: S603 - as it was started before
            state["argv"],
            env=dict(state["environment"]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )

    def _pids(self) -> list[int]:
        return processes.named(self._root, self._name)

    def _state(self, pid: int) -> str:
        return processes.state(self._root, pid)

    def _same(self, state: Mapping[str, Any]) -> bool:
        return bool(processes.started(self._root, state["pid"]) == state["started"])
