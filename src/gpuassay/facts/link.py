"""One port of an RDMA device: its link, its errors, its partitions, its adapter."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from gpuassay.facts import host
from gpuassay.facts.lldp import neighbours
from gpuassay.facts.nccl import Settings
from gpuassay.facts.record import Record, mapped
from gpuassay.facts.source import document
from gpuassay.facts.text import pci_address
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

ETHERNET: Final = "Ethernet"
INFINIBAND: Final = "InfiniBand"
GUID: Final = r"([0-9a-f]{4}:){3}[0-9a-f]{4}"
_UP = ("LinkUp", "<unknown>")  # a driver that tells no physical state still tells the logical one
_PERMISSIVE_LID = 0xFFFF  # InfiniBand Architecture Specification, 4.1.3: none was assigned
_CAUSES = {
    "Polling": "it looks for a partner: cable, transceiver or the switch's port",
    "Disabled": "it is switched off on this side",
    "PortConfigurationTraining": "it trains and does not get further: cable or transceiver",
    "LinkErrorRecovery": "it recovers from errors: cable or transceiver",
    "INIT": "the link is up, and no subnet manager has set the port up",
    "ARMED": "a subnet manager has begun to set the port up and not finished",
}
_SHORTEST_WINDOW = 72.0  # hours
_FULL, _PARTITION = 0x8000, 0x7FFF  # of a partition key: membership, and which


class Around:
    """What a node says beside its RDMA devices that its ports are judged by."""

    def __init__(self, node: str, evidence: Evidence) -> None:
        """Look at its interfaces, its uptime, and the settings of NCCL."""
        self.node = node
        self.net = document(evidence, "net", missing="not_found")
        self.dcb = document(evidence, "dcb", missing="not_found")
        self.settings = Settings(evidence)
        self.neighbours = neighbours(evidence)
        self._evidence = evidence

    @cached_property
    def window_hours(self) -> Fact[float]:
        """The time over which counters are averaged: since the boot, and three days at least.

        Links go up and down a few times while a node boots; soon after it, these would be all there is.
        """
        return mapped(host.uptime_hours(self._evidence), lambda hours: max(hours, _SHORTEST_WINDOW))


class Link:
    """What a port shows of itself, whatever its kind."""

    models: tuple[str, ...] = ()

    def __init__(self, around: Around, place: tuple[str, str], device: Record, entry: Record) -> None:
        """``place`` is device and number; ``device`` and ``entry`` are what sysfs says of it and the port."""
        self.node = around.node
        self.device, self.number = place
        self._around = around
        self._of_device = device
        self._entry = entry

    @property
    def name(self) -> str:
        """Device and port, e.g. ``mlx5_0/1``."""
        return f"{self.device}/{self.number}"

    @property
    def where(self) -> str:
        """Its place, e.g. ``gpu017/mlx5_0/1``."""
        return f"{self.node}/{self.name}"

    @property
    def rail(self) -> Mapping[str, str]:
        """What it is compared with on other nodes: the port of the same name."""
        return {"port": self.name}

    @cached_property
    def link_layer(self) -> Fact[str]:
        """``InfiniBand``, ``Ethernet``, or what else the kernel says."""
        return self._entry.text("link_layer", r"[A-Za-z]{1,32}", "a link layer")

    @cached_property
    def state(self) -> Fact[str]:
        """The logical state, e.g. ``ACTIVE``."""
        fact = self._entry.text("state", r"[0-9]: [A-Z_ ]{2,24}", "a port state")
        return mapped(fact, lambda text: text.partition(": ")[2])

    @cached_property
    def link(self) -> Fact[str]:
        """``ACTIVE`` where it carries traffic, else its states, e.g. ``DOWN, Polling``; the note says why."""
        state = self.state
        physical = mapped(
            self._entry.text("phys_state", r"[0-9]: [A-Za-z<> ]{2,28}", "a physical state"),
            lambda text: text.partition(": ")[2],
        )
        if isinstance(state, Unread):
            return state
        if isinstance(physical, Unread):
            return physical
        if state.value != "ACTIVE" or physical.value not in _UP:
            note = _CAUSES.get(physical.value) or _CAUSES.get(state.value, "")
            return Read(f"{state.value}, {physical.value}", state.evidence, note)
        lid = self._lid
        if lid is not None and not 0 < lid < _PERMISSIVE_LID and self.is_infiniband:
            return Read(f"ACTIVE, LID {lid}", state.evidence, "no subnet manager has given it an address")
        return Read("ACTIVE", state.evidence)

    @property
    def connected(self) -> bool:
        """Whether it surely carries traffic."""
        link = self.link
        return isinstance(link, Read) and link.value == "ACTIVE"

    @property
    def is_infiniband(self) -> bool:
        """Whether its link is surely InfiniBand."""
        layer = self.link_layer
        return isinstance(layer, Read) and layer.value == INFINIBAND

    @property
    def is_virtual(self) -> bool:
        """Whether its adapter is surely a virtual function of another."""
        return self._of_device.flag("virtual_function") == Read(value=True, evidence=self._of_device.evidence)

    @property
    def _lid(self) -> int | None:
        lid = self._entry.text("lid", r"0x[0-9a-f]{1,8}", "a LID")
        return int(lid.value, 16) if isinstance(lid, Read) else None

    @property
    def speed(self) -> Fact[str]:
        """Rate, lanes and kind of its link, e.g. ``400 Gb/s 4X NDR InfiniBand``."""
        rate, layer = self.line_rate_gbps, self.link_layer
        if isinstance(rate, Unread):
            return rate
        if isinstance(layer, Unread):
            return layer
        words = (f"{rate.value:g} Gb/s", rate.note, layer.value)
        return Read(" ".join(filter(None, words)), rate.evidence)

    @cached_property
    def line_rate_gbps(self) -> Fact[float]:
        """The rate of the link in Gbit/s; the note has its lanes, e.g. ``4X NDR``."""
        fact = self._entry.text("rate", r"[0-9]{1,5}(\.[0-9]{1,3})? Gb/sec( \(.{1,24}\))?", "a rate")
        if isinstance(fact, Unread):
            return fact
        number, _, lanes = fact.value.partition(" Gb/sec")
        return Read(float(number), fact.evidence, lanes.strip(" ()"))

    # --- errors ----------------------------------------------------------------------------------

    @property
    def bit_error_rate(self) -> Fact[float]:
        """Symbol errors by bits that its rate makes in the time since the boot: at least so many were bad."""
        return per_bit(self.symbol_errors, self.line_rate_gbps, self._around.window_hours)

    @property
    def symbol_errors(self) -> Fact[int]:
        """How many symbols its link's own correction could not repair."""
        return self._counter("symbol_error")

    def _counter(self, name: str) -> Fact[int]:
        counters = asked(self._entry).record("counters")
        fact = counters.text(name, r"[0-9]{1,20}|N/A \(no PMA\)", "a count")
        if isinstance(fact, Read) and fact.value.startswith("N/A"):
            return Unread("denied", f"{name} is {fact.value}: this driver shows no counters", fact.evidence)
        return mapped(fact, int)

    # --- partitions and identity -----------------------------------------------------------------

    @property
    def partitions(self) -> Fact[str]:
        """The partitions it is a member of, e.g. ``0x7fff limited, 0x8005 full``."""
        keys = self._pkeys
        return mapped(
            keys, lambda found: ", ".join(f"{key:#06x} {_membership(key)}" for key in found) or "none"
        )

    @property
    def default_partition(self) -> Fact[str]:
        """Its membership of the default partition: ``full``, ``limited`` or ``none``."""
        keys = self._pkeys
        if isinstance(keys, Unread):
            return keys
        held = [_membership(key) for key in keys.value if key & _PARTITION == _PARTITION]
        return Read("full" if "full" in held else held[0] if held else "none", keys.evidence)

    @property
    def _pkeys(self) -> Fact[list[int]]:
        table = asked(self._entry).record("pkeys")
        if isinstance(table.values, Unread):
            return table.values
        keys = []
        for slot in table.values:
            key = table.text(slot, r"0x[0-9a-f]{4}", "a partition key")
            if isinstance(key, Unread):
                return key
            keys.append(int(key.value, 16))
        return Read(sorted({*keys} - {0}), table.evidence)

    @property
    def guid(self) -> Fact[str]:
        """The GUID of its adapter."""
        return self._of_device.text("node_guid", GUID, "a GUID")

    @property
    def bus_address(self) -> str:
        """Its PCI address, empty where it is not known."""
        address = self._of_device.text("pci")
        return pci_address(address.value) or "" if isinstance(address, Read) else ""


def per_bit(errors: Fact[int], rate: Fact[float], hours: Fact[float]) -> Fact[float]:
    """Tell which share of the bits that a rate of Gbit/s makes in these hours was bad."""
    if isinstance(errors, Unread):
        return errors
    if isinstance(rate, Unread):
        return rate
    if isinstance(hours, Unread):
        return hours
    bits = rate.value * 1e9 * hours.value * 3600
    if not bits:
        return Unread("garbled", f"'rate' is {rate.value}, not a rate", rate.evidence)
    note = f"{errors.value} symbol errors in {hours.value / 24:.1f} days"
    return Read(errors.value / bits, errors.evidence, f"{note}: {errors.note}" if errors.note else note)


def asked(record: Record) -> Record:
    """Take a key that is not there for one that an older probe did not ask for."""
    return Record(record.values, record.evidence, "not_asked")


def _membership(key: int) -> str:
    return "full" if key & _FULL else "limited"


def twins(ports: Iterable[Link]) -> dict[str, list[str]]:
    """List, by GUID, the adapters that claim it: each should be one."""
    owners: dict[str, list[str]] = {}
    for port in ports:
        guid = port.guid
        if isinstance(guid, Read):
            adapter = f"{port.node}/{port.device}"
            listed = owners.setdefault(guid.value, [])
            if adapter not in listed:
                listed.append(adapter)
    return owners
