"""What AMD's driver shows: its version and its GPUs, from sysfs or ``amd-smi``, as NVML writes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from gpuassay.facts import amd_smi, ras
from gpuassay.facts.kfd import Topology
from gpuassay.facts.nvidia import Device
from gpuassay.facts.record import Record
from gpuassay.facts.source import document, text
from gpuassay.facts.text import brief, graver, pci_address
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import natural

if TYPE_CHECKING:
    from gpuassay.facts.pci import Bus
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

VERSION: Final = r"\d{1,3}\.\d{1,3}\.\d{1,3}(?:\.\d{5,9})?"
_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)
_NO_SERIAL = frozenset({"", "0", "N/A"})

_NVIDIA_ONLY = (
    "remapped_rows",
    "mig",
    "mig_pending",
    "persistence",
    "clocks",
    "clock_event_reasons",
    "fields",
)

# Into how many a compute mode splits a GPU; CPX gives each accelerator die to itself (AMD, Instinct MI300X
# partitioning guide). Dies by product: AMD's CDNA 3 and CDNA 4 architecture papers.
_MODES = {"SPX": 1, "DPX": 2, "TPX": 3, "QPX": 4}
_DIES = {"1002:74a0": 6, "1002:74a1": 8, "1002:74a2": 4, "1002:74a5": 8, "1002:75a0": 8, "1002:75a3": 8}


@dataclass(frozen=True, slots=True)
class AmdDevice(Device):
    """An AMD GPU that its driver holds; ``lost`` says why programs cannot use it."""

    lost: str = ""

    @property
    def gone(self) -> str:
        """Why it is of no use to programs; empty if it is."""
        return self.entry.unread.why if self.entry.unread else self.lost


class Driver:
    """AMD's driver on a node, and the GPUs that it holds."""

    mismatch = None

    def __init__(self, evidence: Evidence, bus: Bus) -> None:
        """Look at what the probe read of the driver; the bus tells accelerators from graphics."""
        self._evidence = evidence
        self._bus = bus

    @cached_property
    def _held(self) -> Record:
        return document(self._evidence, "amdgpu", missing="unsupported")

    @cached_property
    def _smi(self) -> Record:
        return amd_smi.answer(self._evidence)

    @cached_property
    def topology(self) -> Topology:
        """What the driver offers to programs."""
        return Topology(self._evidence)

    @cached_property
    def count(self) -> Fact[int]:
        """How many accelerators the driver holds, lost ones too."""
        held = self._held
        if held.unread is None:
            return Read(len(self.devices), held.evidence)
        if self._smi.unread is None:
            return Read(len(self.devices), self._smi.evidence)
        return graver(held.unread, self._smi.unread)

    @cached_property
    def devices(self) -> tuple[AmdDevice, ...]:
        """The accelerators that it holds, by address; without an answer of sysfs those of amd-smi."""
        if self._held.unread is not None:
            listed = self._smi.listed("devices")
            entries = listed.value if isinstance(listed, Read) else ()
            return tuple(AmdDevice(index, entry) for index, entry in enumerate(entries))
        found = sorted(self._held.items(), key=lambda pair: natural(pair[0]))
        ours = [(name, entry) for name, entry in found if not self._bus.is_other(name)]
        return tuple(self._device(index, name, entry) for index, (name, entry) in enumerate(ours))

    def _device(self, index: int, name: str, entry: Record) -> AmdDevice:
        ref = self._held.evidence
        address = pci_address(name)
        if address is None:
            why = Unread("garbled", f"the driver holds {brief(name)}, which is no PCI address", ref)
            return AmdDevice(index, Record(why, ref))
        if entry.unread is not None:
            return AmdDevice(index, entry)
        return AmdDevice(index, self._translate(index, address, entry), self.topology.lacks(address))

    def _translate(self, index: int, address: str, entry: Record) -> Record:
        """Write what sysfs says of a GPU as NVML says it; what NVML has and AMD has not is unsupported."""
        return Record(
            {
                "index": index,
                "pci": address,
                "name": _plain(entry.text("product_name")),
                "uuid": _plain(_identity(entry)),
                "serial": _plain(_serial(entry)),
                "board_part": _plain(entry.text("product_number")),
                "vbios": _plain(entry.text("vbios_version")),
                "memory_total_bytes": _plain(_number(entry, "mem_info_vram_total")),
                "ecc": ras.protection(entry.record("ras")),
                "ecc_errors": ras.errors(entry.record("ras")),
                "bad_pages": ras.pages(entry.record("ras")),
                **dict.fromkeys(_NVIDIA_ONLY, ras.UNSUPPORTED),
                "partition": self._partition(address, entry),
                "xgmi_links": _plain(self._links(entry)),
                "power": _power(entry.record("sensors")),
                "temperature": _heat(entry.record("sensors")),
            },
            entry.evidence,
            "unsupported",
        )

    def _partition(self, address: str, entry: Record) -> dict[str, Any]:
        compute = _compute(entry)
        memory = entry.text("current_memory_partition", "NPS[1248]", "a mode such as NPS1")
        return {
            "compute": _plain(compute),
            "memory": _plain(memory),
            "listed": _plain(self.topology.partitions(address)),
            "of": _plain(_split(compute, self._bus.pci_id(address))),
            "node": self._whole,
        }

    @cached_property
    def _whole(self) -> str:
        """Say how many partitions the node has, of how many it should have."""
        expected = 0
        for name, entry in self._held.items():
            split = _split(_compute(entry), self._bus.pci_id(name))
            expected += split.value if isinstance(split, Read) else 0
        listed = self.topology.listed
        return f"the node has {listed.value if isinstance(listed, Read) else '?'} of {expected}"

    def _links(self, entry: Record) -> Fact[int]:
        """Add up the xGMI links to all peers: two hexadecimal digits for each (amdgpu_xgmi.c)."""
        said = entry.text(
            "xgmi_num_links", r"[0-9a-f]{2}( [0-9a-f]{2}){0,63}", "a number of links for each peer"
        )
        if isinstance(said, Read):
            return Read(sum(int(number, 16) for number in said.value.split()), said.evidence)
        if said.kind == "unsupported" and len(self._bus.gpus) == 1:
            return Unread("denied", "it is alone in this machine: its links end outside it", said.evidence)
        return (
            said
            if said.kind != "unsupported"
            else Unread("failed", "it is in no hive of xGMI", said.evidence)
        )

    # --- versions ------------------------------------------------------------------------------------

    @cached_property
    def version(self) -> Fact[str]:
        """The version of the module that is loaded; of the kernel's own, which has none, the kernel's."""
        said = text(self._evidence, "amdgpu-version")
        if isinstance(said, Unread):
            kernel = document(self._evidence, "host").text("kernel", r"[\w.+~-]{1,64}")
            own = said.kind == "not_found" and self.devices and isinstance(kernel, Read)
            return (
                Read(f"in kernel {kernel.value}", kernel.evidence)
                if own and isinstance(kernel, Read)
                else said
            )
        version = said.value.strip()
        if re.fullmatch(VERSION, version, re.ASCII):
            return Read(version, said.evidence)
        return Unread("garbled", f"'{brief(version)}' is no version of amdgpu", said.evidence)

    @property
    def release(self) -> Fact[str]:
        """The version of AMD's own driver; a distribution's has none that AMD's bulletins speak of."""
        version = self.version
        if isinstance(version, Read) and version.value.startswith("in kernel"):
            why = f"the driver is the one {version.value}: of a distribution's, AMD's bulletins name no fix"
            return Unread("denied", why, version.evidence)
        return version

    @property
    def rocm(self) -> Fact[str]:
        """The version of ROCm on the host, without its build number."""
        said = text(self._evidence, "rocm")
        if isinstance(said, Unread):
            return said
        match = re.fullmatch(r"(\d{1,3}(?:\.\d{1,3}){1,3})(?:-[\w.~+-]{1,32})?\s*", said.value, re.ASCII)
        if match is None:
            return Unread("garbled", f"'{brief(said.value)}' is no version of ROCm", said.evidence)
        return Read(match[1], said.evidence)


def _plain(fact: Fact[Any]) -> Any:
    """Write a fact into a document: its value, or the mark of one that is unread."""
    return {"unread": fact.kind, "why": fact.why} if isinstance(fact, Unread) else fact.value


def _identity(entry: Record) -> Fact[str]:
    """Read the identity burnt into the chip, in the form in which ROCm's programs select a GPU."""
    said = entry.text("unique_id", r"(?:0x)?[0-9a-fA-F]{1,16}", "a hexadecimal number")
    if isinstance(said, Unread):
        return said
    number = int(said.value, 16)
    return (
        Read(f"GPU-{number:016x}", said.evidence)
        if number
        else entry.garbled("unique_id", "0", "an identity")
    )


def _serial(entry: Record) -> Fact[str]:
    said = entry.text("serial_number", r"[0-9A-Za-z-]{1,32}", "a serial number")
    if isinstance(said, Read) and said.value in _NO_SERIAL:
        return Unread("not_found", "the board has no serial number written into it", said.evidence)
    return said


def _number(entry: Record, key: str) -> Fact[int]:
    said = entry.text(key, _NUMBER.pattern, "a number")
    return said if isinstance(said, Unread) else Read(int(said.value), said.evidence)


def _power(sensors: Record) -> dict[str, Any]:
    """Write the power cap in milliwatts; hwmon has it in microwatts."""
    caps = {"enforced_mw": "power1_cap", "default_mw": "power1_cap_default", "max_mw": "power1_cap_max"}
    return {name: _plain(_thousandth(_number(sensors, key))) for name, key in caps.items()}


def _heat(sensors: Record) -> dict[str, Any]:
    """Write the temperatures of the hottest spot; it is hwmon's second sensor, in thousandths of a degree."""
    label = sensors.text("temp2_label", "junction", "the hottest spot")
    heat = {"gpu_c": "temp2_input", "slowdown_c": "temp2_crit"}
    if isinstance(label, Unread):
        return dict.fromkeys(heat, _plain(label))
    return {name: _plain(_thousandth(_number(sensors, key))) for name, key in heat.items()}


def _thousandth(fact: Fact[int]) -> Fact[int]:
    return fact if isinstance(fact, Unread) else Read(fact.value // 1000, fact.evidence)


def _compute(entry: Record) -> Fact[str]:
    return entry.text("current_compute_partition", "[SDTQC]PX", "a mode such as SPX")


def _split(compute: Fact[str], product: str) -> Fact[int]:
    """Tell how many partitions a mode makes of a product."""
    if isinstance(compute, Unread):
        return compute
    count = _MODES.get(compute.value) or _DIES.get(product)
    if count is None:
        return Unread(
            "garbled", f"how many dies {product or 'this product'} has is not known", compute.evidence
        )
    return Read(count, compute.evidence)
