"""Which GPUs and which NICs of the fabric sit at the same processor."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts.pci import numa_node
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.facts.adapters import Adapters
    from gpuassay.facts.gpu import Gpu
    from gpuassay.facts.machine import Machine
    from gpuassay.facts.pci import Bus
    from gpuassay.judge.fact import Fact

_UNSAID = -1


class Affinity:
    """The NUMA nodes of a node's GPUs and of the NICs of its compute fabric."""

    def __init__(
        self, gpus: tuple[Gpu, ...], nics: tuple[str, ...], adapters: Adapters, bus: Bus, machine: Machine
    ) -> None:
        """``nics`` names the RDMA devices of the fabric, in ``adapters``."""
        self._gpus = gpus
        self._nics = nics
        self._adapters = adapters
        self._bus = bus
        self._machine = machine

    @property
    def gpus_unplaced(self) -> Fact[int]:
        """For how many GPUs no NUMA node is named, though the machine has several."""
        gpus, several = self._gpu_nodes, self._machine.numa_nodes
        if isinstance(gpus, Unread):
            return gpus
        if isinstance(several, Unread):
            return several
        lost = [where for where, node in gpus.value.items() if node == _UNSAID and several.value > 1]
        return Read(len(lost), gpus.evidence, ", ".join(lost))

    @property
    def gpus_far(self) -> Fact[int]:
        """How many GPUs have no NIC of the fabric at their own processor."""
        gpus, nics = self._gpu_nodes, self._nic_nodes
        if isinstance(gpus, Unread):
            return gpus
        if isinstance(nics, Unread):
            return nics
        near = {*nics.value.values(), _UNSAID}
        # A NIC that sits nobody knows where may be near: what is not known is told by `gpus_unplaced`.
        blind = _UNSAID in nics.value.values()
        far = [where for where, node in gpus.value.items() if node not in near and not blind]
        return Read(len(far), gpus.evidence, ", ".join(far))

    @property
    def layout(self) -> Fact[str]:
        """How many of each sit where, e.g. ``NUMA 0: 4 GPUs, 4 NICs; NUMA 1: 4 GPUs, 4 NICs``."""
        gpus, nics = self._gpu_nodes, self._nic_nodes
        if isinstance(gpus, Unread):
            return gpus
        if isinstance(nics, Unread):
            return nics
        counts = Counter(gpus.value.values()), Counter(nics.value.values())
        places = sorted({*counts[0], *counts[1]})
        said = (f"{_named(place)}: {counts[0][place]} GPUs, {counts[1][place]} NICs" for place in places)
        return Read("; ".join(said), gpus.evidence)

    @cached_property
    def _gpu_nodes(self) -> Fact[Mapping[str, int]]:
        nodes, evidence = {}, ""
        for gpu in self._gpus:
            node = gpu.numa_node
            if isinstance(node, Unread):
                return node
            nodes[gpu.where.partition("/")[2]] = node.value
            evidence = node.evidence
        if not nodes:
            count = self._bus.count
            return count if isinstance(count, Unread) else Unread("not_found", "no GPU is seen")
        return Read(nodes, evidence)

    @cached_property
    def _nic_nodes(self) -> Fact[Mapping[str, int]]:
        if self._adapters.unread:
            return self._adapters.unread
        nodes = {}
        for name in self._nics:
            address = self._adapters.pci_of(name)
            if isinstance(address, Unread):
                return address
            node = numa_node(self._bus.devices.record(address.value))
            if isinstance(node, Unread):
                return node
            nodes[name] = node.value
        return Read(nodes, self._bus.evidence)


def _named(place: int) -> str:
    return "no NUMA node" if place == _UNSAID else f"NUMA {place}"
