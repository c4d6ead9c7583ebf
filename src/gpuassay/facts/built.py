"""How a node is built: processors, memory, adapters and drives, and which sit at which processor."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts import nvidia
from gpuassay.facts.affinity import Affinity
from gpuassay.facts.drives import Drives
from gpuassay.facts.earlier import NO_PAST
from gpuassay.facts.equipment import Equipment
from gpuassay.facts.kube_sight import KubeSight
from gpuassay.facts.machine import Machine
from gpuassay.facts.mounts import Mounts
from gpuassay.facts.record import mapped
from gpuassay.facts.seats import Seats
from gpuassay.facts.source import Nothing
from gpuassay.judge.fact import Unread

if TYPE_CHECKING:
    from gpuassay.facts.adapters import Adapters
    from gpuassay.facts.fabric import Fabric
    from gpuassay.facts.gpu import Gpu
    from gpuassay.facts.mounts import Volume
    from gpuassay.facts.pci import Bus
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact
    from gpuassay.judge.packages import Packages
    from gpuassay.judge.services import Mount


class Built:
    """The part of a node that a contract names."""

    declared_mounts: tuple[Mount, ...] = ()
    """The mounts of the site file, which each node should have."""
    declared_packages: Packages | None = None
    """Where the site file has nodes take packages from."""

    if TYPE_CHECKING:  # what Node has
        name: str
        _evidence: Evidence

        @cached_property
        def gpus(self) -> tuple[Gpu, ...]: ...  # noqa: D102 - as on Node
        @property
        def gpus_seen(self) -> Fact[int]: ...  # noqa: D102 - as on Node
        @cached_property
        def fabric(self) -> Fabric: ...  # noqa: D102 - as on Node
        @cached_property
        def _adapters(self) -> Adapters: ...
        @cached_property
        def _bus(self) -> Bus: ...

    past = NO_PAST
    orchestrator = Seats(Nothing())
    """What the schedulers of its cluster said, if any was asked."""

    @cached_property
    def machine(self) -> Machine:
        """Its processors and memory."""
        return Machine(self._evidence)

    @cached_property
    def kubernetes(self) -> KubeSight:
        """What Kubernetes has of it."""
        return KubeSight(self.orchestrator, self)

    @cached_property
    def drives(self) -> Drives:
        """Its local NVMe drives."""
        return Drives(self._evidence)

    @cached_property
    def affinity(self) -> Affinity:
        """Which of its GPUs and fabric NICs sit at the same processor."""
        fabric = dict.fromkeys(port.device for port in self.fabric.ports)
        return Affinity(self.gpus, tuple(fabric), self._adapters, self._bus, self.machine)

    @cached_property
    def mounts(self) -> Mounts:
        """The file systems that it has mounted."""
        return Mounts(self.name, self._evidence)

    @cached_property
    def equipment(self) -> Equipment:
        """What it offers to jobs beside its hardware."""
        return Equipment(self._evidence)

    @property
    def network_mounts(self) -> tuple[Volume, ...]:
        """Its mounts that come from a network or a cluster."""
        found = self.mounts.network
        return () if isinstance(found, Unread) else found.value

    @property
    def shared_mounts(self) -> tuple[Volume, ...]:
        """What it has where the site file has shared storage."""
        return tuple(self.mounts.at(mount.path) for mount in self.declared_mounts if mount.shared)

    @property
    def local_mounts(self) -> tuple[Volume, ...]:
        """What it has where the site file has storage of each node's own."""
        return tuple(self.mounts.at(mount.path) for mount in self.declared_mounts if not mount.shared)

    @property
    def nic_models(self) -> Fact[str]:
        """How many RDMA devices of each model it has."""
        return self._adapters.counts

    @property
    def nic_boards(self) -> Fact[str]:
        """How many RDMA devices of each board id (PSID) it has."""
        return self._adapters.boards

    @property
    def gpu_memory_mode(self) -> Fact[str]:
        """Who manages the memory of its coherent GPUs: ``driver``, or ``numa``, the operating system."""
        return nvidia.memory_mode(self._evidence)

    def _shows_build(self, need: str) -> Fact[bool]:
        """Tell whether it has local drives, network mounts, coherent GPUs, or a known past."""
        if need == "earlier":
            return self.past.known
        if need == "nvme":
            return self.drives.present
        if need == "network_mount":
            return mapped(self.mounts.network, bool)
        if need != "coherent":
            return Unread("not_asked", f"nodes are not asked about {need}")
        coherent = any(not nvidia.COHERENT.isdisjoint(gpu.models) for gpu in self.gpus)
        return mapped(self._bus.count, lambda _: coherent)
