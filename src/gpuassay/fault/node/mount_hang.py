"""Shared storage stops answering: what asks for it hangs, and nothing says that it failed.

NFS is cut off by a rule in a table of our own, which drops what is sent to its server. The rule has a time:
even if nobody is left to take it away, the kernel does. Of a file system in user space the process that
serves it is stopped.
"""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.fault.node import fuse, processes
from gpuassay.fault.node.mounts import mounted
from gpuassay.fault.node.words import Blocked, NotRestored, Plan, Refused, boot_id, need_root, run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.fault.node.mounts import Mount

_PORT = 2049  # nfs: IANA's registry of port numbers
_LOOK_S = 5.0
_BACK_S = 90.0  # a client waits longer from try to try


class MountHang:
    """``path`` is where it is mounted; without it, the first that the site file declares as shared.

    After ``hold_s`` seconds the rule ends by itself.
    """

    def __init__(self, args: Mapping[str, Any], root: str = "/") -> None:
        """Only hold."""
        self._path = str(args.get("path") or args.get("shared", ""))
        self._hold_s = int(args.get("hold_s", 900))
        self._root = Path(root)
        self._table = f"gpuassay_{args['mark']}"

    def plan(self) -> Plan:
        """Find what can be cut. Raises Refused."""
        need_root()
        if not self._path:
            raise Refused("the site file declares no storage that all nodes share ([[mount]])")
        found = mounted(self._root, self._path)
        kind = found.kind if found else "not mounted"
        if found and kind in ("nfs", "nfs4"):
            return self._plan_nfs(found)
        if kind == "fuse" or kind.startswith("fuse."):
            return self._plan_fuse()
        raise Refused(f"{self._path} is {kind}: only NFS and FUSE can be cut off here")

    def _plan_nfs(self, found: Mount) -> Plan:
        server = found.option("addr")
        if not re.fullmatch(r"[0-9.]+|[0-9a-f:]+", server):
            raise Refused(f"the server of {self._path} has no address that can be read: {server or 'none'}")
        if found.option("proto").startswith("rdma"):
            raise Refused(f"{self._path} is mounted over RDMA, which no rule of the kernel holds up")
        status, said = run("nft", "--version")
        if status != 0:
            raise Refused(f"nft is needed for it: {said}")
        return Plan(
            does=(f"nft {self._rules(server)!r}",),
            undoes=(f"nft delete table inet {self._table}",),
            expects=f"what asks for {self._path} hangs, until the rule is gone",
            state={"server": server},
            warns=(
                f"all that {server} serves by NFS hangs on this node, and whatever runs from there",
                f"the rule ends by itself after {self._hold_s} s",
            ),
        )

    def _plan_fuse(self) -> Plan:
        pid = fuse.server(self._root, self._path)
        state = {"pid": pid, "started": processes.started(self._root, pid), "boot": boot_id()}
        name = " ".join(processes.words(self._root, pid, "cmdline"))[:200]
        return Plan(
            does=(f"kill -STOP {pid} ({name})",),
            undoes=(f"kill -CONT {pid}",),
            expects=f"what asks for {self._path} hangs, until its process goes on",
            state=state,
            warns=(f"all that process {pid} serves hangs on this node, and whatever runs from there",),
        )

    def inject(self, state: Mapping[str, Any]) -> None:
        """Set the rule, or stop the process. Raises Blocked."""
        if "pid" in state:
            if not self._same(state):
                raise Blocked(f"process {state['pid']}, which served {self._path}, is gone")
            os.kill(state["pid"], signal.SIGSTOP)
            return
        status, said = run("nft", self._rules(state["server"]))
        if status != 0:
            raise Blocked(f"nft: {said}")

    def verify_injected(self, state: Mapping[str, Any]) -> str:
        """Ask for the file system, which must not answer. Raises Blocked."""
        if self._answers():
            raise Blocked(f"{self._path} answers all the same")
        return f"{self._path} did not answer for {_LOOK_S:.0f} s"

    def undo(self, state: Mapping[str, Any]) -> None:
        """Take our table away, or let the process go on."""
        if "pid" not in state:
            run("nft", "delete", "table", "inet", self._table)
        elif self._stopped(state):
            os.kill(state["pid"], signal.SIGCONT)

    def verify_undone(self, state: Mapping[str, Any]) -> str:
        """Find nothing of ours, and the file system answering. Raises NotRestored."""
        left = self._left(state)
        if left:
            raise NotRestored(left)
        if not self._answers(_BACK_S):
            raise NotRestored(f"{self._path} does not answer for {_BACK_S:.0f} s")
        return f"{self._path} answers, and nothing of ours holds it up"

    def _left(self, state: Mapping[str, Any]) -> str:
        """Say what of ours still holds it up; empty if nothing does."""
        if "pid" in state:
            return f"process {state['pid']} is stopped still" if self._stopped(state) else ""
        there = run("nft", "list", "table", "inet", self._table)[0] == 0
        return f"the table {self._table} is still there" if there else ""

    def _same(self, state: Mapping[str, Any]) -> bool:
        began = processes.started(self._root, state["pid"])
        return bool(state["boot"] == boot_id() and began == state["started"])

    def _stopped(self, state: Mapping[str, Any]) -> bool:
        return self._same(state) and processes.state(self._root, state["pid"]) == "T"

    def _answers(self, patience_s: float = _LOOK_S) -> bool:
        """Ask for something that a client does not remember, in a process that may be left hanging."""
        place = self._root / self._path.lstrip("/")
        return run("stat", "--file-system", str(place), patience_s=patience_s)[0] == 0

    def _rules(self, server: str) -> str:
        family, kind = ("ip6", "ipv6_addr") if ":" in server else ("ip", "ipv4_addr")
        table = f"inet {self._table}"
        return "; ".join(
            (
                f"add table {table}",
                f"add set {table} servers {{ type {kind}; flags timeout; }}",
                f"add element {table} servers {{ {server} timeout {self._hold_s}s }}",
                f"add chain {table} out {{ type filter hook output priority 0; }}",
                f"add rule {table} out {family} daddr @servers tcp dport {_PORT} drop",
            )
        )
