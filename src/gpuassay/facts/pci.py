"""What the PCI bus shows: which functions are GPUs, and what their links are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from gpuassay.facts.record import Record, mapped
from gpuassay.facts.source import document
from gpuassay.facts.text import brief, pci_address
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

NVIDIA: Final = "10de"
AMD: Final = "1002"

# PCI classes (base and sub-class) of what computes. NVIDIA: VGA or 3D controller. AMD: processing accelerator
# (MI300 and later) or "other display controller" (MI100, MI200); its VGA controllers are graphics cards and
# those of server boards. NVSwitches are bridges (0680), audio is 0403, USB is 0c03: none of them is a GPU.
_GPU_CLASSES = {NVIDIA: ("0300", "0302"), AMD: ("1200", "0380")}
_SWITCH_CLASS = "0680"
_DRIVERS = {"nvidia": NVIDIA, "amdgpu": AMD}

# A function that no longer answers reads as all ones; 63 is what that makes of the width of its link.
_ALL_ONES = {"vendor": "0xffff", "revision": "0xff", "current_link_width": "63"}

_WIDTHS = frozenset({1, 2, 4, 8, 12, 16, 32})  # PCI Express Base Specification, Link Width
_NO_LINK = frozenset({0, 63, 255})  # link down; all ones; the kernel's "unknown"
_GENERATIONS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}  # GT/s, the kernel's spelling
# "unknown" is a function without power management: always on.
_AWAKE = frozenset({"D0", "unknown"})


@dataclass(frozen=True, slots=True)
class Function:
    """A GPU's function on the bus; of one that only the driver shows, ``where`` is empty, the rest unread."""

    where: str
    vendor: str
    entry: Record
    bus: Record

    @property
    def address(self) -> Fact[str]:
        """Its PCI address, e.g. ``0000:5d:00.0``."""
        return self.entry.unread or Read(self.where, self.entry.evidence)

    @property
    def fallen(self) -> Unread | None:
        """Why it answers no more: its registers read as all ones. None if it answers."""
        for key, ones in _ALL_ONES.items():
            fact = self.entry.text(key)
            if isinstance(fact, Read) and fact.value.lower() == ones:
                return Unread("failed", f"fallen off the bus: its {key} reads as all ones", fact.evidence)
        return None

    @property
    def pci_id(self) -> str:
        """The product, e.g. ``10de:2901``; empty if unread."""
        device = _hex(self.entry, "device", 4)
        return f"{self.vendor}:{device.value}" if isinstance(device, Read) and device.value != "ffff" else ""

    @property
    def bound(self) -> str:
        """Which kernel driver holds it, in words."""
        driver = self.entry.text("driver")
        return f"bound to {driver.value}" if isinstance(driver, Read) else "bound to no driver"

    def width(self) -> Fact[int]:
        """Read how many lanes the link has now. They stay in every power saving mode short of sleep."""
        return self._asleep() or _width(self.entry, "current_link_width")

    def width_max(self) -> Fact[int]:
        """Read how many lanes the GPU can use; the note says if the port above it has fewer.

        The port's own figure does not count: in a virtual machine it is made up (QEMU's says 1 or 32), and
        a slot wired or split to half is what a buyer wants to see.
        """
        own = _width(self.entry, "max_link_width")
        parent = self.entry.text("parent")
        if isinstance(own, Unread) or isinstance(parent, Unread):
            return own
        port = _width(self.bus.record(parent.value), "max_link_width")
        if isinstance(port, Unread) or port.value >= own.value:
            return own
        return Read(
            own.value, own.evidence, f"the port above it, {parent.value}, says it has {port.value} lanes"
        )

    def generation(self) -> Fact[int]:
        """Read the generation of the link's speed now; it drops while the GPU is idle."""
        return self._asleep() or self._speed("current_link_speed")

    def generation_max(self) -> Fact[int]:
        """Read the highest generation that the GPU itself can reach."""
        return self._speed("max_link_speed")

    def numa_node(self) -> Fact[int]:
        """Read the NUMA node that it is attached to; -1 where the firmware names none."""
        return numa_node(self.entry)

    def _speed(self, key: str) -> Fact[int]:
        speed = self.fallen or self.entry.text(key, r"\d+\.\d GT/s(?: PCIe)?")
        if isinstance(speed, Unread):
            return speed
        generation = _GENERATIONS.get(speed.value.split()[0])
        if generation is None:
            return self.entry.garbled(key, speed.value, "a speed of PCI Express")
        return Read(generation, speed.evidence)

    def _asleep(self) -> Unread | None:
        """Say that the link cannot be read because the function sleeps; kernels before 5.11 do not tell."""
        state = self.entry.text("power_state", r"\w{1,12}")
        if isinstance(state, Unread):
            return None if state.kind == "not_found" else state
        if state.value in _AWAKE:
            return None
        return Unread(
            "failed", f"it was in power state {state.value}, in which its link may be down", state.evidence
        )


class Bus:
    """The PCI bus of a node."""

    def __init__(self, evidence: Evidence) -> None:
        """Look at what the probe read from ``/sys/bus/pci/devices``."""
        self._devices = document(evidence, "pci", missing="not_found")

    @property
    def evidence(self) -> str:
        """The reference of what was read."""
        return self._devices.evidence

    @property
    def devices(self) -> Record:
        """All functions as they were read, by address."""
        return self._devices

    @cached_property
    def gpus(self) -> tuple[Function, ...]:
        """The functions that are surely GPUs, by address."""
        return tuple(found for found in self._classified if isinstance(found, Function))

    @cached_property
    def count(self) -> Fact[int]:
        """How many GPUs the bus shows, fallen ones too; unread if any function cannot be told from a GPU."""
        unread = self._devices.unread or next(
            (one for one in self._classified if isinstance(one, Unread)), None
        )
        return unread or Read(len(self.gpus), self._devices.evidence)

    def is_other(self, address: str) -> bool:
        """Tell whether what is at an address is surely no GPU of ours: a driver may hold displays too."""
        entry = self._devices.record(address)
        vendor = _vendor(entry) if entry.unread is None else entry.unread
        return isinstance(vendor, Read) and not vendor.value

    def pci_id(self, address: str) -> str:
        """Name the product at an address, e.g. ``1002:74a1``; empty if unread."""
        return next((function.pci_id for function in self.gpus if function.where == address), "")

    def function(self, address: str) -> Record:
        """Give all that was read of one function of the bus."""
        return self._devices.record(address)

    def parent(self, address: str) -> str:
        """Name the bridge above a function; empty where there is none, or none was read."""
        above = self.function(address).text("parent")
        return above.value if isinstance(above, Read) else ""

    def of_class(self, beginning: str) -> tuple[str, ...]:
        """List the functions whose PCI class begins so, by address."""
        found = []
        for name, entry in self._devices.items():
            kind = entry.text("class")
            if isinstance(kind, Read) and kind.value.startswith(beginning):
                found.append(name)
        return tuple(sorted(found))

    @cached_property
    def switches(self) -> Fact[bool] | None:
        """Whether it shows an NVSwitch; None if it does not, for not every board has them on its bus."""
        found = (_vendor_and_class(entry) for name, entry in self._devices.items())
        return Read(value=True, evidence=self._devices.evidence) if (NVIDIA, _SWITCH_CLASS) in found else None

    @cached_property
    def _classified(self) -> tuple[Function | Unread, ...]:
        return tuple(found for found in self._classify() if found is not None)

    def _classify(self) -> Iterator[Function | Unread | None]:
        for name, entry in sorted(self._devices.items(), key=itemgetter(0)):
            vendor = _vendor(entry)
            if isinstance(vendor, Unread):
                yield Unread(vendor.kind, f"PCI function {brief(name)}: {vendor.why}", vendor.evidence)
            elif vendor.value:
                yield self._function(name, vendor.value, entry)

    def _function(self, name: str, vendor: str, entry: Record) -> Function | Unread:
        if pci_address(name) != name:
            return Unread("garbled", f"{brief(name)} is no PCI address", self._devices.evidence)
        return Function(name, vendor, entry, self._devices)


def numa_node(entry: Record) -> Fact[int]:
    """Read the NUMA node of a function; -1 where the firmware names none."""
    return mapped(entry.text("numa_node", r"-1|[0-9]{1,4}", "a NUMA node"), int)


def unseen(reason: Unread) -> Function:
    """Stand for the function of a GPU that the bus does not show, or that cannot be told from others."""
    return Function("", "", Record(reason, reason.evidence), Record(reason))


def _vendor(entry: Record) -> Fact[str]:
    """Read whose GPU a function is; empty for a function that is none."""
    vendor = _hex(entry, "vendor", 4)
    if isinstance(vendor, Unread):
        return vendor
    if vendor.value == "ffff":  # only its driver still tells what it was
        driver = entry.text("driver")
        return Read(_DRIVERS.get(driver.value, "") if isinstance(driver, Read) else "", vendor.evidence)
    if vendor.value not in _GPU_CLASSES:
        return Read("", vendor.evidence)
    kind = _hex(entry, "class", 6)
    if isinstance(kind, Unread):
        return kind
    return Read(vendor.value if kind.value.startswith(_GPU_CLASSES[vendor.value]) else "", vendor.evidence)


def _vendor_and_class(entry: Record) -> tuple[str, str]:
    vendor, kind = _hex(entry, "vendor", 4), _hex(entry, "class", 6)
    if isinstance(vendor, Unread) or isinstance(kind, Unread):
        return "", ""
    return vendor.value, kind.value[:4]


def _hex(entry: Record, key: str, digits: int) -> Fact[str]:
    """Read a hexadecimal number as sysfs writes it, ``0x10de``; without the prefix, in small letters."""
    fact = entry.text(key, rf"0x[0-9a-fA-F]{{{digits}}}", f"0x and {digits} hexadecimal digits")
    return fact if isinstance(fact, Unread) else Read(fact.value[2:].lower(), fact.evidence)


def _width(entry: Record, key: str) -> Fact[int]:
    fact = entry.text(key, r"[0-9]{1,3}", "a number of lanes")
    if isinstance(fact, Unread):
        return fact
    return lanes(int(fact.value), fact.evidence)


def lanes(width: int, evidence: str) -> Fact[int]:
    """Take a number of lanes for a reading, unless it is what a link that is down or gone shows."""
    if width in _WIDTHS:
        return Read(width, evidence)
    if width in _NO_LINK:
        return Unread("failed", f"the link is down or gone (width {width})", evidence)
    return Unread("garbled", f"no link has {width} lanes", evidence)
