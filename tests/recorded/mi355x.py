"""A node of eight AMD Instinct MI355X, with a 400 Gb/s AMD Pollara port for each and a front end of two.

The shapes are those of the products and of driver 31.40: device ids, memory size, the driver's files, the GID
table of an adapter that knows RoCE v2 only. Addresses, serial numbers and identities are made up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recorded import fabric, hardware, hgx_b200, measurements, northsouth
from recorded.hgx_b200 import FRONT_ENDS, GPUS, NIC, function
from recorded.host import Host
from recorded.items import absent, file, made_up, tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuassay.evidence.item import Item
    from recorded.host import Record

DRIVER = "6.19.14.31400100"
ROCM = "7.14.0"
VRAM = 309_220_868_096
POWER_UW = 1_400_000_000
SIMDS = 1024

HOST = Host(
    vendor="Example Systems",
    product="EX-OAM-MI355X",
    bios="1.8.2",
    cpu="AMD EPYC 9575F 64-Core Processor",
    cpus=256,
    memory=3_246_183_034_880,
    uptime=1_036_411.07,
)

BUILD = hardware.Build(
    sockets=2,
    cores=128,
    threads=256,
    memory=HOST.memory,
    drives=(("EXAMPLE SSD 3.84TB", 3_840_755_982_336),) * 8,
)

ROOTS = (0x03, 0x13, 0x63, 0x73, 0x83, 0x93, 0xE3, 0xF3)  # bus of the root port above each GPU
FRONT_END_BUS = 0x44
ROOT, SWITCH, ADAPTER, ACCELERATOR = "1022:153d", "1000:c030", "1dd8:1002", "1002:75a3"
BRIDGE, COMPUTE = "0x060400", "0x120000"  # PCI classes
POLLARA = {"fw_ver": "1.117.5-a-45", "hca_type": "1dd8:1002", "board_id": "POLLARA-1Q400P"}
BLOCKS = ("gfx", "hdp", "jpeg", "mmhub", "pcie_bif", "sdma", "umc", "vcn", "xgmi_wafl")


def node(name: str, index: int) -> list[Item]:
    """Return what the probe brings home from the ``index``-th node of such a cluster (from 1)."""
    devices = (
        tree("pci", "/sys/bus/pci/devices", pci()),
        tree("infiniband", "/sys/class/infiniband", infiniband(index)),
        tree("net", "/sys/class/net", net()),
        *BUILD.items(),
        *fabric.items({hgx_b200.netdev(rail): [3] for rail in range(GPUS)}),
        absent("nvidia-module", {"file": "/proc/driver/nvidia/version"}),
        absent("nvidia-sysfs-version", {"file": "/sys/module/nvidia/version"}),
        tree(
            "amdgpu", "/sys/bus/pci/drivers/amdgpu", {gpu(rail): device(name, rail) for rail in range(GPUS)}
        ),
        file("amdgpu-version", "/sys/module/amdgpu/version", f"{DRIVER}\n"),
        tree("kfd", "/sys/class/kfd/kfd/topology/nodes", topology()),
        tree("kfd-users", "/sys/class/kfd/kfd/proc", {"processes": 0}),
        file("rocm", "/opt/rocm/.info/version", f"{ROCM}-61\n"),
    )
    return [
        *HOST.items(name, kernel_log(), devices),
        BUILD.health(),
        *no_nvidia(),
        measurements.rvs(),
        measurements.metadata(),
        northsouth.exports(),
    ]


def no_nvidia() -> tuple[Item, Item]:
    """Return what is asked of NVIDIA's driver where there is none."""
    no_file = "No such file or directory"
    return (
        absent("nvml", {"library": "nvml"}, f"libnvidia-ml.so.1: cannot open shared object file: {no_file}"),
        absent("nvidia-smi-xml", {"command": ["nvidia-smi", "-q", "-x"]}, f"nvidia-smi: {no_file}"),
    )


def gpu(rail: int) -> str:
    """Return the PCI address of a GPU."""
    return f"0000:{ROOTS[rail] + 2:02x}:00.0"


def nic(rail: int) -> str:
    """Return the PCI address of the adapter beside a GPU."""
    return f"0000:{ROOTS[rail] + 4:02x}:00.0"


def front_end(n: int) -> str:
    """Return the PCI address of a front-end port."""
    return f"0000:{FRONT_END_BUS:02x}:00.{n}"


def pci() -> dict[str, dict[str, str]]:
    """Return the PCI devices: by rail a GPU and an adapter below a switch; then the front end."""
    devices = {}
    for rail, bus in enumerate(ROOTS):
        numa = str(rail // 4)
        root, switch = f"0000:{bus:02x}:01.1", f"0000:{bus + 1:02x}:00.0"
        devices[root] = function(ROOT, BRIDGE, numa)
        devices[switch] = function(SWITCH, BRIDGE, numa, parent=root)
        devices[gpu(rail)] = endpoint(ACCELERATOR, COMPUTE, numa, switch, "amdgpu")
        devices[nic(rail)] = endpoint(ADAPTER, NIC, numa, switch, "ionic")
    root = f"0000:{FRONT_END_BUS - 1:02x}:01.1"
    devices[root] = function(ROOT, BRIDGE, "0")
    for port in range(FRONT_ENDS):
        devices[front_end(port)] = function("15b3:101d", NIC, "0", parent=root, speed="16.0 GT/s PCIe")
    return dict(sorted(devices.items()))


def endpoint(product: str, kind: str, numa: str, parent: str, driver: str) -> dict[str, str]:
    """Return one PCI function of AMD's, bound to its driver."""
    like = function(product, NIC, numa, parent=parent)
    return like | {"class": kind, "subsystem_device": f"0x{product[-4:]}", "driver": driver}


def infiniband(index: int) -> dict[str, Any]:
    """Return the RDMA devices of the ``index``-th node: ``ionic_0`` and up by rail, then the front end."""
    compute = {
        f"ionic_{rail}": hgx_b200.adapter(POLLARA, nic(rail), port(index, rail)) for rail in range(GPUS)
    }
    front = {
        f"mlx5_{n}": hgx_b200.adapter(hgx_b200.CONNECTX6, front_end(n), hgx_b200.port(index, GPUS + n))
        for n in range(FRONT_ENDS)
    }
    return compute | front


def port(index: int, rail: int) -> dict[str, Any]:
    """Return an active port of an adapter without RoCE v1: IPv4 has entry 1, elsewhere 3."""
    like = hgx_b200.port(index, rail)
    gids = (like["gids"]["0"], like["gids"]["2"])
    return like | {
        "cap_mask": "0x00010000",
        "gids": {str(slot): gid for slot, gid in enumerate(gids)},
        "types": dict.fromkeys(("0", "1"), "RoCE v2"),
        "ndevs": dict.fromkeys(("0", "1"), hgx_b200.netdev(rail)),
    }


def net() -> dict[str, dict[str, str]]:
    """Return the network interfaces, named as on other nodes of ours and sitting on other devices."""
    places = {hgx_b200.netdev(rail): nic(rail) for rail in range(GPUS)}
    places |= {hgx_b200.netdev(GPUS + n): front_end(n) for n in range(FRONT_ENDS)}
    return {
        name: found | ({"pci": places[name]} if name in places else {})
        for name, found in hgx_b200.net().items()
    }


def device(name: str, rail: int) -> dict[str, Any]:
    """Return what the driver says of one healthy GPU: whole, at its own power cap, without an error."""
    identity = made_up(name, "gpu", rail)
    return {
        "unique_id": identity[:16],
        "serial_number": f"69{int(identity, 16) % 10**10:010d}",
        "product_name": "AMD Instinct MI355X OAM",
        "product_number": "102-G36505-00A",
        "vbios_version": "113-M355-00-0EX-000",
        "mem_info_vram_total": str(VRAM),
        "mem_info_vram_used": "297541632",
        "gpu_busy_percent": "0",
        "current_compute_partition": "SPX",
        "current_memory_partition": "NPS1",
        "available_compute_partition": "SPX, DPX, QPX, CPX",
        "available_memory_partition": "NPS1, NPS2",
        "power_dpm_force_performance_level": "auto",
        "pcie_replay_count": "0",
        "xgmi_num_links": " ".join("00" if peer == rail else "01" for peer in range(GPUS)),
        "xgmi_num_hops": " ".join("00" if peer == rail else "01" for peer in range(GPUS)),
        "sensors": sensors(),
        "ras": {
            "features": "feature mask: 0x1abf877",
            **{f"{block}_err_count": "ue: 0\nce: 0\nde: 0" for block in BLOCKS},
            "gpu_vram_bad_pages": "",
        },
    }


def sensors() -> dict[str, str]:
    """Return the sensors of a GPU that has nothing to do."""
    return {
        **dict.fromkeys(("power1_cap", "power1_cap_default", "power1_cap_max"), str(POWER_UW)),
        "power1_input": "246000000",
        "temp2_label": "junction",
        "temp2_input": "44000",
        "temp2_crit": "100000",
        "temp2_emergency": "110000",
        "temp3_label": "mem",
        "temp3_input": "38000",
        "temp3_crit": "105000",
        "temp3_emergency": "115000",
    }


def topology() -> dict[str, Any]:
    """Return the compute topology: two processors, then the GPUs."""
    processors = [
        {"name": "", "properties": properties(cpu_cores_count=64, simd_count=0, vendor_id=0)}
        for _ in range(2)
    ]
    gpus = [{"name": "ip discovery", "properties": gpu_properties(gpu(rail))} for rail in range(GPUS)]
    return {str(number): found for number, found in enumerate([*processors, *gpus])}


def gpu_properties(address: str) -> str:
    """Return the properties of a whole GPU at an address."""
    location = int(address[5:7], 16) << 8
    return properties(simd_count=SIMDS, vendor_id=0x1002, device_id=0x75A3, location_id=location, num_xcc=8)


def properties(**values: int) -> str:
    """Write the properties of a node as the kernel does, one in a line."""
    known: Mapping[str, int] = {"cpu_cores_count": 0, "location_id": 0, "domain": 0} | values
    return "\n".join(f"{name} {value}" for name, value in known.items())


def kernel_log() -> Iterator[Record]:
    """Yield what the drivers say while they load; the all-clear of each GPU is among it."""
    yield 6, 9_200_418, "ionic: loading out-of-tree module taints kernel."
    yield 6, 18_400_118, "[drm] amdgpu kernel modesetting enabled."
    yield 6, 18_402_507, f"[drm] amdgpu version: {DRIVER}"
    for rail in range(GPUS):
        start = 19_000_000 + 700_000 * rail
        yield 6, start, f"amdgpu {gpu(rail)}: amdgpu: MEM ECC is active."
        yield 6, start + 400, f"amdgpu {gpu(rail)}: amdgpu: SRAM ECC is active."
        yield 6, start + 600_000, f"[drm] Initialized amdgpu 3.64.0 for {gpu(rail)} on minor {rail + 1}"
