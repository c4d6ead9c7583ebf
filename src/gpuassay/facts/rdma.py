"""RDMA ports, as sysfs shows them: InfiniBand, RoCE and others."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts.earlier import NO_PAST
from gpuassay.facts.gid import EMPTY_ADDRESS, Gid, nccl_choice, parse_address
from gpuassay.facts.link import ETHERNET, INFINIBAND, Link, asked
from gpuassay.facts.record import mapped
from gpuassay.facts.since import PortSince
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from ipaddress import IPv6Address

    from gpuassay.facts.lldp import Neighbour
    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact

# The kernel's names of GID types (ib_cache.c); a port of InfiniBand has the first one too.
_VERSIONS = {"IB/RoCE v1": 1, "RoCE v1": 1, "RoCE v2": 2}
_SLOT = re.compile(r"0|[1-9][0-9]{0,4}")
# include/rdma/ib_addr.h, iboe_get_mtu: GRH 40, UDP 8, BTH 12, XRC 4, atomic 28, ICRC 4.
_HEADERS = 96
_ETHERNET = 18  # a frame's own header and checksum, IEEE 802.3
_PATH_MTUS = (4096, 2048, 1024, 512, 256)


class Port(Link):
    """One port of an RDMA device."""

    past = NO_PAST

    @cached_property
    def since(self) -> PortSince:
        """What became of it since an earlier recording."""
        return PortSince(self, self.past)

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
        """Which address NCCL takes, as the node's settings are, e.g. ``ipv4 v2``; the note names it."""
        gids = self._roce_gids
        if isinstance(gids, Unread):
            return gids
        pin = self._around.settings.pin
        pinned = self._entry_at(gids.value, pin.value) if isinstance(pin, Read) and pin.value >= 0 else None
        chosen = pinned or nccl_choice(gids.value, self._around.settings.wanted)
        return Read(chosen.label, gids.evidence, f"NCCL takes entry {chosen}")

    @property
    def pinned_gid(self) -> Fact[str]:
        """What is at the index that is pinned for all ports, e.g. ``ipv4 v2``; ``not pinned`` if none is."""
        gids, pin = self._roce_gids, self._around.settings.pin
        if isinstance(gids, Unread):
            return gids
        if isinstance(pin, Unread):
            return pin
        if pin.value < 0:
            return Read("not pinned", pin.evidence)
        entry = self._entry_at(gids.value, pin.value)
        return Read(entry.label, pin.evidence, f"{pin.note} is entry {entry} here")

    @staticmethod
    def _entry_at(gids: tuple[Gid, ...], index: int) -> Gid:
        return next((gid for gid in gids if gid.index == index), Gid(index, EMPTY_ADDRESS, None))

    @property
    def _roce_gids(self) -> Fact[tuple[Gid, ...]]:
        link_layer = self.link_layer
        if isinstance(link_layer, Unread):
            return link_layer
        if link_layer.value != ETHERNET:  # fe80:: is the usual subnet prefix there
            return Unread("unsupported", f"{link_layer.value} does not route by GID", link_layer.evidence)
        return self.gids

    @cached_property
    def netdev(self) -> Fact[str]:
        """Its network interface: the one of NCCL's choice, else any that the GID table or the bus names."""
        gids = self.gids
        if isinstance(gids, Unread):
            return gids
        names = [gid.netdev for gid in (nccl_choice(gids.value), *gids.value) if gid.netdev]
        names = names or [name for name, one in self._around.net.items() if self._is_behind(one)]
        if names:
            return Read(names[0], gids.evidence)
        why = f"no entry of {self.name}'s GID table names an interface"
        if gids.value:  # the kernel names those of other network namespaces to nobody
            return Unread("denied", f"{why} of this network namespace", gids.evidence)
        return Unread("not_found", why, gids.evidence)

    def _is_behind(self, interface: Record) -> bool:
        address = interface.text("pci")
        return isinstance(address, Read) and address.value == self.bus_address

    @cached_property
    def mtu(self) -> Fact[int]:
        """The MTU of that interface in bytes."""
        netdev = self.netdev
        if isinstance(netdev, Unread):
            return netdev
        return self._mtu_of(netdev.value)

    @property
    def odd_interfaces(self) -> Fact[int]:
        """How many other interfaces that its GID table names have a smaller MTU; the note names them.

        A VLAN or a bridge on top of it may carry the address that a job takes.
        """
        own, gids = self.mtu, self.gids
        if isinstance(own, Unread):
            return own
        if isinstance(gids, Unread):
            return gids
        smaller = []
        for name in dict.fromkeys(gid.netdev for gid in gids.value if gid.netdev):
            mtu = self._mtu_of(name)
            if isinstance(mtu, Unread):
                return mtu
            if mtu.value < own.value:
                smaller.append(f"{name}: {mtu.value}")
        return Read(len(smaller), own.evidence, ", ".join(smaller))

    def _mtu_of(self, netdev: str) -> Fact[int]:
        return mapped(self._around.net.record(netdev).text("mtu", r"[0-9]{1,6}", "an MTU"), int)

    @property
    def frame_bytes(self) -> Fact[int]:
        """The largest frame that it sends."""
        return mapped(self.mtu, lambda mtu: mtu + _ETHERNET)

    @property
    def switch(self) -> Fact[str]:
        """The switch at the other end of its cable, as that names itself."""
        return mapped(self._neighbour, lambda one: one.switch)

    @property
    def switch_frame(self) -> Fact[int]:
        """The largest frame that the switch's port takes; the note names that port."""
        one = self._neighbour
        if isinstance(one, Unread):
            return one
        named = f"{one.value.switch}, port {one.value.port or 'unnamed'}"
        if not one.value.frame:
            return Unread("denied", f"{named} tells no maximum frame size", one.evidence)
        return Read(one.value.frame, one.evidence, named)

    @property
    def _neighbour(self) -> Fact[Neighbour]:
        netdev, known = self.netdev, self._around.neighbours
        if isinstance(known, Unread):
            return known
        if isinstance(netdev, Unread):
            return netdev
        if netdev.value not in known.value:
            return Unread("denied", f"no switch tells of itself on {netdev.value}", known.evidence)
        return Read(known.value[netdev.value], known.evidence)

    @property
    def path_mtu(self) -> Fact[int]:
        """How many bytes of data a packet of RoCE has: the largest power of two that fits the MTU."""
        return mapped(self.mtu, lambda mtu: next((size for size in _PATH_MTUS if size + _HEADERS <= mtu), 0))

    @property
    def lossless(self) -> Fact[str]:
        """The priorities that are paused instead of dropped (PFC), e.g. ``3``; ``none``."""
        netdev = self.netdev
        if isinstance(netdev, Unread):
            return netdev
        answer = self._around.dcb.record(netdev.value)
        if isinstance(answer.values, Unread) and answer.values.kind in ("unsupported", "not_found"):
            return Unread("denied", f"{netdev.value}: {answer.values.why}", answer.evidence)
        priorities = answer.look("pfc")
        if isinstance(priorities, Unread):
            return priorities
        if not isinstance(priorities.value, list) or not all(
            type(one) is int and one in range(8) for one in priorities.value
        ):
            return answer.garbled("pfc", priorities.value, "a list of priorities")
        return Read(", ".join(map(str, priorities.value)) or "none", priorities.evidence)

    # --- errors ----------------------------------------------------------------------------------

    @property
    def downs_per_day(self) -> Fact[float]:
        """How often a day the link went down, on average since the boot; the note has the count."""
        window, count = self._around.window_hours, self.downs
        if isinstance(count, Unread):
            return count
        if isinstance(window, Unread):
            return window
        note = f"{count.value} times in {window.value / 24:.1f} days"
        return Read(count.value / window.value * 24, count.evidence, note)

    @property
    def downs(self) -> Fact[int]:
        """How often its link went down since the boot."""
        layer = self.link_layer
        if isinstance(layer, Unread):
            return layer
        if layer.value == INFINIBAND:
            return self._counter("link_downed")
        if layer.value != ETHERNET:  # EFA: the link is the provider's
            return Unread("denied", f"a link of kind {layer.value} shows no such count", layer.evidence)
        netdev = self.netdev
        if isinstance(netdev, Unread):
            return netdev
        interface = self._around.net.record(netdev.value)
        return mapped(asked(interface).text("carrier_down_count", r"[0-9]{1,19}", "a count"), int)


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
