"""A virtual machine to which eight NVIDIA H200 and eight InfiniBand functions are passed through.

It is a node with eight H200 as far as GPUs and ports go. What a guest sees otherwise: emulated root ports and
no switches above its devices, no NVSwitch (the host's own manager partitions the fabric), virtual functions
of the adapters, a virtio card, no BMC, no IOMMU, nobody who counts errors of the bus, and processors that
keep their frequency to themselves.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from recorded import hardware, hgx_b200, hgx_h200, measurements, northsouth
from recorded.hgx_b200 import BRIDGE, GPU, GPUS, adapter, function
from recorded.host import Host
from recorded.items import encode, library, tree
from recorded.software import Software

if TYPE_CHECKING:
    from gpuassay.evidence.item import Item

HOST = Host(
    vendor="Example Cloud",
    product="gpu-h200-8",
    bios="1.0",
    cpu="Intel Xeon Processor (SapphireRapids)",
    cpus=176,
    memory=1_902_402_912_256,
    uptime=604_812.55,
    virt="kvm",
    software=Software.nvidia(hgx_b200.DRIVER),
)
BUILD = hardware.Build(
    sockets=2,
    cores=88,
    threads=176,
    memory=HOST.memory,
    drives=(("EXAMPLE SSD 3.84TB", 3_840_755_982_336),) * 8,
)
VIRTUAL_ADAPTER = {"fw_ver": "28.46.3048", "hca_type": "MT4126", "board_id": "MT_0000000838"}
VIRTIO = "0000:00:02.0"
PER_NUMA_NODE = GPUS // 2


def node(name: str, index: int) -> list[Item]:
    """Return what the probe brings home from the ``index``-th machine of such a cluster (from 1)."""
    physical = {item.id: item for item in hgx_h200.node(name, index)}
    devices = [
        tree("pci", "/sys/bus/pci/devices", pci()),
        tree("infiniband", "/sys/class/infiniband", infiniband(index)),
        tree("net", "/sys/class/net", net()),
        *BUILD.items(),
        *(physical[item] for item in ("dcb", "gpudirect", "nccl", "nvidia-module", "nvidia-sysfs-version")),
        *(physical[item] for item in ("amdgpu", "amdgpu-version", "kfd", "kfd-users", "rocm")),
    ]
    devices = [replace(item, out=encode({})) if item.id == "dcb" else item for item in devices]
    guest = [_numa(item) for item in HOST.items(name, hgx_b200.kernel_log(), devices)]
    return [
        *(_without_manager(item) for item in guest),
        BUILD.health(),
        physical["imex"],
        library("nvml", "nvml", nvml(json.loads(physical["nvml"].out))),
        physical["measure/dcgm_diag"],
        measurements.metadata({"status": 401}),
        northsouth.exports(),
        measurements.fabric_seat(),
    ]


def _numa(item: Item) -> Item:
    """Show two NUMA nodes, as the host passes them on."""
    return (
        replace(item, out=item.out.replace(b'/node/online":"0"', b'/node/online":"0-1"'))
        if item.id == "settings"
        else item
    )


def _without_manager(item: Item) -> Item:
    """Take away the Fabric Manager: it runs on the host, with the switches."""
    if item.id != "packages":
        return item
    packages = json.loads(item.out)
    del packages["nvidia-fabricmanager"]
    return replace(item, out=json.dumps(packages).encode())


def gpu(rail: int) -> str:
    """Return the PCI address of a GPU in the guest."""
    return f"0000:{0x10 + rail:02x}:00.0"


def port(rail: int) -> str:
    """Return the PCI address of an InfiniBand function in the guest."""
    return f"0000:{0x20 + rail:02x}:00.0"


def pci() -> dict[str, dict[str, Any]]:
    """Return the PCI devices: each GPU and each adapter alone below an emulated root port; then virtio."""
    devices = {
        "0000:00:00.0": _bare("0x8086", "0x29c0", "0x060000"),
        VIRTIO: _bare("0x1af4", "0x1041", "0x020000") | {"aer": {}},
    }
    for rail in range(GPUS):
        numa = str(rail // PER_NUMA_NODE)
        for slot, (address, product, kind) in enumerate(
            ((gpu(rail), "10de:2335", GPU), (port(rail), "15b3:101e", "0x020700"))
        ):
            root = f"0000:00:{3 + 2 * rail + slot:02x}.0"
            devices[root] = _emulated(numa)
            devices[address] = _passed(product, kind, numa, root)
    return dict(sorted(devices.items()))


def _bare(vendor: str, device: str, kind: str) -> dict[str, Any]:
    about = {"vendor": vendor, "device": device, "class": kind}
    return about | {"revision": "0x00", "power_state": "D0", "numa_node": "-1"}


def _emulated(numa: str) -> dict[str, Any]:
    """Return a root port of QEMU, which says that it has 32 lanes of PCIe 4 whatever is below."""
    return _bare("0x1b36", "0x000c", BRIDGE) | {
        "driver": "pcieport",
        "aer": {},
        "numa_node": numa,
        "max_link_speed": "16.0 GT/s PCIe",
        "max_link_width": "32",
        "current_link_speed": "16.0 GT/s PCIe",
        "current_link_width": "16",
    }


def _passed(product: str, kind: str, numa: str, root: str) -> dict[str, Any]:
    """Return a device that is passed through; a virtual function of an adapter has no link of its own."""
    if kind == GPU:
        return function(product, kind, numa, parent=root) | {"subsystem_device": "0x18be", "aer": {}}
    found = function("15b3:101e", hgx_b200.NIC, numa, parent=root) | {
        "class": kind,
        "subsystem_device": "0x0023",
    }
    speed = {"current_link_speed": "Unknown", "max_link_speed": "Unknown"}
    return found | speed | {"current_link_width": "0", "max_link_width": "0"}


def infiniband(index: int) -> dict[str, Any]:
    """Return the RDMA devices of the ``index``-th machine, all of the compute fabric."""
    return {
        name: adapter(VIRTUAL_ADAPTER, port(rail), hgx_h200.port(index, rail))
        for rail, name in enumerate(hgx_h200.COMPUTE)
    }


def net() -> dict[str, dict[str, str]]:
    """Return the network interfaces: IP over InfiniBand, and the virtio card, which names no speed."""
    up = {"operstate": "up", "carrier_down_count": "1"}
    over = {f"ib{rail}": up | {"mtu": "4092", "pci": port(rail)} for rail in range(GPUS)}
    front = {"enp0s2": up | {"mtu": "1500", "speed": "-1", "pci": VIRTIO}}
    return front | over | {"lo": {"operstate": "unknown", "mtu": "65536"}}


def nvml(answers: dict[str, Any]) -> dict[str, Any]:
    """Return what the driver says in the guest: the same GPUs at other addresses."""
    for rail, device in enumerate(answers["devices"]):
        device["pci"] = gpu(rail)
    return answers
