"""A node of eight NVIDIA B200 on an HGX board, with a 400 Gb/s RoCE port for each GPU and a front end.

The shapes are those of the products: device ids, link widths, memory sizes, firmware trains, the order of a
GID table. Addresses, serial numbers and UUIDs are made up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recorded import fabric, hardware, health, measurements, monitoring, northsouth, nvlink
from recorded.host import Host, no_amdgpu
from recorded.items import NO_FILE, absent, dashed, file, library, made_up, tree
from recorded.software import Software

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpuassay.evidence.item import Item
    from recorded.host import Record

DRIVER = "580.159.03"
LIBRARY = "13.580.159.03"
GPUS = 8

HOST = Host(
    vendor="Example Systems",
    product="EX-HGX-B200",
    bios="2.4.1",
    cpu="INTEL(R) XEON(R) PLATINUM 8570",
    cpus=224,
    memory=2_164_124_024_832,
    uptime=1_209_876.42,
    software=Software.nvidia(DRIVER),
)

BUILD = hardware.Build(
    sockets=2,
    cores=112,
    threads=224,
    memory=HOST.memory,
    drives=(*[("EXAMPLE SSD 3.84TB", 3_840_755_982_336)] * 8, *[("EXAMPLE SSD 960GB", 960_197_124_096)] * 2),
)

ROOTS = (0x16, 0x26, 0x36, 0x46, 0x96, 0xA6, 0xB6, 0xC6)  # bus of the root port above each GPU and its NIC
FRONT_END_BUS = 0x06
FRONT_ENDS = 2

NCCL = {"NCCL_IB_HCA": "=" + ",".join(f"mlx5_{rail}" for rail in range(GPUS)), "NCCL_IB_TC": "106"}
CONNECTX7 = {"fw_ver": "28.46.3048", "hca_type": "MT4129", "board_id": "MT_0000000838"}
CONNECTX6 = {"fw_ver": "22.46.3048", "hca_type": "MT4125", "board_id": "MT_0000000359"}
BRIDGE, GPU, NIC = "0x060400", "0x030200", "0x020000"  # PCI classes
SUBSYSTEMS = {"10de:2901": "0x1999", "15b3:1021": "0x0023", "15b3:101d": "0x0016"}


def node(name: str, index: int) -> list[Item]:
    """Return what the probe brings home from the ``index``-th node of such a cluster (from 1)."""
    devices = (
        tree("pci", "/sys/bus/pci/devices", pci()),
        tree("infiniband", "/sys/class/infiniband", infiniband(index)),
        tree("net", "/sys/class/net", net()),
        *BUILD.items(),
        *fabric.items(
            {netdev(rail): [3] if rail < GPUS else [] for rail in range(GPUS + FRONT_ENDS)}, NCCL, ["gdrdrv"]
        ),
        file("nvidia-module", "/proc/driver/nvidia/version", MODULE),
        file("nvidia-sysfs-version", "/sys/module/nvidia/version", f"{DRIVER}\n"),
        *no_amdgpu(),
    )
    return [
        *HOST.items(name, kernel_log(), devices),
        BUILD.health(),
        NO_IMEX,
        library("nvml", "nvml", nvml(name)),
        measurements.dcgm_diag(GPUS),
        measurements.metadata(),
        northsouth.exports(),
    ]


def services(names: Sequence[str]) -> list[Item]:
    """Return what the services of such a cluster answer."""
    return monitoring.answers(names, lambda name: [uuid(name, rail) for rail in range(GPUS)])


NO_IMEX = absent("imex", {"command": ["nvidia-imex-ctl", "-N"]}, f"nvidia-imex-ctl: {NO_FILE}")
MODULE = (
    f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {DRIVER}  Release Build  (example@builder)\n"
    "GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)\n"
)


def front_end(n: int) -> str:
    """Return the PCI address of a front-end port."""
    return f"0000:{FRONT_END_BUS:02x}:00.{n}"


def kernel_log() -> Iterator[Record]:
    """Yield what the drivers say while they load."""
    for rail in range(GPUS):
        yield 6, 8_400_000 + rail, f"mlx5_core {nic(rail)}: firmware version: 28.46.3048"
    yield 5, 21_004_233, "nvidia: loading out-of-tree module taints kernel."
    yield 6, 21_108_790, "nvidia-nvlink: Nvlink Core is being initialized, major device number 510"
    yield 5, 21_380_114, f"NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  {DRIVER}  Release Build"
    yield 6, 23_907_551, "nvidia-uvm: Loaded the UVM driver, major device number 508."


def gpu(rail: int) -> str:
    """Return the PCI address of a GPU."""
    return f"0000:{ROOTS[rail] + 4:02x}:00.0"


def nic(rail: int) -> str:
    """Return the PCI address of the NIC beside a GPU."""
    return f"0000:{ROOTS[rail] + 3:02x}:00.0"


def pci() -> dict[str, dict[str, Any]]:
    """Return the PCI devices: by rail a switch with a NIC and a GPU below a root port; then the front end."""
    devices = {}
    for rail, bus in enumerate(ROOTS):
        numa = str(rail // 4)
        root, switch = f"0000:{bus:02x}:01.0", f"0000:{bus + 1:02x}:00.0"
        to_nic, to_gpu = f"0000:{bus + 2:02x}:00.0", f"0000:{bus + 2:02x}:01.0"
        devices[root] = function("8086:352a", BRIDGE, numa)
        devices[switch] = function("1000:c030", BRIDGE, numa, parent=root)
        devices[to_nic] = function("1000:c030", BRIDGE, numa, parent=switch)
        devices[nic(rail)] = function("15b3:1021", NIC, numa, parent=to_nic)
        devices[to_gpu] = function("1000:c030", BRIDGE, numa, parent=switch)
        devices[gpu(rail)] = function("10de:2901", GPU, numa, parent=to_gpu)
    root = f"0000:{FRONT_END_BUS - 1:02x}:01.0"
    devices[root] = function("8086:352a", BRIDGE, "0")
    for port in range(FRONT_ENDS):
        devices[front_end(port)] = function("15b3:101d", NIC, "0", parent=root, speed="16.0 GT/s PCIe")
    return dict(sorted(devices.items()))


def function(
    product: str, kind: str, numa: str, *, parent: str = "", speed: str = "32.0 GT/s PCIe"
) -> dict[str, Any]:
    """Return one PCI function, its link trained to the full."""
    vendor, device = product.split(":")
    found = {
        "vendor": f"0x{vendor}",
        "device": f"0x{device}",
        "subsystem_vendor": f"0x{vendor}",
        "subsystem_device": SUBSYSTEMS.get(product, "0x0000"),
        "class": kind,
        "revision": "0xa1" if kind == GPU else "0x00",
        "current_link_speed": speed,
        "current_link_width": "16",
        "max_link_speed": speed,
        "max_link_width": "16",
        "power_state": "D0",
        "numa_node": numa,
        "aer": health.NO_PCI_ERRORS,
        "driver": {BRIDGE: "pcieport", GPU: "nvidia", NIC: "mlx5_core"}[kind],
    }
    return found | ({"parent": parent} if parent else {})


def infiniband(index: int) -> dict[str, Any]:
    """Return the RDMA devices of the ``index``-th node: ``mlx5_0`` and up by rail, then the front end."""
    compute = {f"mlx5_{rail}": adapter(CONNECTX7, nic(rail), port(index, rail)) for rail in range(GPUS)}
    front = {
        f"mlx5_{GPUS + n}": adapter(CONNECTX6, front_end(n), port(index, GPUS + n)) for n in range(FRONT_ENDS)
    }
    return compute | front


def adapter(model: dict[str, str], address: str, only_port: dict[str, Any]) -> dict[str, Any]:
    """Return one RDMA device with one port."""
    guid = made_up(address, only_port["gids"]["0"])[:14]
    return model | {
        "node_guid": f"02{guid[:2]}:{guid[2:6]}:{guid[6:10]}:{guid[10:14]}",
        "pci": address,
        "ports": {"1": only_port},
    }


def port(index: int, rail: int) -> dict[str, Any]:
    """Return an active Ethernet port whose interface has one IPv4 address.

    mlx5 fills its table in pairs of RoCE v1 and v2: first the link-local address that comes from the MAC,
    then each address of the interface.
    """
    link_local = f"fe80:0000:0000:0000:0000:00ff:fe{rail:02x}:{index:04x}"
    network = 100 + rail if rail < GPUS else rail - GPUS
    ipv4 = f"0000:0000:0000:0000:0000:ffff:0a{network:02x}:{index:04x}"
    gids = (link_local, link_local, ipv4, ipv4)
    return {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "rate": "400 Gb/sec (4X NDR)" if rail < GPUS else "100 Gb/sec (4X EDR)",
        "link_layer": "Ethernet",
        "lid": "0x0",
        "sm_lid": "0x0",
        "cap_mask": "0x04010000",
        **fabric.counts(),
        **fabric.pkeys("0xffff"),
        "gids": {str(slot): gid for slot, gid in enumerate(gids)},
        "types": {str(slot): f"{'RoCE v2' if slot % 2 else 'IB/RoCE v1'}" for slot in range(len(gids))},
        "ndevs": {str(slot): netdev(rail) for slot in range(len(gids))},
    }


def netdev(rail: int) -> str:
    """Return the network interface of a rail, or of a front-end port where the rails end."""
    return f"rdma{rail}" if rail < GPUS else f"ens6f{rail - GPUS}np{rail - GPUS}"


def net() -> dict[str, dict[str, str]]:
    """Return the network interfaces."""
    up = {"operstate": "up", "carrier_down_count": "1"}
    compute = {
        netdev(rail): up | {"mtu": "9000", "speed": "400000", "pci": nic(rail)} for rail in range(GPUS)
    }
    front = {
        netdev(GPUS + n): up | {"mtu": "1500", "speed": "100000", "pci": front_end(n)}
        for n in range(FRONT_ENDS)
    }
    return front | {"lo": {"operstate": "unknown", "mtu": "65536"}} | compute


def nvml(name: str) -> dict[str, Any]:
    """Return what the driver's management library says."""
    devices = [device(name, rail) for rail in range(GPUS)]
    return {"driver": DRIVER, "library": LIBRARY, "cuda": 13000, "count": GPUS, "devices": devices}


def uuid(name: str, rail: int) -> str:
    """Return the identity of a GPU."""
    return f"GPU-{dashed(made_up(name, 'gpu', rail))}"


def device(name: str, rail: int) -> dict[str, Any]:
    """Return one healthy GPU: ``rail`` is its index."""
    identity = made_up(name, "gpu", rail)
    return {
        "index": rail,
        "name": "NVIDIA B200",
        "pci": gpu(rail),
        "pci_device_id": "0x290110DE",
        "pci_subsystem_id": "0x199910DE",
        "uuid": uuid(name, rail),
        "serial": f"19{int(identity, 16) % 10**11:011d}",
        "board_part": "692-2G525-0220-500",
        "vbios": "97.00.FA.00.09",
        "pstate": 0,
        **hardware.gpu_settings(watts=1000, clock=1965, memory_clock=3996),
        "memory_total_bytes": 183_359 * 1024**2,
        "ecc": {"current": True, "pending": True},
        "remapped_rows": {
            "correctable": 0,
            "uncorrectable": 0,
            "pending": False,
            "failed": False,
            "banks": {"max": 3840, "high": 0, "partial": 0, "low": 0, "none": 0},
        },
        "retired_pages_pending": {"unread": "unsupported", "why": "NVML: Not Supported (3)", "code": 3},
        "pcie": {"gen": 5, "gen_max": 5, "width": 16, "width_max": 16},
        "nvlink": nvlink.links(),
        "fabric": nvlink.fabric(),
        **health.gpu(power_mw=195_000 + 700 * rail, degrees=38 + rail),
    }
