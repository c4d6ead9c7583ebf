"""The planes of a fabric: the ports by which each GPU reaches as many separate networks at once.

A SuperNIC can be split so that each of its ports, or of its functions, is one plane. Where virtual
functions carry the traffic, the physical ones above them, or one that stands for all planes, may be up
and have no address that another node can reach.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from gpuassay.facts.nccl import Names
from gpuassay.facts.record import mapped
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from gpuassay.facts.adapters import Adapters
    from gpuassay.facts.fabric import Fabric
    from gpuassay.facts.nccl import Settings
    from gpuassay.facts.rdma import Port
    from gpuassay.judge.fact import Fact


class Seat(NamedTuple):
    """Where a plane sits on its card: the function, and the port of it."""

    function: str
    port: str


class Planes:
    """The planes of a node's compute fabric."""

    def __init__(self, fabric: Fabric, adapters: Adapters, gpus: Fact[int]) -> None:
        """Take the fabric, all RDMA devices of the node, and how many GPUs its bus shows."""
        self._fabric = fabric
        self._adapters = adapters
        self._gpus = gpus

    @property
    def per_gpu(self) -> Fact[int]:
        """How many ports of the fabric that carry traffic each GPU has; the note has both counts."""
        ports, gpus = self._fabric.connected_count, self._gpus
        if isinstance(ports, Unread):
            return ports
        if isinstance(gpus, Unread):
            return gpus
        if not gpus.value:
            return Unread("not_found", "the bus shows no GPU", gpus.evidence)
        note = f"{ports.value} ports carry traffic, for {gpus.value} GPUs"
        return Read(ports.value // gpus.value, ports.evidence, note)

    @property
    def gbps_per_gpu(self) -> Fact[float]:
        """What its ports that carry traffic give each GPU together, in Gbit/s."""
        count = self.per_gpu
        if isinstance(count, Unread):
            return count
        rates = [port.line_rate_gbps for port in self._fabric.connected]
        unread = next((rate for rate in rates if isinstance(rate, Unread)), None)
        if unread:
            return unread
        total = sum(rate.value for rate in rates if isinstance(rate, Read))
        return mapped(self._gpus, lambda gpus: total / gpus)

    @property
    def missing(self) -> Fact[int]:
        """How many planes are up on most cards of this node and not on one of them; the note names them."""
        ports = self._fabric.connected_count
        if isinstance(ports, Unread):
            return ports
        up: dict[str, set[Seat]] = {}
        for port in self._fabric.ports:
            up.setdefault(_card(port), set())
            if port.connected:
                up[_card(port)].add(_seat(port))
        counts = Counter(seat for seats in up.values() for seat in seats)
        usual = {seat for seat, count in counts.items() if 2 * count > len(up)}
        lost = [(card, seat) for card, seats in up.items() for seat in sorted(usual - seats)]
        return Read(len(lost), ports.evidence, ", ".join(self._named(*one) for one in lost))

    def _named(self, card: str, seat: Seat) -> str:
        names = (one.name for one in self._adapters.ports if _card(one) == card and _seat(one) == seat)
        return next(names, f"{card}: function {seat.function}, port {seat.port}")

    @property
    def aggregates(self) -> Fact[int]:
        """How many devices jobs would take though they stand for others and have no address of their own.

        A list of adapters that leaves them out, or a network plugin, keeps jobs from taking them.
        """
        found = self._without_address
        if isinstance(found, Unread) or not found.value:
            return found if isinstance(found, Unread) else Read(0, found.evidence)
        plugins, settings = self._settings.plugins, self._settings.all
        for doubt in (plugins, settings):
            if isinstance(doubt, Unread):
                return doubt
        hca = self._settings.get("NCCL_IB_HCA")
        listed = Names.parse(hca.value) if hca else None
        taken = [name for name in found.value if listed is None or listed.takes(name)]
        named = ", ".join(found.value)
        if isinstance(plugins, Read) and plugins.value:
            return Read(0, found.evidence, f"{named}: without a usable address; jobs have {plugins.value[0]}")
        return Read(len(taken), found.evidence, f"without a usable address: {named}")

    @property
    def _settings(self) -> Settings:
        return self._adapters.around.settings

    @cached_property
    def _without_address(self) -> Fact[list[str]]:
        """Name the devices that are up without a usable address while parts of theirs have one."""
        usable: dict[str, bool] = {}
        ports = [port for port in self._adapters.ports if not port.is_infiniband and port.connected]
        evidence = ""
        for port in ports:
            routable = port.routable_gids
            if isinstance(routable, Unread):
                return routable
            evidence = routable.evidence
            usable[port.device] = usable.get(port.device, False) or routable.value > 0
        cards = {_card(port) for port in ports if usable[port.device]}
        parts = any(port.is_virtual and usable[port.device] for port in ports)
        names = (
            port.device
            for port in ports
            if not usable[port.device] and not port.is_virtual and (parts or _card(port) in cards)
        )
        return Read(list(dict.fromkeys(names)), evidence)


def _card(port: Port) -> str:
    return port.bus_address.rpartition(".")[0] or port.device


def _seat(port: Port) -> Seat:
    return Seat(port.bus_address.rpartition(".")[2], port.number)
