"""How GPUs and adapters reach memory and each other: the IOMMU's mode, and bridges that redirect (ACS)."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpuassay.facts.source import document, take
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import natural

if TYPE_CHECKING:
    from gpuassay.facts.pci import Bus
    from gpuassay.facts.record import Record
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

# Documentation/ABI/testing/sysfs-kernel-iommu_groups. A group that is held for user space (VFIO) or blocked
# is translated for somebody else, and no GPU of this host.
_MODES = {"identity": "passthrough", "DMA": "translated", "DMA-FQ": "translated"}
_ELSEWHERE = frozenset({"unmanaged", "blocked", "SVA", "platform"})
_SAID = re.compile(rb"iommu: Default domain type: (Translated|Passthrough)")
# The kernel says its default also where no IOMMU is on; these lines come from one that is.
_ON = re.compile(
    rb"AMD-Vi: |DMAR: IOMMU enabled|DMAR: Intel\(R\) Virtualization|arm-smmu-v3 |to iommu group "
)
_IN_LOG = {b"Translated": "translated", b"Passthrough": "passthrough"}
_TOLD = 8

# ACS control register (PCI Express Base Specification, 7.7.11.3): requests redirected, completions
# redirected, upstream forwarding. Source validation and translation blocking alone redirect nothing.
_REDIRECTS = 0x0004 | 0x0008 | 0x0010
_CONTROL = r"0x[0-9a-f]{4}|none"
_BRIDGE = "0x0604"

# ConnectX-8 has a PCI switch of its own, whose ports need redirection for its direct path to the GPU (NVIDIA,
# Grace Blackwell with ConnectX-8, GPUDirect RDMA guide).
_OWN_SWITCH = "0x15b3"


class Dma:
    """The paths of direct memory access on one host."""

    def __init__(self, evidence: Evidence, bus: Bus) -> None:
        """Take the evidence of a node, and its PCI bus."""
        self._evidence = evidence
        self._bus = bus

    @property
    def _arm(self) -> bool:
        machine = document(self._evidence, "host").text("machine")
        return isinstance(machine, Read) and machine.value == "aarch64"

    @cached_property
    def _endpoints(self) -> Fact[frozenset[str]]:
        """The addresses of GPUs and RDMA adapters that this host itself uses."""
        count = self._bus.count
        if isinstance(count, Unread):
            return count
        adapters = document(self._evidence, "infiniband", missing="not_found")
        if adapters.unread:
            return adapters.unread
        addresses = {gpu.where for gpu in self._bus.gpus}
        if not addresses:
            return Unread("not_found", "no GPU is on the bus", count.evidence)
        for adapter in dict(adapters.items()).values():
            address = adapter.text("pci")
            if isinstance(address, Read):
                addresses.add(address.value)
        return Read(frozenset(addresses), count.evidence)

    # --- IOMMU -----------------------------------------------------------------------------------

    @cached_property
    def iommu(self) -> Fact[str]:
        """``off``, ``passthrough`` or ``translated``; translated by an Arm SMMU is said apart."""
        mode = self._from_groups()
        groups_unread = document(self._evidence, "iommu").unread is not None
        if isinstance(mode, Unread) and (groups_unread or isinstance(self._endpoints, Read)):
            mode = self._from_log(mode)
        if isinstance(mode, Read) and mode.value == "translated" and self._arm:
            return Read("translated by an Arm SMMU", mode.evidence, mode.note)
        return mode

    @property
    def iommu_bypassed(self) -> Fact[bool]:
        """Whether nothing that GPUs and adapters send is translated."""
        mode = self.iommu
        if isinstance(mode, Unread):
            return mode
        return Read(mode.value in ("off", "passthrough"), mode.evidence, mode.note)

    def _from_groups(self) -> Fact[str]:
        groups, endpoints = document(self._evidence, "iommu"), self._endpoints
        if groups.unread:
            return groups.unread
        if isinstance(endpoints, Unread):
            return endpoints
        found: dict[str, list[str]] = {}
        for group in dict(groups.items()).values():
            inside = _devices(group)
            if isinstance(inside, Unread):
                return inside
            ours = sorted(endpoints.value & inside.value, key=natural)
            word = group.text("type", r"[\w-]{1,16}") if ours else None
            if isinstance(word, Unread):
                return word
            if word:
                found.setdefault(word.value, []).extend(ours)
        unknown = found.keys() - _MODES.keys() - _ELSEWHERE
        if unknown:
            return Unread("garbled", f"an IOMMU group is of type {min(unknown)}", groups.evidence)
        return self._mode(found, groups.evidence)

    def _mode(self, found: dict[str, list[str]], evidence: str) -> Fact[str]:
        translated = {word: places for word, places in found.items() if _MODES.get(word) == "translated"}
        if not translated:
            return Read("passthrough" if "identity" in found else "off", evidence, self._said)
        told = "; ".join(
            f"{word} for {len(places)}: {', '.join(places[:_TOLD])}{' …' if len(places) > _TOLD else ''}"
            for word, places in translated.items()
        )
        return Read("translated", evidence, f"IOMMU groups of GPUs and adapters: {told}; {self._said}")

    @property
    def _said(self) -> str:
        """The kernel's command line, as far as it is about the IOMMU."""
        words = document(self._evidence, "cmdline").look("words")
        listed = words.value if isinstance(words, Read) and isinstance(words.value, list) else []
        ours = [word for word in listed if isinstance(word, str) and "iommu" in word]
        return f"kernel command line: {' '.join(ours) or 'nothing of the IOMMU'}"

    def _from_log(self, lack: Unread) -> Fact[str]:
        """Take the kernel's own word from the boot, where the groups do not tell; else the reason stays."""
        log = take(self._evidence, "kmsg")
        said = _SAID.search(log.value.out) if isinstance(log, Read) else None
        if not isinstance(log, Read) or said is None or not _ON.search(log.value.out):
            return lack
        return Read(_IN_LOG[said[1]], log.evidence, f"the kernel log says {said[0].decode()}; {self._said}")

    # --- ACS -------------------------------------------------------------------------------------

    @property
    def acs_redirecting(self) -> Fact[int]:
        """How many ports of PCI switches above GPUs and adapters send traffic between them upwards.

        Only ports of switches count: below a root port of its own, a device has no neighbour to talk to
        without the processor anyway.
        """
        ports = self._switch_ports()
        if isinstance(ports, Unread):
            return ports
        controls = document(self._evidence, "acs", missing="not_found")
        if controls.unread:
            return controls.unread
        bad = []
        for port in sorted(ports.value, key=natural):
            control = controls.record(port).text("control", _CONTROL)
            if isinstance(control, Unread):
                return control
            if control.value != "none" and int(control.value, 16) & _REDIRECTS:
                bad.append(f"{port} ({control.value})")
        note = f"of {len(ports.value)} switch ports above GPUs and adapters"
        told = f": {', '.join(bad[:_TOLD])}{' …' if len(bad) > _TOLD else ''}" if bad else ""
        return Read(len(bad), controls.evidence, note + told)

    def _switch_ports(self) -> Fact[set[str]]:
        """Find the bridges above GPUs and adapters that have a bridge above them: those are in a switch."""
        endpoints = self._endpoints
        if isinstance(endpoints, Unread):
            return endpoints
        pci, ports, seen = self._bus.devices, set(), set()
        for endpoint in endpoints.value:
            place = _text(pci.record(endpoint), "parent")
            while place and place not in seen:
                seen.add(place)
                entry = pci.record(place)
                above = _text(entry, "parent")
                bridge = _text(entry, "class").startswith(_BRIDGE)
                if above and bridge and _text(entry, "vendor") != _OWN_SWITCH:
                    ports.add(place)
                place = above
        return Read(ports, pci.evidence)


def _devices(group: Record) -> Fact[frozenset[str]]:
    devices: Fact[Any] = group.look("devices")
    if isinstance(devices, Unread):
        return devices
    if not isinstance(devices.value, list) or not all(isinstance(one, str) for one in devices.value):
        return group.garbled("devices", devices.value, "a list of addresses")
    return Read(frozenset(devices.value), devices.evidence)


def _text(entry: Record, key: str) -> str:
    fact = entry.text(key)
    return fact.value if isinstance(fact, Read) else ""
