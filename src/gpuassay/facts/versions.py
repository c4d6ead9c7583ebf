"""What runs on a node, in which version, and from where: the facts by which it is held to advisories."""

from __future__ import annotations

import json
import re
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts import packages
from gpuassay.facts.kernel import Kernel
from gpuassay.facts.packages import Packages
from gpuassay.facts.record import mapped
from gpuassay.facts.source import document, text
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.facts.nvidia import Driver
    from gpuassay.facts.packages import Component
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

_RUNTIMES = (packages.DOCKER, packages.CONTAINERD, packages.CRIO, packages.RUNC)
_FABRIC_MANAGER = r"nvidia-fabric-?manager(-[0-9]+)?"
_BLUEFIELD_3 = frozenset({"0xa2dc", "0xa2d9"})  # PCI Device IDs of 15b3: the card, and it in recovery

# The words of [needs] that are a component.
COMPONENTS: Mapping[str, Component] = {
    "runc": packages.RUNC,
    "containerd": packages.CONTAINERD,
    "docker": packages.DOCKER,
    "crio": packages.CRIO,
    "container_toolkit": packages.CONTAINER_TOOLKIT,
    "dcgm": packages.DCGM,
    "dcgm_exporter": packages.DCGM_EXPORTER,
    "qemu": packages.QEMU,
}


class Versions:
    """The software of a node."""

    def __init__(self, evidence: Evidence, driver: Driver, module: Fact[str]) -> None:
        """Take the GPU driver of the same node, and the version of its kernel module."""
        self._evidence = evidence
        self._driver = driver
        self._module = module

    @cached_property
    def _packages(self) -> Packages:
        return Packages(self._evidence)

    @cached_property
    def kernel(self) -> Kernel:
        """The kernel."""
        return Kernel(self._evidence, self._packages)

    @property
    def system(self) -> Fact[str]:
        """The operating system, e.g. ``Ubuntu 24.04.3 LTS``."""
        return self._packages.system

    # --- containers ------------------------------------------------------------------------------

    @property
    def runc(self) -> Fact[str]:
        """What starts containers: ``upstream/runc 1.3.6``."""
        return self._packages.version(packages.RUNC)

    @property
    def containerd(self) -> Fact[str]:
        """The container runtime below Docker and Kubernetes."""
        return self._packages.version(packages.CONTAINERD)

    @property
    def docker(self) -> Fact[str]:
        """Docker Engine."""
        return self._packages.version(packages.DOCKER)

    @property
    def crio(self) -> Fact[str]:
        """The container runtime of OpenShift and others."""
        return self._packages.version(packages.CRIO)

    @property
    def container_toolkit(self) -> Fact[str]:
        """What gives containers their GPUs."""
        return self._packages.version(packages.CONTAINER_TOOLKIT)

    @property
    def container_runtime(self) -> Fact[str]:
        """All that runs containers, in one line; ``none`` where nothing does."""
        found = [self._packages.version(component) for component in _RUNTIMES]
        for version in found:
            if isinstance(version, Unread) and version.kind != "not_found":
                return version
        said = [version.value for version in found if isinstance(version, Read)]
        return Read(", ".join(said) or "none", found[0].evidence)

    # --- the GPU driver's companions -------------------------------------------------------------

    @property
    def library_fits_module(self) -> Fact[bool]:
        """Whether the driver's library is of the version of the kernel module that is loaded."""
        mismatch = self._driver.mismatch
        if mismatch:
            return Read(value=False, evidence=mismatch.evidence, note=mismatch.why)
        library, module = self._driver.library, self._module
        if isinstance(library, Unread):
            return library
        if isinstance(module, Unread):
            return module
        fits = library.value == module.value
        note = f"library {library.value}, loaded kernel module {module.value}; reload the module or reboot"
        return Read(fits, library.evidence, f"driver/library version mismatch: {note}")

    @property
    def fabric_manager(self) -> Fact[str]:
        """The version of NVIDIA's Fabric Manager, as a number like the driver's."""
        found = self._packages.named(_FABRIC_MANAGER)
        if isinstance(found, Unread):
            return found
        if not found.value:
            return Unread("not_found", "no package of the Fabric Manager is installed", found.evidence)
        return Read(max(one.upstream for one in found.value), found.evidence)

    @property
    def dcgm(self) -> Fact[str]:
        """NVIDIA's health and monitoring daemon."""
        return self._packages.version(packages.DCGM)

    @property
    def dcgm_exporter(self) -> Fact[str]:
        """What brings its figures to Prometheus."""
        return self._packages.version(packages.DCGM_EXPORTER)

    @cached_property
    def _toolkit(self) -> Fact[str]:
        said = text(self._evidence, "cuda-toolkit")
        if isinstance(said, Unread):
            return said
        try:
            version = json.loads(said.value)["cuda"]["version"]
        except (ValueError, LookupError, TypeError, RecursionError):
            version = ""
        if not isinstance(version, str) or not re.fullmatch(
            r"[0-9]{1,3}(\.[0-9]{1,5}){1,3}", version, re.ASCII
        ):
            return Unread("garbled", f"no version of CUDA in '{brief(said.value)}'", said.evidence)
        return Read(version, said.evidence)

    @property
    def cuda_toolkit(self) -> Fact[str]:
        """The CUDA toolkit at ``/usr/local/cuda``: ``upstream/cuda-toolkit 13.1.0``."""
        return mapped(self._toolkit, lambda version: f"upstream/cuda-toolkit {version}")

    @property
    def cuda_toolkit_runs(self) -> Fact[bool]:
        """Whether what it builds can run here: a driver runs all toolkits up to its own major version."""
        toolkit, driver = self._toolkit, self._driver.cuda
        if isinstance(toolkit, Unread):
            return toolkit
        if isinstance(driver, Unread):
            return driver
        major = toolkit.value.partition(".")[0]
        if int(major) <= driver.value // 1000:
            return Read(value=True, evidence=toolkit.evidence)
        compat = self._packages.named(rf"cuda-compat-{major}-[0-9]+")
        if isinstance(compat, Unread):
            return compat
        highest = f"{driver.value // 1000}.{driver.value % 1000 // 10}"
        note = f"toolkit {toolkit.value}, a driver for CUDA {highest}, and no cuda-compat-{major} package"
        return Read(bool(compat.value), toolkit.evidence, note)

    # --- hosts of virtual machines, and network cards --------------------------------------------

    @property
    def qemu(self) -> Fact[str]:
        """What runs virtual machines."""
        return self._packages.version(packages.QEMU)

    @property
    def rdma_driver(self) -> Fact[str]:
        """Whose mlx5 driver is loaded: a version of NVIDIA's own packages, or ``inbox`` for the kernel's."""
        said = text(self._evidence, "mlx5-version")
        if isinstance(said, Unread):
            return Read("inbox", said.evidence) if said.kind == "not_found" else said
        version = said.value.strip()
        if not re.fullmatch(r"[0-9][A-Za-z0-9.-]{0,40}", version, re.ASCII):
            return Unread("garbled", f"mlx5_core says its version is '{brief(said.value)}'", said.evidence)
        return Read(version, said.evidence)

    @property
    def virtio_net(self) -> Fact[str]:
        """The virtio-net controller of a BlueField-3: seen on the card's own system and nowhere else."""
        version = self._packages.version(packages.VIRTIO_NET)
        if isinstance(version, Unread):
            if version.kind != "not_found":
                return version
            why = "the controller runs on the BlueField card: evidence has to be taken there"
            return Unread("denied", why, version.evidence)
        number = [int(part) for part in re.findall(r"[0-9]+", version.value.partition(" ")[2])]
        if [25, 10, 2] <= number < [25, 10, 6]:
            why = f"{version.value} is mended if it is of LTS25, and not if it is of GA"
            return Unread("garbled", why, version.evidence)
        return version

    @property
    def has_bluefield_3(self) -> Fact[bool]:
        """Whether there is such a card on the bus, or this is one."""
        bus = document(self._evidence, "pci", missing="not_found")
        if bus.unread:
            return bus.unread
        ids = ((entry.look("vendor"), entry.look("device")) for _, entry in bus.items())
        shown = any(
            isinstance(vendor, Read)
            and isinstance(device, Read)
            and vendor.value == "0x15b3"
            and device.value in _BLUEFIELD_3
            for vendor, device in ids
        )
        own = self._packages.has(packages.VIRTIO_NET)
        return Read(shown or (isinstance(own, Read) and own.value), bus.evidence)

    def has(self, need: str) -> Fact[bool]:
        """Tell whether a node has what ``needs`` calls by one of the words for software."""
        if need == "cuda_toolkit":
            return _there(self._toolkit)
        if need == "fabric_manager":
            return _there(self.fabric_manager)
        if need == "bluefield3":
            return self.has_bluefield_3
        return self._packages.has(COMPONENTS[need])


def _there(fact: Fact[str]) -> Fact[bool]:
    """Tell whether something is there: also if it is of no known version, and not if it was not found."""
    if isinstance(fact, Read) or fact.kind == "garbled":
        return Read(value=True, evidence=fact.evidence)
    return Read(value=False, evidence=fact.evidence) if fact.kind == "not_found" else fact
