"""What NVIDIA's driver shows: its version and its GPUs, through NVML or through ``nvidia-smi -q -x``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from gpuassay.facts import nvidia_smi
from gpuassay.facts.record import Record
from gpuassay.facts.source import document, text
from gpuassay.facts.text import brief, graver, pci_address
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

VERSION: Final = r"\d{1,4}(?:\.\d{1,4}){1,4}"
_MOST_GPUS = 256  # more is no count: no node has a tenth of it
_MODULE = re.compile(
    rf"^NVRM version: NVIDIA UNIX .*?Kernel Module.*?\s({VERSION})\s", re.MULTILINE | re.ASCII
)
_LIBRARY = re.compile(rf"NVML library version: ({VERSION})", re.ASCII)
_MISMATCH = "version mismatch"  # in nvmlErrorString of NVML_ERROR_LIB_RM_VERSION_MISMATCH
# GPUs of Grace superchips, whose memory the system can take for its own: GH200, GB200, GB300.
COHERENT: Final = frozenset({"10de:2342", "10de:2348", "10de:2941", "10de:31c2", "10de:31c3"})
_MEMORY_MODE = re.compile(r'^CoherentGPUMemoryMode: "?([a-z]{0,16})"?$', re.MULTILINE)
_GONE = re.compile("GPU is lost|GPU requires reset")  # nvmlErrorString of 15 and 16: the GPU is of no use


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU in the driver's list; ``index`` is None for one that the list lacks and the bus shows."""

    index: int | None
    entry: Record

    @property
    def address(self) -> Fact[str]:
        """Its PCI address, in the kernel's spelling."""
        fact = self.entry.text("pci")
        if isinstance(fact, Unread):
            return fact
        address = pci_address(fact.value)
        return (
            Read(address, fact.evidence)
            if address
            else self.entry.garbled("pci", fact.value, "a PCI address")
        )

    @property
    def pci_id(self) -> str:
        """The product, e.g. ``10de:2901``, from NVML's ``0x290110DE``; empty if unread."""
        fact = self.entry.text("pci_device_id", r"(?:0x)?[0-9a-fA-F]{4}10[dD][eE]", "an id of NVIDIA's")
        return f"10de:{fact.value.lower().removeprefix('0x')[:4]}" if isinstance(fact, Read) else ""

    @property
    def gone(self) -> str:
        """What the driver says of a GPU that it can no longer use; empty for one that it can."""
        if self.entry.unread:
            return self.entry.unread.why
        reasons = (mark.get("why") for mark in _marks(self.entry))
        return next((brief(why) for why in reasons if isinstance(why, str) and _GONE.search(why)), "")


def _marks(entry: Record) -> Iterator[Mapping[str, Any]]:
    """Yield the values of a GPU that could not be read, at the two depths that an answer has."""
    for value in () if isinstance(entry.values, Unread) else entry.values.values():
        if isinstance(value, dict):
            inner = [one for one in value.values() if isinstance(one, dict)]
            yield from (mark for mark in (value, *inner) if "unread" in mark)


class Driver:
    """NVIDIA's driver on a node, and the GPUs that it lists."""

    def __init__(self, evidence: Evidence) -> None:
        """Look at the answers of NVML, or of nvidia-smi where NVML gave none."""
        self._evidence = evidence

    @cached_property
    def _nvml(self) -> Record:
        return document(self._evidence, "nvml")

    @cached_property
    def _smi(self) -> Record:
        return nvidia_smi.answer(self._evidence)

    @cached_property
    def _answer(self) -> Record:
        if self._nvml.unread is None:
            return self._nvml
        if self._smi.unread is None:
            return self._smi
        return Record(self.mismatch or graver(self._nvml.unread, self._smi.unread))

    @cached_property
    def mismatch(self) -> Unread | None:
        """Why no program can use the driver: its library does not fit its kernel module. None if it does."""
        if self._nvml.unread is None or self._smi.unread is None:
            return None
        refusals = (self._nvml.unread, self._smi.unread)
        told = next((refusal for refusal in refusals if _MISMATCH in refusal.why.casefold()), None)
        if told is None:
            return None
        module = module_version(self._evidence)
        loaded = module.value if isinstance(module, Read) else "of unknown version"
        why = (
            f"driver/library version mismatch: NVML library {self._library()}, loaded kernel module {loaded}"
        )
        return Unread("failed", f"{why}; reload the module or reboot", told.evidence)

    def _library(self) -> str:
        """Tell the version of the NVML library; where NVML cannot be opened only nvidia-smi says it."""
        smi = self._evidence.item(nvidia_smi.ITEM)
        match = _LIBRARY.search(smi.out.decode(errors="replace")) if smi else None
        return match[1] if match else "of unknown version"

    @cached_property
    def version(self) -> Fact[str]:
        """The driver's version."""
        return self._answer.text("driver", VERSION, "a version")

    @property
    def library(self) -> Fact[str]:
        """The version of its library: NVML's own has the major of CUDA in front, ``13.580.159.03``."""
        said = self._nvml.text("library", rf"\d{{1,3}}\.{VERSION}", "a version")
        if isinstance(said, Read):
            return Read(said.value.partition(".")[2], said.evidence)
        # nvidia-smi answers only where its library fits, and prints one version for both.
        return said if self._smi.unread else self._smi.text("driver", VERSION, "a version")

    @property
    def cuda(self) -> Fact[int]:
        """The newest CUDA that it runs, e.g. 13000 for 13.0."""
        return self._nvml.count("cuda", most=999_999)

    @cached_property
    def count(self) -> Fact[int]:
        """How many GPUs the driver has, lost ones too."""
        count = self._counted
        if isinstance(count, Read) and len(self._listed) > count.value:
            why = f"the driver counts {count.value} GPUs and lists {len(self._listed)}"
            return Unread("garbled", why, count.evidence)
        return count

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """The GPUs that the driver lists or, where the list is short, only counts."""
        devices = [Device(index, _placed(index, entry)) for index, entry in enumerate(self._listed)]
        if isinstance(self._counted, Read) and self._counted.value > len(devices):
            why = f"the driver counts {self._counted.value} GPUs and lists {len(devices)}"
            rest = Record(Unread("garbled", why, self._counted.evidence))
            devices += [Device(index, rest) for index in range(len(devices), self._counted.value)]
        return tuple(devices)

    @cached_property
    def _counted(self) -> Fact[int]:
        return self._answer.count("count", most=_MOST_GPUS)

    @cached_property
    def _listed(self) -> tuple[Record, ...]:
        listed = self._answer.listed("devices")
        return listed.value[:_MOST_GPUS] if isinstance(listed, Read) else ()


def _placed(index: int, entry: Record) -> Record:
    """Distrust an entry that says it is another GPU's."""
    said = entry.look("index")
    if isinstance(said, Unread) or (type(said.value) is int and said.value == index):
        return entry
    return Record(entry.garbled("index", said.value, f"{index}, its place in the list"), entry.evidence)


def memory_mode(evidence: Evidence) -> Fact[str]:
    """Read who manages the memory of coherent GPUs: ``driver`` or, by default, ``numa``, the system."""
    params = text(evidence, "nvidia-params")
    if isinstance(params, Unread):
        return params
    if not re.match(r"[A-Z]\w+: ", params.value):
        return Unread("garbled", f"no settings of the module in '{brief(params.value)}'", params.evidence)
    match = _MEMORY_MODE.search(params.value)
    return Read((match and match[1]) or "numa", params.evidence)


def module_version(evidence: Evidence) -> Fact[str]:
    """Read the version of the kernel module that is loaded."""
    proc, sysfs = text(evidence, "nvidia-module"), text(evidence, "nvidia-sysfs-version")
    facts = [_version(proc, _MODULE), _version(sysfs, re.compile(rf"({VERSION})\s*", re.ASCII))]
    read = next((fact for fact in facts if isinstance(fact, Read)), None)
    return read or graver(*(fact for fact in facts if isinstance(fact, Unread)))


def _version(said: Fact[str], pattern: re.Pattern[str]) -> Fact[str]:
    if isinstance(said, Unread):
        return said
    match = pattern.match(said.value)
    if match is None:
        return Unread("garbled", f"no version of the module in '{brief(said.value)}'", said.evidence)
    return Read(match[1], said.evidence)
