"""What a node says of how its GPUs are set, of its processors and memory, and of its local drives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from recorded.items import library, tree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuassay.evidence.item import Item


def gpu_settings(watts: int, clock: int, memory_clock: int) -> dict[str, Any]:
    """Return what the driver says of a GPU that is as it left the factory."""
    return {
        "mig": 0,
        "mig_pending": 0,
        "persistence": True,
        "power": {"enforced_mw": 1000 * watts, "default_mw": 1000 * watts},
        "clocks": {
            "applications": clock,
            "applications_default": clock,
            "memory": memory_clock,
            "memory_default": memory_clock,
            "max": clock,
        },
    }


@dataclass(frozen=True)
class Build:
    """How a machine is built: its NUMA nodes share ``threads`` and memory (bytes) evenly.

    ``drives`` are models of NVMe drives with their size in bytes.
    """

    sockets: int
    cores: int
    threads: int
    memory: int
    drives: tuple[tuple[str, int], ...] = ()

    def items(self) -> list[Item]:
        """Return what the kernel says of processors, NUMA nodes and drives."""
        return [
            tree("processors", "/sys/devices/system/cpu", self._processors()),
            tree("numa", "/sys/devices/system/node", self._numa()),
            tree("nvme", "/sys/class/nvme", {f"nvme{n}": drive(n, *each) for n, each in self._numbered()}),
        ]

    def health(self) -> Item:
        """Return the health logs of drives that are a year old."""
        log = {"critical_warning": 0, "spare_percent": 100, "spare_threshold_percent": 10}
        logs = {f"nvme{n}": log | {"used_percent": 4, "media_errors": 0} for n, _ in self._numbered()}
        return library("nvme-health", "nvme", logs)

    def _numbered(self) -> Iterable[tuple[int, tuple[str, int]]]:
        return enumerate(self.drives)

    def _processors(self) -> dict[str, Any]:
        """Return the processors, numbered as x86 does: first one thread of each core, then the others."""
        ways = self.threads // self.cores
        cores = [",".join(str(core + way * self.cores) for way in range(ways)) for core in range(self.cores)]
        every = f"0-{self.threads - 1}"
        packages = [self._share(socket) for socket in range(self.sockets)]
        return {"online": every, "present": every, "packages": packages, "cores": cores}

    def _share(self, socket: int) -> str:
        """Return the processors of one socket."""
        size = self.cores // self.sockets
        firsts = range(socket * size, self.threads, self.cores)
        return ",".join(f"{first}-{first + size - 1}" for first in firsts)

    def _numa(self) -> dict[str, Any]:
        kib = self.memory // 1024 // self.sockets
        near, far = "10", "21"
        return {
            f"node{socket}": {
                "cpulist": self._share(socket),
                "distance": " ".join(near if other == socket else far for other in range(self.sockets)),
                "memory": f"{kib} kB",
            }
            for socket in range(self.sockets)
        }


def drive(number: int, model: str, size: int) -> dict[str, Any]:
    """Return one local drive with one namespace."""
    about = {
        "model": model,
        "firmware_rev": "EX1.0.3",
        "transport": "pcie",
        "state": "live",
        "numa_node": "0",
    }
    return about | {"sectors": {f"nvme{number}n1": str(size // 512)}}


def with_driver(items: list[Item]) -> list[Item]:
    """Leave the memory of coherent GPUs to their driver, as its module was told when it was loaded."""
    old, new = b'CoherentGPUMemoryMode: ""', b'CoherentGPUMemoryMode: "driver"'
    return [replace(item, out=item.out.replace(old, new)) for item in items]
