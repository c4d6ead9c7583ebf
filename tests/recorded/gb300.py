"""A compute tray of an NVL72 rack: two Grace processors, four NVIDIA GB300, a NIC of 800 Gb/s for each.

The shapes are those of the product: no x86, a PCI domain for each GPU, links that leave
the tray, and a fabric that is managed from the rack's switches. Addresses, serial numbers and UUIDs are
made up.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from recorded import fabric, hardware, health, measurements, northsouth, nvlink
from recorded.hgx_b200 import BRIDGE, DRIVER, GPU, LIBRARY, NIC, function
from recorded.host import Host, no_amdgpu
from recorded.items import dashed, file, library, made_up, tree
from recorded.software import Software

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuassay.evidence.item import Item
    from recorded.host import Record

GPUS = 4
RACK = 18  # trays of an NVL72 rack
DOMAINS = (0x0008, 0x0009, 0x0018, 0x0019)  # PCI domains, of GPU and NIC by rail
CLIQUE = 32766

HOST = Host(
    vendor="Example Systems",
    product="EX-NVL72-GB300",
    bios="1.9.0",
    cpu="CPU implementer 0x41, CPU part 0xd4f",
    cpus=144,
    memory=1_027_423_600_640,
    uptime=1_036_903.17,
    machine="aarch64",
    software=Software.nvidia(DRIVER),
)
BUILD = hardware.Build(
    sockets=2,
    cores=144,
    threads=144,
    memory=HOST.memory,
    drives=(("EXAMPLE SSD E1.S 3.84TB", 3_840_755_982_336),) * 4,
)
CONNECTX8 = {"fw_ver": "40.46.3048", "hca_type": "MT4131", "board_id": "MT_0000001069"}
BLUEFIELD3 = {"fw_ver": "32.46.3048", "hca_type": "MT41692", "board_id": "MT_0000000884"}
NCCL = {"NCCL_IB_HCA": "=" + ",".join(f"mlx5_{rail}" for rail in range(GPUS)), "NCCL_IB_TC": "106"}
FAST = "800 Gb/sec (4X XDR)"
FRONT_END = "0006:01:00.0"
MODULE = (
    f"NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  {DRIVER}  Release Build  (example@builder)\n"
    "GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)\n"
)


def node(name: str, index: int, *, trays: int) -> list[Item]:
    """Return what the probe brings home from the ``index``-th tray, of as many to a rack as ``trays``."""
    rack = (index - 1) // trays
    first = rack * trays + 1
    peers = [f"{name[:-3]}{n:03}" for n in range(first, first + trays)]
    devices = (
        tree("pci", "/sys/bus/pci/devices", pci()),
        tree("infiniband", "/sys/class/infiniband", infiniband(index)),
        tree("net", "/sys/class/net", net()),
        *fabric.items(
            {netdev(rail): [3] if rail < GPUS else [] for rail in range(GPUS + 1)},
            NCCL,
            ["gdrdrv"],
            # A leaf for each rail, where a whole rack was bought.
            {netdev(rail): (f"leaf{rail + 1}", f"swp{index}") for rail in range(GPUS) if trays == RACK},
        ),
        *BUILD.items(),
        file("nvidia-module", "/proc/driver/nvidia/version", MODULE),
        file("nvidia-sysfs-version", "/sys/module/nvidia/version", f"{DRIVER}\n"),
        *no_amdgpu(),
    )
    return [
        *hardware.with_driver(HOST.items(name, kernel_log(), devices)),
        BUILD.health(),
        nvlink.imex(peers, DRIVER, rack),
        library("nvml", "nvml", nvml(name, rack)),
        measurements.dcgm_diag(GPUS),
        measurements.metadata(),
        northsouth.exports(),
    ]


one_rack = partial(node, trays=RACK)
half_racks = partial(node, trays=4)


def kernel_log() -> Iterator[Record]:
    """Yield what the drivers say while they load."""
    for rail in range(GPUS):
        yield 6, 8_400_000 + rail, f"mlx5_core {nic(rail)}: firmware version: {CONNECTX8['fw_ver']}"
    yield 5, 21_380_114, f"NVRM: loading NVIDIA UNIX Open Kernel Module for aarch64  {DRIVER}  Release Build"
    yield 6, 23_907_551, "nvidia-uvm: Loaded the UVM driver, major device number 508."


def gpu(rail: int) -> str:
    """Return the PCI address of a GPU."""
    return f"{DOMAINS[rail]:04x}:06:00.0"


def nic(rail: int) -> str:
    """Return the PCI address of the NIC beside a GPU."""
    return f"{DOMAINS[rail]:04x}:03:00.0"


def pci() -> dict[str, dict[str, str]]:
    """Return the PCI devices: in each domain a root port with NIC and GPU; then the front end."""
    devices = {}
    for rail, domain in enumerate(DOMAINS):
        numa, root = str(rail // 2), f"{domain:04x}:00:00.0"
        devices[root] = function("10de:22b1", BRIDGE, numa, speed="64.0 GT/s PCIe")
        devices[nic(rail)] = function("15b3:1023", NIC, numa, parent=root, speed="64.0 GT/s PCIe")
        devices[gpu(rail)] = function("10de:31c2", GPU, numa, parent=root, speed="64.0 GT/s PCIe")
    devices["0006:00:00.0"] = function("10de:22b1", BRIDGE, "0")
    devices[FRONT_END] = function("15b3:a2dc", NIC, "0", parent="0006:00:00.0")
    return dict(sorted(devices.items()))


def infiniband(index: int) -> dict[str, Any]:
    """Return the RDMA devices of the ``index``-th node: ``mlx5_0`` and up by rail, then the front end."""
    compute = {f"mlx5_{rail}": adapter(CONNECTX8, nic(rail), index, rail, FAST) for rail in range(GPUS)}
    return compute | {f"mlx5_{GPUS}": adapter(BLUEFIELD3, FRONT_END, index, GPUS, "200 Gb/sec (4X HDR)")}


def adapter(model: dict[str, str], address: str, index: int, rail: int, rate: str) -> dict[str, Any]:
    """Return one RDMA device with one active Ethernet port that has one IPv4 address."""
    link_local = f"fe80:0000:0000:0000:0000:00ff:fe{rail:02x}:{index:04x}"
    ipv4 = f"0000:0000:0000:0000:0000:ffff:0a{100 + rail:02x}:{index:04x}"
    guid = made_up(address, index)[:14]
    port = {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "rate": rate,
        "link_layer": "Ethernet",
        "lid": "0x0",
        "sm_lid": "0x0",
        "cap_mask": "0x04010000",
        **fabric.counts(),
        **fabric.pkeys("0xffff"),
        "gids": {"0": link_local, "1": link_local, "2": ipv4, "3": ipv4},
        "types": {str(slot): f"{'RoCE v2' if slot % 2 else 'IB/RoCE v1'}" for slot in range(4)},
        "ndevs": {str(slot): netdev(rail) for slot in range(4)},
    }
    return model | {
        "node_guid": f"02{guid[:2]}:{guid[2:6]}:{guid[6:10]}:{guid[10:14]}",
        "pci": address,
        "ports": {"1": port},
    }


def netdev(rail: int) -> str:
    """Return the network interface of a rail, or of the front end where the rails end."""
    return f"rdma{rail}" if rail < GPUS else "enP6p1s0f0np0"


def net() -> dict[str, dict[str, str]]:
    """Return the network interfaces."""
    up = {"operstate": "up", "carrier_down_count": "1"}
    fast = {"mtu": "9000", "speed": "800000"}
    compute = {netdev(rail): up | fast | {"pci": nic(rail)} for rail in range(GPUS)}
    front = {netdev(GPUS): up | {"mtu": "1500", "speed": "200000", "pci": FRONT_END}}
    return front | {"lo": {"operstate": "unknown", "mtu": "65536"}} | compute


def nvml(name: str, rack: int) -> dict[str, Any]:
    """Return what the driver's management library says."""
    devices = [device(name, rail, rack) for rail in range(GPUS)]
    return {"driver": DRIVER, "library": LIBRARY, "cuda": 13000, "count": GPUS, "devices": devices}


def device(name: str, rail: int, rack: int) -> dict[str, Any]:
    """Return one healthy GPU: ``rail`` is its index. Both racks number their cliques alike."""
    identity = made_up(name, "gpu", rail)
    return {
        "index": rail,
        "name": "NVIDIA GB300",
        "pci": gpu(rail),
        "pci_device_id": "0x31C210DE",
        "pci_subsystem_id": "0x21F110DE",
        "uuid": f"GPU-{dashed(identity)}",
        "serial": f"18{int(made_up(name, 'board', rail // 2), 16) % 10**11:011d}",  # two to a board
        "board_part": "900-2G548-0081-000",
        "vbios": "97.10.4A.00.1A",
        "pstate": 0,
        **hardware.gpu_settings(watts=1400, clock=2070, memory_clock=3996),
        "memory_total_bytes": 284_208 * 1024**2,
        "ecc": {"current": True, "pending": True},
        "remapped_rows": {
            "correctable": 0,
            "uncorrectable": 0,
            "pending": False,
            "failed": False,
            "banks": {"max": 6144, "high": 0, "partial": 0, "low": 0, "none": 0},
        },
        "retired_pages_pending": {"unread": "unsupported", "why": "NVML: Not Supported (3)", "code": 3},
        "pcie": {"gen": 6, "gen_max": 6, "width": 16, "width_max": 16},
        **health.gpu(power_mw=168_000 + 900 * rail, degrees=37 + rail),
        "addressing": "ATS",
        "nvlink": nvlink.links(),
        "fabric": nvlink.fabric(dashed(made_up("rack", rack)), CLIQUE),
    }
