"""A node as judging sees it: its facts, its GPUs and ports, and what it shows that it has."""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from gpuassay.facts import amd, amdgpu_log, gpu, host, imex, kernel_log, nvidia, nvlink_fabric
from gpuassay.facts.adapters import Adapters
from gpuassay.facts.amdgpu_log import AmdgpuLog
from gpuassay.facts.built import Built
from gpuassay.facts.exposure import Exposure
from gpuassay.facts.fabric import Fabric
from gpuassay.facts.kernel_log import KernelLog
from gpuassay.facts.leftovers import SharedMemory
from gpuassay.facts.link import ETHERNET, INFINIBAND
from gpuassay.facts.nics import Nics
from gpuassay.facts.node_since import NodeSince
from gpuassay.facts.pci import AMD, NVIDIA, Bus
from gpuassay.facts.pci_errors import PciErrors
from gpuassay.facts.planes import Planes
from gpuassay.facts.racks import Membership
from gpuassay.facts.record import mapped
from gpuassay.facts.settings import Settings
from gpuassay.facts.source import Silence
from gpuassay.facts.versions import COMPONENTS, Versions
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gpuassay.facts.gpu import Gpu
    from gpuassay.facts.imex import Imex
    from gpuassay.facts.nics import Nic
    from gpuassay.facts.rdma import Port
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

_SOFTWARE = {*COMPONENTS, "cuda_toolkit", "fabric_manager", "bluefield3"}
_SILENT = Unread("not_found", "no evidence from this node")


class Node(Built):
    """A node. Everything is read from its evidence when it is first asked for.

    ``aliases`` are other names that a scheduler has for it, ``scheduled_boot`` what it has for its boot;
    ``seats`` tell by which schedulers it is known.
    """

    aliases: tuple[str, ...] = ()
    scheduled_boot: str = ""
    seats: Mapping[str, Fact[bool]] = MappingProxyType({})

    def __init__(
        self,
        name: str,
        evidence: Evidence | None,
        fabric: Iterable[str] = (),
        pool: str = "",
        product_of: Callable[[tuple[str, ...]], Fact[str]] = gpu.no_catalogue,
    ) -> None:
        """Without evidence a node is silent, also by a `Silence`. ``fabric`` names declared compute ports.

        ``product_of`` names the product of the catalogue that a GPU's names belong to.
        """
        self.name = name
        self.pool = pool
        self._evidence: Evidence = evidence or Silence(_SILENT)
        self.silence = self._evidence.reason if isinstance(self._evidence, Silence) else None
        self._fabric = frozenset(fabric)
        self._product_of = product_of

    @property
    def where(self) -> str:
        """Its place: its name."""
        return self.name

    @property
    def node(self) -> str:
        """The node it belongs to: itself."""
        return self.name

    @cached_property
    def models(self) -> tuple[str, ...]:
        """Names and PCI ids of its GPUs."""
        return tuple(dict.fromkeys(model for one in self.gpus for model in one.models))

    # --- GPUs ------------------------------------------------------------------------------------

    @cached_property
    def gpus(self) -> tuple[Gpu, ...]:
        """All GPUs that the bus or the driver shows."""
        gpus = gpu.join(self.name, self._bus, self._drivers)
        for one in gpus:
            one.product_of = self._product_of
            one.past = self.past
        return gpus

    @property
    def gpus_on_bus(self) -> Fact[int]:
        """How many GPUs the PCI bus shows, fallen ones too."""
        return self._bus.count

    @property
    def gpus_in_driver(self) -> Fact[int]:
        """How many GPUs the driver has, lost ones too."""
        counts = [self._drivers[vendor].count for vendor in self._vendors]
        unread = next((count for count in counts if isinstance(count, Unread)), None)
        read = [count for count in counts if isinstance(count, Read)]
        return unread or Read(sum(count.value for count in read), read[0].evidence)

    @property
    def gpus_seen(self) -> Fact[int]:
        """How many GPUs bus and driver both show, at one address, and can use; the note tells of others."""
        unusable = self._driver.mismatch if NVIDIA in self._vendors else None
        if unusable:
            return Read(0, unusable.evidence, unusable.why)
        counts = (self.gpus_on_bus, self.gpus_in_driver)
        for count in counts:
            if isinstance(count, Read) and count.value == 0:  # then both show none, whatever the other shows
                return count
        for count in counts:
            if isinstance(count, Unread):
                return count
        losses = {one.where.partition("/")[2]: one.loss for one in self.gpus if one.loss}
        note = "; ".join(f"{place}: {loss}" for place, loss in losses.items())
        return Read(len(self.gpus) - len(losses), self.gpus_in_driver.evidence, note)

    @property
    def driver_version(self) -> Fact[str]:
        """The version of its GPUs' driver, as that says itself."""
        return self._drivers[self._vendors[0]].version

    @cached_property
    def amdgpu(self) -> amd.Driver:
        """What AMD's driver shows, beside its GPUs."""
        return amd.Driver(self._evidence, self._bus)

    @property
    def module_version(self) -> Fact[str]:
        """The version of NVIDIA's kernel module that is loaded."""
        return nvidia.module_version(self._evidence)

    @cached_property
    def busy(self) -> str:
        """Why no load may be put on it: its GPUs are used, or that is not known; empty if nobody does."""
        entries = [one.entry.record("usage").record("processes") for one in self._driver.devices]
        counts = [entry.count("count") for entry in entries]
        listed = self._driver.count
        if isinstance(listed, Unread) and listed.kind == "denied" and NVIDIA in self._vendors:
            return f"whether its GPUs are idle is not known: {listed.why}"
        for count in [*counts, *([self.amdgpu.topology.users] if AMD in self._vendors else [])]:
            if isinstance(count, Unread):
                return f"whether its GPUs are idle is not known: {count.why}"
            if count.value:
                return f"its GPUs are in use by {count.value} processes"
        return ""

    @cached_property
    def _bus(self) -> Bus:
        return Bus(self._evidence)

    @cached_property
    def _driver(self) -> nvidia.Driver:
        return nvidia.Driver(self._evidence)

    @cached_property
    def versions(self) -> Versions:
        """The software that it runs."""
        return Versions(self._evidence, self._driver, self.module_version)

    @property
    def _drivers(self) -> Mapping[str, gpu.Driver]:
        return {NVIDIA: self._driver, AMD: self.amdgpu}

    @cached_property
    def _vendors(self) -> tuple[str, ...]:
        """Whose GPUs bus and drivers show; NVIDIA where they show none, so that somebody has to answer."""
        shown = {function.vendor for function in self._bus.gpus}
        shown |= {vendor for vendor, driver in self._drivers.items() if driver.devices}
        return tuple(vendor for vendor in self._drivers if vendor in shown) or (NVIDIA,)

    @cached_property
    def pci_errors(self) -> PciErrors:
        """The errors on its PCI bus."""
        return PciErrors(self._bus, self.gpus, self.uptime_hours)

    @cached_property
    def shared_memory(self) -> SharedMemory:
        """What lies in its shared memory, /dev/shm."""
        return SharedMemory(self._evidence, [one.condition.at_work for one in self.gpus])

    # --- NVLink ----------------------------------------------------------------------------------

    @property
    def rack(self) -> Membership:
        """Its place in a rack whose machines NVLink joins."""
        return Membership(self.gpus)

    @cached_property
    def imex(self) -> Imex:
        """The daemon by which the machines of a rack share GPU memory."""
        return imex.read(self._evidence)

    # --- ports -----------------------------------------------------------------------------------

    @property
    def ports(self) -> tuple[Port, ...]:
        """All ports of its RDMA devices."""
        return self._adapters.ports

    @property
    def roce_ports(self) -> tuple[Port, ...]:
        """The RoCE ports of the compute fabric."""
        return self.fabric.roce_ports

    @cached_property
    def fabric(self) -> Fabric:
        """Its compute fabric: the declared ports, else those that seem to be."""
        return Fabric(self._evidence, self._adapters, self._fabric)

    @property
    def planes(self) -> Planes:
        """The planes of its compute fabric."""
        return Planes(self.fabric, self._adapters, self.gpus_on_bus)

    @cached_property
    def _adapters(self) -> Adapters:
        adapters = Adapters(self.name, self._evidence)
        for port in adapters.ports:
            port.past = self.past
        return adapters

    @property
    def ports_unread(self) -> Unread | None:
        """Why it may have ports that are not among these; None if it has not."""
        return self._adapters.unread

    @property
    def nics(self) -> tuple[Nic, ...]:
        """Its network cards of the ConnectX and BlueField families."""
        return self._nics.connectx

    @property
    def nics_found(self) -> Fact[tuple[Nic, ...]]:
        """The same, or why they are not known."""
        return self._nics.unread or Read(self.nics)

    @cached_property
    def _nics(self) -> Nics:
        nics = Nics(self.name, self._evidence)
        for nic in nics.connectx:
            nic.past = self.past
        return nics

    # --- the host --------------------------------------------------------------------------------

    @property
    def memlock(self) -> Fact[str]:
        """How much memory a process may lock: ``unlimited``, or e.g. ``64 KiB``."""
        return host.memlock(self._evidence)

    @property
    def clock_synchronized(self) -> Fact[bool]:
        """Whether the kernel holds its clock for synchronized."""
        return host.clock_synchronized(self._evidence)

    @property
    def clock_max_error_ms(self) -> Fact[float]:
        """The largest error that the kernel allows for in its clock, in milliseconds."""
        return host.clock_max_error_ms(self._evidence)

    @property
    def uptime_hours(self) -> Fact[float]:
        """For how many hours its kernel has been up."""
        return host.uptime_hours(self._evidence)

    @property
    def is_called_so(self) -> Fact[bool]:
        """Whether it calls itself by the name by which it was asked for, or by one that a scheduler has."""
        return host.is_called(self._evidence, (self.name, *self.aliases), self.scheduled_boot)

    @property
    def boot_id(self) -> Fact[str]:
        """What its kernel calls this boot."""
        return host.boot_id(self._evidence)

    @cached_property
    def since(self) -> NodeSince:
        """What became of it since an earlier recording."""
        return NodeSince(self, self.past, self._evidence)

    @cached_property
    def exposure(self) -> Exposure:
        """What lies open on it."""
        return Exposure(self._evidence)

    @cached_property
    def settings(self) -> Settings:
        """How it is set up: limits, memory, processors, file systems, services."""
        return Settings(self._evidence, self._bus)

    @cached_property
    def kernel_log(self) -> KernelLog:
        """What its kernel log says."""
        return KernelLog.unread(self.silence) if self.silence else kernel_log.read(self._evidence)

    @cached_property
    def amdgpu_log(self) -> AmdgpuLog:
        """What its kernel log says of AMD's GPUs."""
        if self.silence:
            return AmdgpuLog.unread(self.silence)
        return amdgpu_log.read(self._evidence, self.gpu_places)

    @property
    def gpu_places(self) -> Mapping[str, str]:
        """What its GPUs are called, by address."""
        return {one.bdf.value: one.where.partition("/")[2] for one in self.gpus if isinstance(one.bdf, Read)}

    # --- what it shows ---------------------------------------------------------------------------

    def shows(self, need: str) -> Fact[bool]:
        """Tell whether the node itself shows that it has what ``needs`` calls by this name."""
        match need:
            case "gpu":
                return self._shows_gpu(NVIDIA, AMD)
            case "nvidia":
                return self._shows_gpu(NVIDIA)
            case "amd":
                return self._shows_gpu(AMD)
            case "rdma":
                return self._adapters.present
            case "roce":
                return self._shows_port(self.roce_ports, ETHERNET)
            case "infiniband":
                return self._shows_port(self.fabric.infiniband_ports, INFINIBAND)
            case "dpu":
                return self.exposure.has_dpu
            case "nvlink" | "nvswitch" | "nvl72" | "hgx" | "imex":
                return self._shows_scale_up(need)
            case "vm":
                return host.is_virtual(self._evidence)
            case "bare_metal":
                return mapped(host.is_virtual(self._evidence), lambda virtual: not virtual)
            case "connectx":
                return self._nics.unread or Read(bool(self.nics))
            case need if need in _SOFTWARE:
                return self.versions.has(need)
        return self.seats.get(need) or self._shows_build(need)

    def sightings(self, domain: str, needs: tuple[str, ...]) -> Mapping[str, Fact[int]]:
        """Count the subjects of a domain, by witness."""
        if domain == "gpu":
            return {"bus": self.gpus_on_bus, "driver": self.gpus_in_driver}
        if domain == "nic":
            return {"sysfs": self._nics.unread or Read(len(self.nics))}
        if domain == "port":
            return {"sysfs": self._adapters.unread or Read(len(self._ports_for(needs)))}
        return {}

    def _ports_for(self, needs: tuple[str, ...]) -> tuple[Port, ...]:
        if "roce" in needs:
            return self.roce_ports
        if "infiniband" in needs:
            return self.fabric.infiniband_ports
        return self.fabric.ports if "rdma" in needs else self.ports

    def _shows_gpu(self, *vendors: str) -> Fact[bool]:
        listed = any(self._drivers[vendor].devices for vendor in vendors)
        if listed or any(function.vendor in vendors for function in self._bus.gpus):
            return Read(value=True, evidence=self._bus.evidence)
        return mapped(self._bus.count, lambda _: False)

    def _shows_scale_up(self, need: str) -> Fact[bool]:
        """Tell the same of what joins GPUs beside the network."""
        match need:
            case "nvlink":
                return self._shows_nvlink()
            case "nvswitch":
                return self._bus.switches or self._shows_fabric(nvlink_fabric.in_fabric)
            case "nvl72":
                return self._shows_fabric(nvlink_fabric.in_rack)
            case "hgx":
                return mapped(self._shows_fabric(nvlink_fabric.in_rack), lambda joined: not joined)
        return self.imex.running

    def _shows_nvlink(self) -> Fact[bool]:
        """Tell whether there is anything that NVLink could join: another GPU here, or one through a switch.

        More than one GPU say by their product what they have. One that is alone may rightly have no link up:
        a virtual machine that was given one of eight, or a Grace Hopper.
        """
        here = self._shows_gpu(NVIDIA)
        if isinstance(here, Unread) or not here.value:
            return here
        functions = sum(function.vendor == NVIDIA for function in self._bus.gpus)
        up = (one.nvlink.up for one in self.gpus)
        linked = any(isinstance(fact, Read) and fact.value for fact in up)
        if linked or max(functions, len(self._driver.devices)) > 1:
            return here
        return self._shows_fabric(nvlink_fabric.in_rack)

    def _shows_fabric(
        self, tells: Callable[[tuple[str, ...], nvlink_fabric.Fabric], Fact[bool]]
    ) -> Fact[bool]:
        """Tell whether one of its GPUs is surely in a fabric, or surely not; else the first says why."""
        here = self._shows_gpu(NVIDIA)
        if isinstance(here, Unread) or not here.value:
            return here
        told = [tells(one.models, one.fabric) for one in self.gpus]
        sure = [fact for fact in told if isinstance(fact, Read)]
        return next((fact for fact in sure if fact.value), (sure or told)[0])

    def _shows_port(self, ports: tuple[Port, ...], link_layer: str) -> Fact[bool]:
        """Tell whether one of these is surely of a link layer; of those in doubt the first says why."""
        doubts = [port.link_layer for port in ports]
        if any(isinstance(doubt, Read) and doubt.value == link_layer for doubt in doubts):
            return Read(value=True)
        unread = next((doubt for doubt in doubts if isinstance(doubt, Unread)), self._adapters.unread)
        return unread or Read(value=False)
