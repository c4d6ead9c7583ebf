"""One subject for each physical GPU: what bus and driver show of it, joined by PCI address."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from gpuassay.facts.division import Division
from gpuassay.facts.earlier import NO_PAST
from gpuassay.facts.gpu_condition import Condition
from gpuassay.facts.gpu_health import Health
from gpuassay.facts.gpu_told import undivided
from gpuassay.facts.nvidia import Device
from gpuassay.facts.nvlink import NvLink
from gpuassay.facts.nvlink_fabric import Fabric
from gpuassay.facts.pci import lanes, unseen
from gpuassay.facts.record import Record
from gpuassay.facts.setup import Setup
from gpuassay.facts.since import GpuSince
from gpuassay.facts.text import graver
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpuassay.facts import amd, nvidia
    from gpuassay.facts.pci import Bus, Function
    from gpuassay.judge.fact import Fact

    Driver = amd.Driver | nvidia.Driver

T = TypeVar("T")

_MOST_PSTATE = 15  # NVML_PSTATE_15; 32 is "unknown"


def no_catalogue(_models: tuple[str, ...]) -> Fact[str]:
    """Name no product: there is no table of them at hand."""
    return Unread("not_asked", "no table of products was given")


class Gpu(Setup, Division):
    """A GPU; what only one of bus and driver shows is unread on the other side, with the reason."""

    product_of: Callable[[tuple[str, ...]], Fact[str]] = staticmethod(no_catalogue)

    past = NO_PAST

    def __init__(self, node: str, function: Function, device: Device) -> None:
        """Join the two sides of one GPU."""
        self.node = node
        self._function = function
        self._device = device

    @cached_property
    def where(self) -> str:
        """Its place: by the driver's index, or by PCI address where the driver lists it not."""
        if self._device.index is not None:
            return f"{self.node}/gpu{self._device.index}"
        return f"{self.node}/{self._function.where}"

    @cached_property
    def models(self) -> tuple[str, ...]:
        """Product name and PCI id, as far as they were read."""
        name = self.name.value if isinstance(self.name, Read) else ""
        return tuple(model for model in (name, self._function.pci_id or self._device.pci_id) if model)

    @property
    def product(self) -> Fact[str]:
        """Which product of the catalogue it is, e.g. ``b200``; the note has the names that it goes by."""
        return self.product_of(self.models)

    @property
    def loss(self) -> str:
        """Why it is not of use: not shown by both sides, fallen off the bus, lost; empty if it is."""
        for side in (self._function.address, self._function.fallen, self._device.entry.unread):
            if isinstance(side, Unread):
                return side.why
        return self._device.gone

    @property
    def vendor(self) -> str:
        """Whose it is, as the bus says: ``10de``, ``1002``; empty for one that only the driver shows."""
        return self._function.vendor

    @property
    def bdf(self) -> Fact[str]:
        """Its PCI address, e.g. ``0000:5d:00.0``."""
        bus = self._function.address
        return bus if isinstance(bus, Read) else self._device.address

    @property
    def name(self) -> Fact[str]:
        """The product's name, as the driver says it."""
        return self._device.entry.text("name", r".{1,96}", "a product name")

    @property
    def slot(self) -> Fact[str]:
        """Where it sits: its PCI address."""
        return self.bdf

    @cached_property
    def since(self) -> GpuSince:
        """What became of it since an earlier recording."""
        return GpuSince(self, self.past)

    @property
    def pstate(self) -> Fact[int]:
        """The performance state, 0 the fastest."""
        return self._device.entry.count("pstate", most=_MOST_PSTATE)

    @property
    def ecc_current(self) -> Fact[bool]:
        """Whether ECC is on."""
        return self._device.entry.record("ecc").flag("current")

    @property
    def ecc_pending(self) -> Fact[bool]:
        """Whether ECC is on after the next reset."""
        return self._device.entry.record("ecc").flag("pending")

    @property
    def remap_pending(self) -> Fact[bool]:
        """Whether a row of memory waits for a reset to be replaced."""
        return self._rows(self._device.entry.record("remapped_rows").flag("pending"))

    @property
    def remap_failed(self) -> Fact[bool]:
        """Whether a row of memory could not be replaced."""
        return self._rows(self._device.entry.record("remapped_rows").flag("failed"))

    @property
    def remap_banks_exhausted(self) -> Fact[int]:
        """How many banks of memory have no spare row left."""
        return self._rows(self._device.entry.record("remapped_rows").record("banks").count("none"))

    @property
    def remapped_rows(self) -> Fact[int]:
        """How many rows of memory were replaced in its life because of errors that could not be corrected."""
        rows = replace(self._device.entry.record("remapped_rows"), missing="not_asked")
        return self._rows(rows.count("uncorrectable"))

    @cached_property
    def health(self) -> Health:
        """What its driver says of its memory and its board."""
        return Health(self._device.entry, self._device.gone)

    @cached_property
    def condition(self) -> Condition:
        """What its driver says of its clocks, its heat and its work at the moment of asking."""
        return Condition(self._device.entry)

    def _rows(self, fact: Fact[T]) -> Fact[T]:
        return undivided(self._device.entry, fact)

    @property
    def pcie_width(self) -> Fact[int]:
        """How many PCIe lanes its link has now; where bus and driver differ, the fewer."""
        return self._function.fallen or _worse(self._function.width(), self._lanes("width"), min)

    @property
    def pcie_width_max(self) -> Fact[int]:
        """How many PCIe lanes it can use; where bus and driver differ, the more."""
        return self._function.fallen or _worse(self._function.width_max(), self._lanes("width_max"), max)

    @property
    def pcie_gen(self) -> Fact[int]:
        """The generation of its link's speed now; it drops while the GPU is idle."""
        bus, driver = self._function.generation(), self._device.entry.record("pcie").count("gen", most=9)
        return driver if isinstance(bus, Unread) and isinstance(driver, Read) else bus

    @cached_property
    def nvlink(self) -> NvLink:
        """Its NVLinks."""
        return NvLink(self._device.entry)

    @cached_property
    def fabric(self) -> Fabric:
        """Its place in an NVLink fabric."""
        return Fabric(self._device.entry)

    def _lanes(self, key: str) -> Fact[int]:
        fact = self._device.entry.record("pcie").count(key, most=255)
        if isinstance(fact, Unread):
            return fact
        gone = self._device.gone  # what the driver still says of such a GPU is what it remembers
        return Unread("failed", gone, fact.evidence) if gone else lanes(fact.value, fact.evidence)


def _worse(bus: Fact[int], driver: Fact[int], worse: Callable[[int, int], int]) -> Fact[int]:
    """Join what two witnesses say of a link: neither may hide what the other saw."""
    if isinstance(bus, Unread):
        if isinstance(driver, Unread):
            return graver(bus, driver)
        return replace(driver, note=f"as the driver says; on the bus {bus.why}")
    if isinstance(driver, Unread) or driver.value == bus.value:
        return bus
    value = worse(bus.value, driver.value)
    side = bus if value == bus.value else driver
    return replace(side, note=f"the bus says {bus.value}, the driver {driver.value}")


def join(node: str, bus: Bus, drivers: Mapping[str, Driver]) -> tuple[Gpu, ...]:
    """Make one subject of each GPU of a node: those of the drivers by index, then the others by address.

    ``drivers`` are by vendor. Where a node has GPUs of two, those of the second count on from the first.
    """
    pairs: list[tuple[Function, Device]] = []
    for vendor, driver in drivers.items():
        found = _pairs(bus, [function for function in bus.gpus if function.vendor == vendor], driver)
        start = sum(device.index is not None for _, device in pairs)
        pairs += [(function, _counted_from(start, device)) for function, device in found]
    return tuple(Gpu(node, *pair) for pair in sorted(pairs, key=_place))


def _counted_from(start: int, device: Device) -> Device:
    return device if device.index is None or not start else replace(device, index=start + device.index)


def _pairs(bus: Bus, ours: Sequence[Function], driver: Driver) -> list[tuple[Function, Device]]:
    """Pair what the bus and one vendor's driver show."""
    functions = {function.where: function for function in ours}
    pairs: list[tuple[Function, Device]] = []
    nameless: list[Device] = []
    for device in driver.devices:
        address = device.address
        if isinstance(address, Unread):
            nameless.append(device)
        else:
            function = functions.pop(address.value) if address.value in functions else _not_on(bus, address)
            pairs.append((function, device))
    pairs += _match_rest(nameless, list(functions.values()), bus, driver)
    return pairs


def _match_rest(
    nameless: Sequence[Device], loose: Sequence[Function], bus: Bus, driver: Driver
) -> Iterable[tuple[Function, Device]]:
    """Pair the GPUs whose address the driver cannot say with the functions that it did not name.

    One of each is the same GPU. Of more it cannot be told which is which: the side that shows more of them
    stands for all, and says so.
    """
    if len(nameless) == len(loose) == 1:
        return [(loose[0], nameless[0])]
    if len(loose) >= len(nameless):
        return [(function, _unlisted(_why_unlisted(function, nameless, driver))) for function in loose]
    why = bus.count
    if isinstance(why, Read):
        which = f", one of {', '.join(function.where for function in loose)}" if loose else ""
        why = Unread("failed", f"the driver cannot say where on the bus it is{which}", why.evidence)
    return [(unseen(why), device) for device in nameless]


def _why_unlisted(function: Function, nameless: Sequence[Device], driver: Driver) -> Unread:
    if isinstance(driver.count, Unread):
        return driver.count
    for lost in (device.address for device in nameless):
        if isinstance(lost, Unread):
            names = ", ".join(f"gpu{device.index}" for device in nameless)
            return Unread(lost.kind, f"which of {names} it is cannot be told: {lost.why}", lost.evidence)
    why = f"on the PCI bus and not in the driver's list ({function.bound})"
    return Unread("failed", why, driver.count.evidence)


def _not_on(bus: Bus, address: Read[str]) -> Function:
    if isinstance(bus.count, Unread):
        return unseen(bus.count)
    why = f"the driver lists it at {address.value}, where the bus shows no GPU"
    return unseen(Unread("failed", why, address.evidence))


def _unlisted(why: Unread) -> Device:
    return Device(None, Record(why, why.evidence))


def _place(pair: tuple[Function, Device]) -> tuple[bool, int, str]:
    function, device = pair
    return (device.index is None, device.index or 0, function.where)
