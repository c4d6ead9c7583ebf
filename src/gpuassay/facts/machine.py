"""How a machine is built: processors, NUMA nodes, memory."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts.record import mapped
from gpuassay.facts.source import document
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import natural

if TYPE_CHECKING:
    from gpuassay.facts.record import Record
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

_CPUS = re.compile(r"\d{1,5}(?:-\d{1,5})?(?:,\d{1,5}(?:-\d{1,5})?)*", re.ASCII)
_MOST_CPUS = 1 << 16
_KIB_PER_GIB = 1 << 20


class Machine:
    """What the kernel says of processors and memory."""

    def __init__(self, evidence: Evidence) -> None:
        """Look at what the probe read from ``/sys/devices/system``."""
        self._cpus = document(evidence, "processors", missing="not_found")
        self._numa = document(evidence, "numa", missing="not_found")
        self._host = document(evidence, "host")

    @property
    def sockets(self) -> Fact[int]:
        """How many processor packages it has."""
        return self._distinct("packages")

    @property
    def cores(self) -> Fact[int]:
        """How many cores are in use."""
        return self._distinct("cores")

    @property
    def threads(self) -> Fact[int]:
        """How many processors the kernel schedules on."""
        online = self._cpus.text("online", _CPUS.pattern, "a list of processors")
        return mapped(online, lambda cpus: len(_cpus(cpus)))

    @property
    def numa_nodes(self) -> Fact[int]:
        """How many NUMA nodes have processors; others are memory alone, or places for partitions of GPUs."""
        return mapped(self._nodes, lambda nodes: sum(bool(cpus) for cpus, _ in nodes.values()))

    @property
    def processors(self) -> Fact[str]:
        """All of these in a line, e.g. ``2 sockets, 112 cores, 224 threads, 2 NUMA nodes``."""
        counts = (self.sockets, self.cores, self.threads, self.numa_nodes)
        numbers = []
        for count in counts:
            if isinstance(count, Unread):
                return count
            numbers.append(count.value)
        return Read("{} sockets, {} cores, {} threads, {} NUMA nodes".format(*numbers), self._cpus.evidence)

    @property
    def memory_gib(self) -> Fact[float]:
        """The memory beside its processors in GiB; not that of GPUs, which the system may have taken."""
        if isinstance(self._nodes, Unread):
            return self._nodes
        own = sum(kib for cpus, kib in self._nodes.value.values() if cpus)
        if own:
            return Read(own / _KIB_PER_GIB, self._numa.evidence)
        return mapped(self._host.count("memory_bytes"), lambda size: size / 1024**3)

    @cached_property
    def memory_only_gib(self) -> Fact[float]:
        """The memory of NUMA nodes without processors; the note lists them."""
        if isinstance(self._nodes, Unread):
            return self._nodes
        alone = {
            name: kib / _KIB_PER_GIB for name, (cpus, kib) in self._nodes.value.items() if not cpus and kib
        }
        listed = ", ".join(f"{name} {gib:.1f} GiB" for name, gib in alone.items())
        return Read(sum(alone.values()), self._numa.evidence, listed)

    def _distinct(self, key: str) -> Fact[int]:
        fact = self._cpus.look(key)
        if isinstance(fact, Unread):
            return fact
        lists = fact.value if isinstance(fact.value, list) else [fact.value]
        if not lists or not all(isinstance(one, str) and _CPUS.fullmatch(one) for one in lists):
            return self._cpus.garbled(key, fact.value, "lists of processors")
        return Read(len({*lists}), fact.evidence)

    @cached_property
    def _nodes(self) -> Fact[dict[str, tuple[frozenset[int], int]]]:
        """Processors and KiB of each NUMA node; of a kernel that knows of none, one node with everything."""
        if self._numa.unread:
            return self._numa.unread
        nodes = {}
        for name, entry in sorted(self._numa.items(), key=lambda item: natural(item[0])):
            cpus, memory = _cpus_of(entry), entry.text("memory", r"\d{1,15} kB", "an amount of memory")
            for fact in (cpus, memory):
                if isinstance(fact, Unread):
                    return fact
            if isinstance(cpus, Read) and isinstance(memory, Read):
                nodes[name] = (cpus.value, int(memory.value.removesuffix(" kB")))
        return Read(nodes or {"node0": (frozenset({0}), 0)}, self._numa.evidence)


def _cpus_of(entry: Record) -> Fact[frozenset[int]]:
    said = entry.look("cpulist")
    if isinstance(said, Read) and said.value == "":
        return Read(frozenset(), said.evidence)
    return mapped(entry.text("cpulist", _CPUS.pattern, "a list of processors"), _cpus)


def _cpus(text: str) -> frozenset[int]:
    """Write out a list of processors; a range beyond all machines is cut, not written out."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), min(int(last or first), _MOST_CPUS) + 1))
    return frozenset(found)
