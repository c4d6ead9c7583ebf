"""The device that a rank works on: a GPU of NVIDIA or AMD, or the processor where there is neither.

To torch, ROCm is CUDA by another name; what differs between the three is here.
"""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MIB = 1 << 20
_LEAST_FLUSH = {"cuda": 256 * MIB, "rocm": 512 * MIB, "cpu": MIB}


@dataclass(frozen=True)
class Device:
    """One device. ``kind`` is cuda, rocm or cpu; ``place`` is what torch calls it."""

    kind: str
    place: str
    name: str
    address: str = ""
    capability: str = ""
    memory: int = 0
    cache: int = 0

    @property
    def accelerator(self) -> bool:
        """Whether it is more than a processor."""
        return self.kind != "cpu"

    @property
    def flush(self) -> int:
        """How many bytes of operands a kernel goes through before it meets the same ones again.

        More than the last-level cache holds, which the driver does not always tell of: AMD's Infinity Cache
        has 256 MiB.
        """
        return max(2 * self.cache, _LEAST_FLUSH[self.kind])

    def mark(self) -> GpuMark | CpuMark:
        """Set a mark behind all work that was queued so far."""
        return GpuMark() if self.accelerator else CpuMark()

    def wait(self) -> None:
        """Wait until all queued work is done."""
        if self.accelerator:
            import torch  # noqa: PLC0415 - loaded only where it runs

            torch.cuda.synchronize()

    def free_memory(self) -> int:
        """Tell how many bytes can be allocated."""
        if not self.accelerator:
            return 1 << 30
        import torch  # noqa: PLC0415

        return int(torch.cuda.mem_get_info()[0])

    def document(self) -> dict[str, Any]:
        """Give it as a rank prints it."""
        return {
            "kind": self.kind,
            "name": self.name,
            "address": self.address,
            "capability": self.capability,
            "memory_bytes": self.memory,
            "cache_bytes": self.cache,
        }


class GpuMark:
    """An event on the GPU: its own clock, not ours."""

    def __init__(self) -> None:
        """Record it behind what is queued."""
        import torch  # noqa: PLC0415

        self.event = torch.cuda.Event(enable_timing=True)
        self.event.record()

    def wait(self) -> None:
        """Wait until the GPU is past it."""
        self.event.synchronize()

    def until(self, later: Any) -> float:
        """Tell the seconds from this mark to a later one; both have been passed."""
        return float(self.event.elapsed_time(later.event)) / 1e3


class CpuMark:
    """A moment: on a processor, what was called is done."""

    def __init__(self) -> None:
        """Take the time."""
        self.at = time.perf_counter_ns()

    def wait(self) -> None:
        """Be past it already."""

    def until(self, later: Any) -> float:
        """Tell the seconds from this mark to a later one."""
        return float(later.at - self.at) / 1e9


def choose(local_rank: int) -> Device:
    """Take the accelerator of this rank, or the processor where torch has none.

    Raises IndexError if there are fewer accelerators than ranks.
    """
    import torch  # noqa: PLC0415

    if not torch.cuda.is_available():
        torch.set_num_threads(1)  # tiny work is not shared out, and a rank beside us wants to run too
        return Device("cpu", "cpu", _processor())
    if local_rank >= torch.cuda.device_count():
        raise IndexError(
            f"rank {local_rank} of this node has no device: torch sees {torch.cuda.device_count()}"
        )
    torch.cuda.set_device(local_rank)
    seen = torch.cuda.get_device_properties(local_rank)
    hip = bool(torch.version.hip)
    return Device(
        kind="rocm" if hip else "cuda",
        place=f"cuda:{local_rank}",
        name=str(seen.name),
        address=f"{seen.pci_domain_id:04x}:{seen.pci_bus_id:02x}:{seen.pci_device_id:02x}.0",
        capability=str(seen.gcnArchName).partition(":")[0] if hip else f"{seen.major}.{seen.minor}",
        memory=int(seen.total_memory),
        cache=int(getattr(seen, "L2_cache_size", 0)),
    )


def bare_versions() -> dict[str, str]:
    """Name what a figure depends on that has nothing to do with torch."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "kernel": platform.release(),
    }


def versions() -> dict[str, str]:
    """Name the libraries that a figure depends on."""
    import torch  # noqa: PLC0415

    found = {
        **bare_versions(),
        "torch": str(torch.__version__),
        "cuda": str(torch.version.cuda or ""),
        "hip": str(torch.version.hip or ""),
    }
    return {name: version for name, version in found.items() if version}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())
