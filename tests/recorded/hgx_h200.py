"""A node of eight NVIDIA H200 on an HGX board, with a 400 Gb/s InfiniBand port (NDR) for each GPU.

What is no different from a node with B200 is taken from there. Of the two Ethernet ports of the front end one
is in use and one is not, as is usual; it is no port of the compute fabric.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from recorded import fabric, hgx_b200, measurements, nvlink
from recorded.hgx_b200 import FRONT_ENDS, GPUS, adapter, front_end, function, nic
from recorded.items import encode, made_up, tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuassay.evidence.item import Item

COMPUTE = ("mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11")
FRONT = ("mlx5_1", "mlx5_2")
POWER_MW = 76_000  # of an idle H200
SUBNET_MANAGER = 0x14E
NVSWITCHES = ("0000:05:00.0", "0000:07:00.0", "0000:08:00.0", "0000:09:00.0")
PFC: dict[str, list[int]] = {hgx_b200.netdev(GPUS + n): [] for n in range(FRONT_ENDS)}
NCCL = {"NCCL_IB_HCA": "=" + ",".join(COMPUTE)}


def node(name: str, index: int) -> list[Item]:
    """Return what the probe brings home from the ``index``-th node of such a cluster (from 1)."""
    own = {item.id: item for item in fabric.items(PFC, NCCL, ["nvidia_peermem"])}
    own["infiniband"] = tree("infiniband", "/sys/class/infiniband", infiniband(index))
    own["net"] = tree("net", "/sys/class/net", net())
    change: dict[str, Callable[[Any], Any]] = {"pci": _pci, "nvml": _nvml, "dmi": _dmi}
    items = [own.get(item.id, item) for item in hgx_b200.node(name, index)]
    items.append(measurements.fabric_seat())
    return [
        replace(item, out=encode(change[item.id](json.loads(item.out)))) if item.id in change else item
        for item in items
    ]


def _dmi(dmi: dict[str, str]) -> dict[str, str]:
    return dmi | {"product_name": "EX-HGX-H200"}


def _pci(devices: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    for device in devices.values():
        if device["device"] == "0x2901":
            device |= {"device": "0x2335", "subsystem_device": "0x18be"}
        elif device["device"] == "0x1021":
            device |= {"class": "0x020700"}  # InfiniBand
    switches = {address: function("10de:22a3", hgx_b200.BRIDGE, "0") for address in NVSWITCHES}
    bare = {
        "class": "0x068000",
        "driver": "nvidia-nvswitch",
        "max_link_width": "2",
        "current_link_width": "2",
    }
    return dict(sorted((devices | {address: one | bare for address, one in switches.items()}).items()))


def _nvml(nvml: dict[str, Any]) -> dict[str, Any]:
    for device in nvml["devices"]:
        device |= {
            "name": "NVIDIA H200",
            "pci_device_id": "0x233510DE",
            "pci_subsystem_id": "0x18BE10DE",
            "board_part": "692-2G520-0280-500",
            "vbios": "96.00.A5.00.03",
            "memory_total_bytes": 143_771 * 1024**2,
        }
        device["usage"]["power_mw"] = POWER_MW
        device["nvlink"] = nvlink.older_links()
        device["fabric"] |= {"health_mask": 0, "health_summary": 0}
    return nvml


def infiniband(index: int) -> dict[str, Any]:
    """Return the RDMA devices of the ``index``-th node."""
    compute = {
        device: adapter(hgx_b200.CONNECTX7, nic(rail), port(index, rail))
        for rail, device in enumerate(COMPUTE)
    }
    front = {
        device: adapter(hgx_b200.CONNECTX6, front_end(n), hgx_b200.port(index, GPUS + n))
        for n, device in enumerate(FRONT)
    }
    unused = {"state": "1: DOWN", "phys_state": "3: Disabled", "rate": "40 Gb/sec (4X QDR)"}
    front[FRONT[1]]["ports"]["1"] |= unused
    return dict(sorted((compute | front).items()))


def port(index: int, rail: int) -> dict[str, Any]:
    """Return an active InfiniBand port; its only address is the subnet prefix and its GUID."""
    guid = made_up(index, "port", rail)[:14]
    return {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "rate": "400 Gb/sec (4X NDR)",
        "link_layer": "InfiniBand",
        "lid": f"{GPUS * index + rail + 64:#x}",
        "sm_lid": f"{SUBNET_MANAGER:#x}",
        "cap_mask": "0xa751e848",
        **fabric.counts(link_downed=1),
        **fabric.pkeys("0x7fff", "0x8005"),
        "gids": {"0": f"fe80:0000:0000:0000:02{guid[:2]}:{guid[2:6]}:{guid[6:10]}:{guid[10:14]}"},
        "types": {"0": "IB/RoCE v1"},
        "ndevs": {},
    }


def net() -> dict[str, dict[str, str]]:
    """Return the network interfaces: IP over InfiniBand, and the front end."""
    up = {"operstate": "up", "carrier_down_count": "1"}
    over = {f"ib{rail}": up | {"mtu": "4092", "pci": nic(rail)} for rail in range(GPUS)}
    front = {
        hgx_b200.netdev(GPUS + n): up | {"mtu": "1500", "speed": "100000", "pci": front_end(n)}
        for n in range(FRONT_ENDS)
    }
    front[hgx_b200.netdev(GPUS + 1)] |= {"operstate": "down", "speed": "-1"}
    return front | over | {"lo": {"operstate": "unknown", "mtu": "65536"}}
