"""The part of a recorded node that every Linux machine has."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from recorded import exposure, health, settings, storage
from recorded.items import absent, command, dashed, file, library, made_up, tree
from recorded.software import KERNEL, Software

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuassay.evidence.item import Item

Record = tuple[int, int, str]  # of the kernel log: priority, microseconds since boot, message

OS_RELEASE = """\
PRETTY_NAME="Ubuntu 24.04.3 LTS"
NAME="Ubuntu"
VERSION_ID="24.04"
VERSION="24.04.3 LTS (Noble Numbat)"
ID=ubuntu
ID_LIKE=debian
"""

# The kernel's own spelling of /proc/self/limits, blanks at the line ends included.
LIMITS = "".join(
    f"{name:<26}{soft:<21}{hard:<21}{unit:<10}\n"
    for name, soft, hard, unit in (
        ("Limit", "Soft Limit", "Hard Limit", "Units"),
        ("Max stack size", "8388608", "unlimited", "bytes"),
        ("Max core file size", "0", "unlimited", "bytes"),
        ("Max processes", "4194304", "4194304", "processes"),
        ("Max open files", "1048576", "1048576", "files"),
        ("Max locked memory", "unlimited", "unlimited", "bytes"),
        ("Max address space", "unlimited", "unlimited", "bytes"),
    )
)

# What adjtimex(2) answers on a host that chrony disciplines: TIME_OK, STA_NANO | STA_PLL.
CLOCK = {"state": 0, "status": 0x2001, "offset_us": 1.7, "maxerror_us": 8500, "esterror_us": 12}


def boot(machine: str) -> tuple[Record, ...]:
    """Return the boot messages of the kernel."""
    architecture = {"x86_64": "x86-64", "aarch64": "arm64"}[machine]
    return (
        (5, 0, f"Linux version {KERNEL} (buildd@example) (gcc-13 13.3.0) #137-Ubuntu SMP PREEMPT_DYNAMIC"),
        (6, 0, "Command line: BOOT_IMAGE=/boot/vmlinuz ro iommu=pt console=tty0"),
        (6, 4100233, f"systemd[1]: Detected architecture {architecture}."),
        (6, 5021876, "EXT4-fs (sda2): mounted filesystem ro with ordered data mode. Quota mode: none."),
    )


@dataclass(frozen=True)
class Host:
    """What tells one kind of host from another: memory in bytes, uptime in seconds."""

    vendor: str
    product: str
    bios: str
    cpu: str
    cpus: int
    memory: int
    uptime: float
    virt: str = "none"
    machine: str = "x86_64"
    software: Software = field(default_factory=Software)
    shared_home: bool = True

    def items(self, node: str, log: Iterable[Record] = (), devices: Iterable[Item] = ()) -> list[Item]:
        """Return the items of this host in good health, in the order in which the probe asks.

        ``log`` comes after the boot messages of its kernel log; ``devices`` are asked for before the log.
        """
        devices = tuple(devices)
        boot_id = dashed(made_up(node, "boot"))
        idle = self.uptime * self.cpus * 0.97
        return [
            library("host", "platform", self._platform(node)),
            file("os-release", "/etc/os-release", OS_RELEASE),
            file("boot-id", "/proc/sys/kernel/random/boot_id", f"{boot_id}\n"),
            file("uptime", "/proc/uptime", f"{self.uptime:.2f} {idle:.2f}\n"),
            file("limits", "/proc/self/limits", LIMITS),
            library("cpuinfo", "cpuinfo", {"model": self.cpu, "hypervisor": self._hypervisor()}),
            tree("dmi", "/sys/class/dmi/id", self._dmi()),
            library("clock", "adjtimex", CLOCK),
            *devices,
            exposure.item(virtual=self.virt != "none"),
            exposure.virtualization(self.machine, virtual=self.virt != "none"),
            *settings.items(self, devices),
            health.shm(self.memory),
            kernel_log((*boot(self.machine), *log)),
            *self.software.items(),
            command("virt", ["systemd-detect-virt"], f"{self.virt}\n", status=int(self.virt == "none")),
            storage.item(devices, shared=self.shared_home),
        ]

    def _platform(self, node: str) -> dict[str, str | int]:
        return {
            "hostname": node,
            "kernel": KERNEL,
            "machine": self.machine,
            "python": "3.12.3",
            "uid": 0,
            "cpus": self.cpus,
            "memory_bytes": self.memory,
            "page_size": 4096,
        }

    def _hypervisor(self) -> bool | dict[str, str]:
        if self.machine == "x86_64":
            return self.virt != "none"
        return {"unread": "not_found", "why": "this architecture has no flag for it"}

    def _dmi(self) -> dict[str, str]:
        return {
            "sys_vendor": self.vendor,
            "product_name": self.product,
            "board_vendor": self.vendor,
            "bios_version": self.bios,
            "chassis_type": "1" if self.virt != "none" else "23",
        }


def no_amdgpu() -> tuple[Item, ...]:
    """Return what is asked of AMD's driver where there is none."""
    return (
        tree("amdgpu", "/sys/bus/pci/drivers/amdgpu", {}),
        absent("amdgpu-version", {"file": "/sys/module/amdgpu/version"}),
        tree("kfd", "/sys/class/kfd/kfd/topology/nodes", {}),
        absent("kfd-users", {"tree": "/sys/class/kfd/kfd/proc"}, "/sys/class/kfd/kfd/proc: no such folder"),
        absent("rocm", {"file": "/opt/rocm/.info/version"}),
    )


def kernel_log(records: Iterable[Record]) -> Item:
    """Return a kernel log as /dev/kmsg gives it, from the boot on."""
    lines = (f"{prio},{seq},{usec},-;{said}" for seq, (prio, usec, said) in enumerate(records))
    return replace(library("kmsg", "kmsg", None), out="\n".join(lines).encode())
