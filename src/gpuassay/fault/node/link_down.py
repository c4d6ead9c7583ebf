"""A port of the fabric is taken down, as a cable or a switch port that fails would."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.fault.node.words import Blocked, NotRestored, Plan, Refused, need_root, run

if TYPE_CHECKING:
    from collections.abc import Mapping

_UP = 0x1  # IFF_UP: Linux, include/uapi/linux/if.h
_TRAIN_S = 40.0  # a fast link may take that long to come up


class LinkDown:
    """``nic`` is a network interface; without one it is the first RDMA port that is up and not needed."""

    def __init__(self, args: Mapping[str, Any], root: str = "/") -> None:
        """Only hold."""
        self._name = str(args.get("nic", ""))
        self._net = Path(root) / "sys/class/net"
        self._proc = Path(root) / "proc/net"

    def plan(self) -> Plan:
        """Choose a port by which nobody reaches the node. Raises Refused."""
        need_root()
        names = [self._name] if self._name else sorted(place.name for place in self._net.glob("*"))
        whys = {name: self._unfit(name) for name in names}
        fit = [name for name, why in whys.items() if not why]
        if not fit:
            raise Refused("; ".join(whys.values()) or "the node has no network interface")
        name = fit[0]
        return Plan(
            does=(f"ip link set dev {name} down",),
            undoes=(f"ip link set dev {name} up",),
            expects=f"{name} is down: checks of the fabric find it, and collectives over it end",
            state={"nic": name},
            warns=(f"whatever uses {name} is cut, also file systems that are mounted over it",),
        )

    def inject(self, state: Mapping[str, Any]) -> None:
        """Take it down. Raises Blocked."""
        status, said = run("ip", "link", "set", "dev", state["nic"], "down")
        if status != 0:
            raise Blocked(f"ip link set down: {said}")

    def verify_injected(self, state: Mapping[str, Any]) -> str:
        """Read its flags from the kernel. Raises Blocked."""
        if self._flags(state["nic"]) & _UP:
            raise Blocked(f"{state['nic']} is up, or up again")
        return f"{state['nic']} is down"

    def undo(self, state: Mapping[str, Any]) -> None:
        """Bring it up."""
        run("ip", "link", "set", "dev", state["nic"], "up")

    def verify_undone(self, state: Mapping[str, Any]) -> str:
        """Wait for the link. Raises NotRestored."""
        name = state["nic"]
        until = time.monotonic() + _TRAIN_S
        while not (self._flags(name) & _UP and self._says(name, "operstate") == "up"):
            if time.monotonic() > until:
                raise NotRestored(f"{name} does not come up: it is {self._says(name, 'operstate') or 'gone'}")
            time.sleep(0.1)
        return f"{name} is up"

    def _unfit(self, name: str) -> str:
        """Say why a port may not be taken down; empty if it may."""
        place = self._net / name
        if not place.exists():
            return f"{name}: there is no such interface"
        if not (place / "device/infiniband").exists():
            return f"{name} is no port of an RDMA device"
        if self._says(name, "operstate") != "up":
            return f"{name} is not up"
        if (place / "master").exists():
            return f"{name} is part of a bond or bridge"
        if name in self._ways_out():
            return f"{name} has a default route, so it may be how the node is reached"
        return ""

    def _ways_out(self) -> set[str]:
        """Name the interfaces that have a default route."""
        ways = set()
        for line in self._read(self._proc / "route").splitlines()[1:]:
            words = line.split()
            if words[1:2] == ["00000000"]:
                ways.add(words[0])
        for line in self._read(self._proc / "ipv6_route").splitlines():
            words = line.split()
            if words[:2] == ["0" * 32, "00"]:
                ways.add(words[-1])
        return ways - {"lo"}

    def _flags(self, name: str) -> int:
        return int(self._says(name, "flags") or "0", 16)

    def _says(self, name: str, what: str) -> str:
        return self._read(self._net / name / what).strip()

    def _read(self, place: Path) -> str:
        try:
            return place.read_text(encoding="ascii")
        except OSError:
            return ""
