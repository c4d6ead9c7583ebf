"""How a host is set up: limits, memory, swap and profiling here, the rest in modules of their own."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts import iommu, localdisk, power, services
from gpuassay.facts.record import mapped
from gpuassay.facts.source import document, text
from gpuassay.facts.text import brief
from gpuassay.facts.virtualization import Virtualization
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from gpuassay.facts.localdisk import Space
    from gpuassay.facts.pci import Bus
    from gpuassay.facts.power import Processors
    from gpuassay.facts.record import Record
    from gpuassay.facts.services import OwnName
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

_NOFILE = re.compile(
    r"^Max open files +(unlimited|\d{1,20}) +(unlimited|\d{1,20}) +files *$", re.MULTILINE | re.ASCII
)
_MEMORY = re.compile(r"^(\w+): +(\d{1,18})(?: kB)?$", re.MULTILINE | re.ASCII)
_SWAP = re.compile(r"(\S+)\s+\S+\s+\d{1,18}\s+(\d{1,18})\s+-?\d{1,9}", re.ASCII)
_CHOICE = re.compile(r"\[(\w{1,16})\]")
_PARANOIA = re.compile(r"-?\d{1,3}", re.ASCII)
_ADMIN_ONLY = re.compile(r"^RmProfilingAdminOnly: ([01])$", re.MULTILINE)

_GIB = 1 << 20  # in the kernel's kB
_LARGE_PAGE = 65536  # bytes; with these a transparent huge page has 512 MiB
_TIERING = 2  # NUMA_BALANCING_MEMORY_TIERING, linux/sched/sysctl.h


class Settings:
    """How one host is set up. Everything is read when it is first asked for."""

    def __init__(self, evidence: Evidence, bus: Bus) -> None:
        """Take the evidence of a node, and its PCI bus."""
        self._evidence = evidence
        self._bus = bus

    @cached_property
    def _files(self) -> Record:
        return document(self._evidence, "settings", missing="not_found")

    # --- limits ----------------------------------------------------------------------------------

    @property
    def open_files(self) -> Fact[int]:
        """How many files a process may open once it has raised its limit as far as it may."""
        limits = text(self._evidence, "limits")
        if isinstance(limits, Unread):
            return limits
        match = _NOFILE.search(limits.value)
        if match is None:
            return Unread("garbled", "no line 'Max open files' in the process limits", limits.evidence)
        soft, hard = match.groups()
        count = 2**63 - 1 if hard == "unlimited" else int(hard)
        return Read(count, limits.evidence, f"RLIMIT_NOFILE: soft {soft}, hard {hard}")

    # --- memory ----------------------------------------------------------------------------------

    @property
    def transparent_huge_pages(self) -> Fact[str]:
        """The mode: ``always``, ``madvise`` or ``never``; said apart where pages are large themselves."""
        mode = self._files.text("/sys/kernel/mm/transparent_hugepage/enabled", r"[\w\[\] ]{1,64}")
        if isinstance(mode, Unread):
            return mode
        chosen = _CHOICE.search(mode.value)
        if chosen is None:
            return Unread("garbled", f"no mode is chosen in '{brief(mode.value)}'", mode.evidence)
        page = document(self._evidence, "host").count("page_size")
        if chosen[1] == "never" and isinstance(page, Read) and page.value >= _LARGE_PAGE:
            return Read("never, with 64 KiB pages", mode.evidence)
        return Read(chosen[1], mode.evidence)

    @cached_property
    def _memory(self) -> Fact[dict[str, int]]:
        """The numbers of /proc/meminfo, in kB or as counts."""
        found = self._files.look("/proc/meminfo")
        if isinstance(found, Unread):
            return found
        numbers = {key: int(size) for key, size in _MEMORY.findall(str(found.value))}
        if not numbers.get("MemTotal"):
            return Unread("garbled", "no MemTotal in /proc/meminfo", found.evidence)
        return Read(numbers, found.evidence)

    @property
    def reserved_huge_pages(self) -> Fact[float]:
        """The share of memory that is set aside for programs that ask for huge pages by name."""
        memory = self._memory
        if isinstance(memory, Unread):
            return memory
        sizes = memory.value
        single = [sizes[key] for key in ("HugePages_Total", "Hugepagesize") if key in sizes]
        if "Hugetlb" not in sizes and len(single) != 2:  # noqa: PLR2004 - a count and a size
            return Unread("garbled", "no huge pages in /proc/meminfo", memory.evidence)
        reserved = sizes["Hugetlb"] if "Hugetlb" in sizes else single[0] * single[1]
        total = sizes["MemTotal"]
        note = f"{reserved / _GIB:.1f} of {total / _GIB:.1f} GiB are set aside for huge pages"
        return Read(round(reserved / total, 4), memory.evidence, note)

    @property
    def swap_used_gib(self) -> Fact[float]:
        """How much memory is swapped out to disks; what is compressed in memory (zram) is not."""
        table = self._files.look("/proc/swaps")
        if isinstance(table, Unread):
            return table
        head, *lines = str(table.value).splitlines() or [""]
        areas = [_SWAP.fullmatch(line.strip()) for line in lines]
        if not head.startswith("Filename") or None in areas:
            return Unread("garbled", "/proc/swaps is not the kernel's table", table.evidence)
        disks = {area[1]: int(area[2]) for area in areas if area and not area[1].startswith("/dev/zram")}
        note = f"{len(disks)} swap areas on disks" if disks else "no swap on disks"
        return Read(round(sum(disks.values()) / _GIB, 2), table.evidence, note)

    @property
    def numa_balancing(self) -> Fact[int]:
        """The mode of automatic NUMA balancing, a bit mask; 0 where one NUMA node leaves it nothing to do."""
        mode = self._files.text("/proc/sys/kernel/numa_balancing", r"[0-9]")
        if isinstance(mode, Unread):
            if mode.kind == "not_found" and isinstance(self._memory, Read):
                return Read(0, mode.evidence, "this kernel has no NUMA balancing")
            return mode
        number = int(mode.value)
        nodes = self._files.text("/sys/devices/system/node/online", r"[0-9,-]{1,256}")
        if number and isinstance(nodes, Read) and nodes.value == "0":
            return Read(0, mode.evidence, f"mode {number}, and there is only one NUMA node")
        also = ", which moves pages between tiers of memory" if number & _TIERING else ""
        return Read(number, mode.evidence, f"kernel.numa_balancing is {number}{also}" if number else "")

    # --- profiling -------------------------------------------------------------------------------

    @property
    def gpu_counters(self) -> Fact[bool]:
        """Whether users other than root may read the GPU's performance counters."""
        params = text(self._evidence, "nvidia-params")
        if isinstance(params, Unread):
            return params
        match = _ADMIN_ONLY.search(params.value)
        if match is None:
            return Unread("garbled", "no RmProfilingAdminOnly among the module's parameters", params.evidence)
        return Read(match[1] == "0", params.evidence, f"RmProfilingAdminOnly is {match[1]}")

    @property
    def perf_event_paranoid(self) -> Fact[int]:
        """How far the kernel keeps its performance events from users (-1 to 4); the note has the lockdown."""
        level = self._files.text("/proc/sys/kernel/perf_event_paranoid", _PARANOIA.pattern)
        if isinstance(level, Unread):
            return level
        lockdown = self._files.look("/sys/kernel/security/lockdown")
        chosen = _CHOICE.search(str(lockdown.value)) if isinstance(lockdown, Read) else None
        return Read(int(level.value), level.evidence, f"kernel lockdown: {chosen[1]}" if chosen else "")

    # --- what has modules of its own -------------------------------------------------------------

    @cached_property
    def space(self) -> Space:
        """Its local file systems."""
        return localdisk.Space(self._evidence)

    @cached_property
    def processors(self) -> Processors:
        """How its processors change frequency and sleep."""
        return power.Processors(self._evidence)

    @cached_property
    def own_name(self) -> OwnName:
        """What its own name leads to."""
        return services.OwnName(self._evidence)

    @cached_property
    def dma(self) -> iommu.Dma:
        """How its devices reach memory and each other."""
        return iommu.Dma(self._evidence, self._bus)

    @cached_property
    def virtualization(self) -> Virtualization:
        """What could run virtual machines on it."""
        return Virtualization(self._evidence)

    @property
    def failed_units(self) -> Fact[int]:
        """How many services of the GPU stack have failed; the note names them."""
        return services.failed_units(self._evidence)

    @property
    def killed_for_memory(self) -> Fact[int]:
        """How often the kernel had to kill a process because the whole machine was out of memory."""
        return services.killed_for_memory(self._evidence)

    @property
    def uncorrected_memory_errors(self) -> Fact[int]:
        """How many errors of main memory could not be corrected."""
        return mapped(services.memory_errors(self._evidence), lambda errors: errors.uncorrected)

    @property
    def corrected_memory_errors_per_day(self) -> Fact[float]:
        """How many errors of main memory are corrected in a day, by the controller that has most of them."""
        return mapped(services.memory_errors(self._evidence), lambda errors: errors.corrected_per_day)
