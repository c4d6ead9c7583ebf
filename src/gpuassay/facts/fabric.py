"""The compute fabric of a node: its ports together, what jobs are told of it, and GPUDirect."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from gpuassay.facts import gpudirect
from gpuassay.facts.link import ETHERNET, INFINIBAND
from gpuassay.facts.nccl import Names, findings
from gpuassay.facts.record import mapped
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import natural

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from gpuassay.facts.adapters import Adapters
    from gpuassay.facts.gid import Gid
    from gpuassay.facts.nccl import Settings
    from gpuassay.facts.rdma import Port
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

T = TypeVar("T")


class Fabric:
    """The ports that carry traffic between nodes: the declared ones; undeclared, those that seem to.

    Undeclared, every port of InfiniBand is one, also while it is down, but for the bridges to NVSwitches;
    of others each that is active: an unused port of a storage card is no fault.
    """

    def __init__(self, evidence: Evidence, adapters: Adapters, declared: Collection[str]) -> None:
        """Take the ports that are declared by name, if any."""
        self._evidence = evidence
        self._adapters = adapters
        self._declared = frozenset(declared)

    # --- ports -----------------------------------------------------------------------------------

    @cached_property
    def ports(self) -> tuple[Port, ...]:
        """Its ports, of whatever kind. Only what was clearly read keeps a port out."""
        return tuple(port for port in self._adapters.ports if self._has(port))

    def _has(self, port: Port) -> bool:
        if self._declared:
            return bool(self._declared & {port.name, port.device})
        if port.is_infiniband:
            return port.device not in self._adapters.bridges
        return _may_be(port.state, "ACTIVE")

    @cached_property
    def roce_ports(self) -> tuple[Port, ...]:
        """Those on Ethernet; one whose link layer is unread is among them."""
        return tuple(port for port in self.ports if _may_be(port.link_layer, ETHERNET))

    @cached_property
    def infiniband_ports(self) -> tuple[Port, ...]:
        """Those of InfiniBand; one whose link layer is unread is among them."""
        return tuple(port for port in self.ports if _may_be(port.link_layer, INFINIBAND))

    @cached_property
    def connected(self) -> tuple[Port, ...]:
        """Those that surely carry traffic."""
        return tuple(port for port in self.ports if port.connected)

    @cached_property
    def connected_count(self) -> Fact[int]:
        """How many surely carry traffic; the note names the others."""
        unread = self._adapters.unread
        if unread:
            return unread
        if not self.ports and not self._declared:
            return self._no_ports
        links = [port.link for port in self.ports]
        doubt = next((link for link in links if isinstance(link, Unread)), None)
        if doubt:
            return doubt
        others = [port.name for port in self.ports if not port.connected]
        note = f"without a link: {', '.join(others)}" if others else ""
        return Read(len(self.connected), links[0].evidence if links else "", note)

    @property
    def slowest_gbps(self) -> Fact[float]:
        """The lowest rate of its connected ports, 0 where there are none; the note names the slow ones."""
        speeds = self._of_connected(lambda port: port.line_rate_gbps)
        if isinstance(speeds, Unread):
            return speeds
        rates = {name: rate.value for name, rate in speeds.value.items()}
        slowest, fastest = min(rates.values(), default=0.0), max(rates.values(), default=0.0)
        slow = [name for name, rate in rates.items() if rate == slowest]
        return Read(slowest, speeds.evidence, f"at that rate: {', '.join(slow)}" if slowest < fastest else "")

    @property
    def speeds(self) -> Fact[str]:
        """Its connected ports by speed, e.g. ``8 x 400 Gb/s 4X NDR InfiniBand``."""
        speeds = self._of_connected(lambda port: port.speed)
        if isinstance(speeds, Unread):
            return speeds
        counts = Counter(speed.value for speed in speeds.value.values())
        listed = sorted(counts.items(), key=lambda one: natural(one[0]))
        said = ", ".join(f"{count} x {speed}" for speed, count in listed)
        return Read(said or "none", speeds.evidence)

    def _of_connected(self, ask: Callable[[Port], Fact[T]]) -> Fact[Mapping[str, Read[T]]]:
        """Ask each connected port, by name; unread where it is not known which ports there are."""
        count = self.connected_count
        if isinstance(count, Unread):
            return count
        found = {}
        for port in self.connected:
            answer = ask(port)
            if isinstance(answer, Unread):
                return answer
            found[port.name] = answer
        return Read(found, count.evidence)

    @property
    def names_by_slot(self) -> Fact[str]:
        """The devices of its ports in the order of their PCI addresses."""
        if not self.ports:
            return self._no_ports
        nowhere = [port.name for port in self.ports if not port.bus_address]
        if nowhere:
            return Unread("not_found", f"{nowhere[0]} has no PCI address")
        ordered = sorted(self.ports, key=lambda port: (port.bus_address, natural(port.name)))
        return Read(", ".join(dict.fromkeys(port.device for port in ordered)))

    @property
    def _no_ports(self) -> Unread:
        return self._adapters.unread or Unread("not_found", "no port of the compute fabric is there")

    @property
    def gid_families(self) -> Fact[str]:
        """Of which families its RoCE ports' routable addresses are: ``ipv4``, ``ipv6``, ``ipv4 and ipv6``."""
        tables = self._gid_tables
        if isinstance(tables, Unread):
            return tables
        families = {"ipv4" if gid.is_ipv4 else "ipv6" for gids in tables.value.values() for gid in gids}
        return Read(" and ".join(sorted(families)) or "none", tables.evidence)

    @property
    def gid_indices(self) -> Fact[str]:
        """At which index its ports have their first routable address, e.g. ``3``; the note tells by port."""
        tables = self._gid_tables
        if isinstance(tables, Unread):
            return tables
        first = {name: str(min(gid.index for gid in gids)) for name, gids in tables.value.items()}
        note = ", ".join(f"{name}: {index}" for name, index in first.items())
        return Read(", ".join(sorted({*first.values()}, key=natural)) or "none", tables.evidence, note)

    @cached_property
    def _gid_tables(self) -> Fact[Mapping[str, list[Gid]]]:
        """The routable addresses of its RoCE ports, by port; one that has none is left out."""
        if not self.roce_ports:
            return self._no_ports
        found = {}
        for port in self.roce_ports:
            gids = port.gids
            if isinstance(gids, Unread):
                return gids
            found[port.name] = [gid for gid in gids.value if gid.routable]
        return Read({name: gids for name, gids in found.items() if gids}, gids.evidence)

    # --- settings --------------------------------------------------------------------------------

    @property
    def _settings(self) -> Settings:
        return self._adapters.around.settings

    @property
    def crippling(self) -> Fact[int]:
        """How many settings take the fabric, or a part of it, from every job; the note names them."""
        return self._counted(
            [*self._graves(), *self._left_out("NCCL_IB_HCA"), *self._no_interface("NCCL_SOCKET_IFNAME")]
        )

    @property
    def queue_pairs(self) -> Fact[int]:
        """How many queue pairs NCCL gives a connection here."""
        return self._settings.queue_pairs

    @property
    def left_over(self) -> Fact[int]:
        """How many settings are for debugging, pin what is tuned, or mean more than they say."""
        there = self._settings.topology_file
        if isinstance(there, Unread):
            return there
        hca = self._settings.get("NCCL_IB_HCA")
        traps = Names.parse(hca.value).traps(self._devices) if hca else []
        stale = [] if there.value else [f"{self._settings.get('NCCL_TOPO_FILE')}: there is no such file"]
        return self._counted([*self._findings(grave=False), *(f"{hca}: {trap}" for trap in traps), *stale])

    @property
    def settings_text(self) -> Fact[str]:
        """All settings as one text, to compare nodes by; where they come from does not count."""
        return mapped(
            self._settings.all,
            lambda found: (
                " ".join(f"{one.name}={one.value.strip()}" for _, one in sorted(found.items())) or "none"
            ),
        )

    @property
    def plugins_text(self) -> Fact[str]:
        """The network plugins that are found, as one text."""
        return mapped(self._settings.plugins, lambda paths: ", ".join(paths) or "none")

    def _counted(self, said: list[str]) -> Fact[int]:
        settings = self._settings.all
        return (
            settings if isinstance(settings, Unread) else Read(len(said), settings.evidence, "; ".join(said))
        )

    def _findings(self, *, grave: bool) -> list[str]:
        settings = self._settings.all
        return [] if isinstance(settings, Unread) else findings(settings.value.values(), grave=grave)

    def _graves(self) -> Iterable[str]:
        return self._findings(grave=True)

    @property
    def _devices(self) -> list[str]:
        return list(dict.fromkeys(port.device for port in self._adapters.ports))

    def _left_out(self, name: str) -> list[str]:
        """Name declared ports that a list of adapters leaves out; undeclared, the list may know better."""
        setting = self._settings.get(name)
        if setting is None or not self._declared:
            return []
        listed = Names.parse(setting.value)
        lost = dict.fromkeys(port.device for port in self.ports if not listed.takes(port.device))
        return [f"{setting}: leaves out {', '.join(lost)}"] if lost else []

    def _no_interface(self, name: str) -> list[str]:
        setting = self._settings.get(name)
        net = self._adapters.around.net.values
        if setting is None or isinstance(net, Unread):
            return []
        listed = Names.parse(setting.value)
        return [] if any(listed.takes(one) for one in net) else [f"{setting}: no interface of this node"]

    # --- GPUDirect -------------------------------------------------------------------------------

    @property
    def gpudirect(self) -> Fact[str]:
        """By what NICs reach the memory of NVIDIA's GPUs: ``peermem``, ``dma_buf`` or ``none``."""
        return gpudirect.way(self._evidence)

    @property
    def gdrcopy(self) -> Fact[bool]:
        """Whether the module of GDRCopy is loaded."""
        return gpudirect.gdrcopy(self._evidence)


def _may_be(fact: Fact[str], value: str) -> bool:
    return isinstance(fact, Unread) or fact.value == value
