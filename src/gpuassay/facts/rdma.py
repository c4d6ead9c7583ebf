"""RDMA ports, as sysfs shows them: InfiniBand, RoCE and others."""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Final

from gpuassay.facts.gid import Gid, nccl_choice, parse_address
from gpuassay.facts.record import mapped
from gpuassay.facts.source import document
from gpuassay.facts.text import natural
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv6Address

    from gpuassay.facts.record import Record
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

# The kernel's names of GID types (ib_cache.c); a port of InfiniBand has the first one too.
_VERSIONS = {"IB/RoCE v1": 1, "RoCE v1": 1, "RoCE v2": 2}
ETHERNET: Final = "Ethernet"
INFINIBAND: Final = "InfiniBand"
_DEVICE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NUMBER = re.compile(r"[1-9][0-9]{0,2}")
_SLOT = re.compile(r"0|[1-9][0-9]{0,4}")


class Port:
    """One port of an RDMA device."""

    models: tuple[str, ...] = ()

    def __init__(self, node: str, place: tuple[str, str], entry: Record, net: Record) -> None:
        """``place`` is device and number; ``entry`` what sysfs says of it; ``net`` the node's interfaces."""
        self.node = node
        self.device, self.number = place
        self._entry = entry
        self._net = net

    @property
    def name(self) -> str:
        """Device and port, e.g. ``mlx5_0/1``."""
        return f"{self.device}/{self.number}"

    @property
    def where(self) -> str:
        """Its place, e.g. ``gpu017/mlx5_0/1``."""
        return f"{self.node}/{self.name}"

    @property
    def link_layer(self) -> Fact[str]:
        """``InfiniBand``, ``Ethernet``, or what else the kernel says."""
        return self._entry.text("link_layer", r"[A-Za-z]{1,32}", "a link layer")

    @property
    def state(self) -> Fact[str]:
        """The logical state, e.g. ``ACTIVE``."""
        fact = self._entry.text("state", r"[0-9]: [A-Z_ ]{2,24}", "a port state")
        return mapped(fact, lambda text: text.partition(": ")[2])

    @property
    def line_rate_gbps(self) -> Fact[float]:
        """The rate of the link in Gbit/s."""
        fact = self._entry.text("rate", r"[0-9]{1,5}(\.[0-9]{1,3})? Gb/sec( \(.{1,24}\))?", "a rate")
        return mapped(fact, lambda text: float(text.partition(" ")[0]))

    @cached_property
    def gids(self) -> Fact[tuple[Gid, ...]]:
        """The GID table, by index; one entry that cannot be read leaves the whole of it unread."""
        table, types, netdevs = (self._entry.record(key) for key in ("gids", "types", "ndevs"))
        if isinstance(table.values, Unread):
            return table.values
        gids = []
        for slot in table.values:
            address, version = _address(table, slot), _version(types, slot)
            if isinstance(address, Unread):
                return address
            if isinstance(version, Unread):
                return version
            netdev = netdevs.text(slot)
            gids.append(Gid(int(slot), address, version, netdev.value if isinstance(netdev, Read) else ""))
        return Read(tuple(sorted(gids, key=lambda gid: gid.index)), table.evidence)

    @property
    def routable_gids(self) -> Fact[int]:
        """How many of its addresses other hosts can reach through a router; the note lists the table."""
        gids = self._roce_gids
        if isinstance(gids, Unread):
            return gids
        table = "; ".join(map(str, gids.value)) or "empty"
        return Read(sum(gid.routable for gid in gids.value), gids.evidence, f"GID table: {table}")

    @property
    def nccl_gid(self) -> Fact[str]:
        """Which address NCCL takes by itself, e.g. ``ipv4 v2``, ``link-local v1``; the note names it."""
        gids = self._roce_gids
        if isinstance(gids, Unread):
            return gids
        chosen = nccl_choice(gids.value)
        return Read(chosen.label, gids.evidence, f"NCCL takes entry {chosen}")

    @property
    def _roce_gids(self) -> Fact[tuple[Gid, ...]]:
        link_layer = self.link_layer
        if isinstance(link_layer, Unread):
            return link_layer
        if link_layer.value != ETHERNET:  # fe80:: is the usual subnet prefix there
            return Unread("unsupported", f"{link_layer.value} does not route by GID", link_layer.evidence)
        return self.gids

    @property
    def netdev(self) -> Fact[str]:
        """The network interface that its addresses are on; where there are several, that of NCCL's choice."""
        gids = self.gids
        if isinstance(gids, Unread):
            return gids
        names = [gid.netdev for gid in (nccl_choice(gids.value), *gids.value) if gid.netdev]
        if not names:
            return Unread(
                "not_found", f"no entry of {self.name}'s GID table names an interface", gids.evidence
            )
        return Read(names[0], gids.evidence)

    @property
    def mtu(self) -> Fact[int]:
        """The MTU of that interface in bytes."""
        netdev = self.netdev
        if isinstance(netdev, Unread):
            return netdev
        return mapped(self._net.record(netdev.value).text("mtu", r"[0-9]{1,6}", "an MTU"), int)


class Adapters:
    """The RDMA devices of a node."""

    def __init__(self, node: str, evidence: Evidence) -> None:
        """Look at what the probe read from ``/sys/class/infiniband``."""
        self._node = node
        self._devices = document(evidence, "infiniband", missing="not_found")
        self._net = document(evidence, "net", missing="not_found")

    @property
    def present(self) -> Fact[bool]:
        """Whether there is any."""
        devices = self._devices
        return devices.unread or Read(any(True for _ in devices.items()), devices.evidence)

    @property
    def counts(self) -> Fact[str]:
        """How many there are of each model, e.g. ``8 x MT4129, 2 x MT4125``."""
        return self._counted("hca_type")

    @property
    def boards(self) -> Fact[str]:
        """How many there are of each board, by the maker's board id (PSID)."""
        return self._counted("board_id")

    def _counted(self, key: str) -> Fact[str]:
        kinds: Counter[str] = Counter()
        for name in dict(self._devices.items()):
            kind = self._devices.record(name).text(key, r"[0-9A-Za-z_.:/ -]{1,48}", "a name")
            if isinstance(kind, Unread) and kind.kind != "not_found":
                return kind
            kinds[kind.value if isinstance(kind, Read) else "of unnamed make"] += 1
        if not kinds:
            return self._devices.unread or Unread("not_found", "no RDMA device", self._devices.evidence)
        said = ", ".join(f"{count} x {kind}" for kind, count in sorted(kinds.items()))
        return Read(said, self._devices.evidence)

    def pci_of(self, device: str) -> Fact[str]:
        """Give the PCI address of a device."""
        return self._devices.record(device).text("pci", r"[0-9a-f:.]{12,17}", "a PCI address")

    @cached_property
    def ports(self) -> tuple[Port, ...]:
        """All ports, in natural order."""
        ports = [port for port in self._found if isinstance(port, Port)]
        return tuple(sorted(ports, key=lambda port: natural(port.name)))

    @cached_property
    def unread(self) -> Unread | None:
        """Why there may be ports that are not in ``ports``; None if all are."""
        return self._devices.unread or next((one for one in self._found if isinstance(one, Unread)), None)

    @cached_property
    def _found(self) -> tuple[Port | Unread, ...]:
        return tuple(
            found for name, device in self._devices.items() for found in self._ports_of(name, device)
        )

    def _ports_of(self, name: str, device: Record) -> Iterator[Port | Unread]:
        ports = device.record("ports")
        if not _DEVICE.fullmatch(name):
            yield device.garbled("an RDMA device", name, "a name")
        elif isinstance(ports.values, Unread):
            yield ports.values
        else:
            for number, entry in ports.items():
                known = _NUMBER.fullmatch(number)
                yield (
                    Port(self._node, (name, number), entry, self._net)
                    if known
                    else ports.garbled(f"a port of {name}", number, "a number")
                )


def _address(table: Record, slot: str) -> IPv6Address | Unread:
    text = table.text(slot)
    if isinstance(text, Unread):
        return text
    address = parse_address(text.value) if _SLOT.fullmatch(slot) else None
    return address or table.garbled(f"GID {slot}", text.value, "an address")


def _version(types: Record, slot: str) -> int | Unread | None:
    """Read the version of RoCE of an entry; a slot of another network namespace has none (EINVAL)."""
    kind = types.text(slot)
    if isinstance(kind, Unread):
        return None if kind.kind == "not_found" else kind
    return _VERSIONS.get(kind.value) or types.garbled(f"type of GID {slot}", kind.value, "a version of RoCE")
