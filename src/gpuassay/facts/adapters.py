"""The RDMA devices of a node, and which of their ports are its compute fabric."""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts.link import Around
from gpuassay.facts.rdma import Port
from gpuassay.facts.source import document
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import natural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuassay.facts.record import Record
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

_DEVICE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NUMBER = re.compile(r"[1-9][0-9]{0,2}")


class Adapters:
    """The RDMA devices of a node."""

    def __init__(self, node: str, evidence: Evidence) -> None:
        """Look at what the probe read from ``/sys/class/infiniband``."""
        self.around = Around(node, evidence)
        self._devices = document(evidence, "infiniband", missing="not_found")

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
                    Port(self.around, (name, number), device, entry)
                    if known
                    else ports.garbled(f"a port of {name}", number, "a number")
                )

    @cached_property
    def bridges(self) -> frozenset[str]:
        """The devices that serve the NVSwitches of an HGX board: InfiniBand, and no fabric of any job.

        A card has functions with the mark and functions without; one that is marked speaks for its card.
        """
        cards = {
            _card(device)
            for _, device in self._devices.items()
            if isinstance(mark := device.flag("manages_nvswitch"), Read) and mark.value
        } - {""}
        return frozenset(name for name, device in self._devices.items() if _card(device) in cards)


def _card(device: Record) -> str:
    address = device.text("pci")
    return address.value.rpartition(".")[0] if isinstance(address, Read) else ""
