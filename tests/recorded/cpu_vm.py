"""A virtual machine without any GPU or RDMA device, as continuous integration has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recorded import fabric, hardware
from recorded.host import Host, no_amdgpu
from recorded.items import NO_FILE, absent, tree

if TYPE_CHECKING:
    from gpuassay.evidence.item import Item

HOST = Host(
    vendor="QEMU",
    product="Standard PC (Q35 + ICH9, 2009)",
    bios="1.16.3-debian-1.16.3-2",
    cpu="Intel Xeon Processor (SapphireRapids)",
    cpus=8,
    memory=33_653_846_016,
    uptime=604_812.55,
    virt="kvm",
    shared_home=False,
)

BUILD = hardware.Build(sockets=1, cores=4, threads=8, memory=HOST.memory)

# Address → (device, class) of the Q35 chipset and of virtio 1.0 devices, as the kernel names them.
PCI = {
    "0000:00:00.0": ("0x8086", "0x29c0", "0x060000"),
    "0000:00:1f.0": ("0x8086", "0x2918", "0x060100"),
    "0000:01:00.0": ("0x1af4", "0x1041", "0x020000"),
    "0000:02:00.0": ("0x1af4", "0x1042", "0x010000"),
}


def node(name: str, _index: int) -> list[Item]:
    """Return what the probe brings home from such a machine."""
    pci = {
        address: {"vendor": vendor, "device": device, "class": kind, "power_state": "D0", "numa_node": "-1"}
        for address, (vendor, device, kind) in PCI.items()
    }
    net = {
        "lo": {"operstate": "unknown", "mtu": "65536"},
        "enp1s0": {"operstate": "up", "mtu": "1500", "pci": "0000:01:00.0"},
    }
    devices = (
        tree("pci", "/sys/bus/pci/devices", pci),
        tree("infiniband", "/sys/class/infiniband", {}),
        tree("net", "/sys/class/net", net),
        *BUILD.items(),
        *fabric.items(),
        absent("nvidia-module", {"file": "/proc/driver/nvidia/version"}),
        absent("nvidia-sysfs-version", {"file": "/sys/module/nvidia/version"}),
        *no_amdgpu(),
    )
    return [
        *HOST.items(name, devices=devices),
        BUILD.health(),
        absent("imex", {"command": ["nvidia-imex-ctl", "-N"]}, f"nvidia-imex-ctl: {NO_FILE}"),
        absent("nvml", {"library": "nvml"}, "libnvidia-ml.so.1: cannot open shared object file: " + NO_FILE),
        absent("nvidia-smi-xml", {"command": ["nvidia-smi", "-q", "-x"]}, f"nvidia-smi: {NO_FILE}"),
    ]
