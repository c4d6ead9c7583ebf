"""A compute tray of GB300 whose NICs are split over four planes of 200 Gb/s, with a device above them.

Each NIC is one device with four ports, a plane each, and one that stands for all of them: it is up, and has
no address that another node can reach. Jobs are told to leave it out. Made after what operators of such
fabrics describe (scitix/sichek; oci-hpc-oke); names and addresses are made up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recorded import fabric, gb300
from recorded.items import tree

if TYPE_CHECKING:
    from gpuassay.evidence.item import Item

PLANES = ("3", "6", "9", "12")  # by their port numbers
TRAYS = 2
RATE = "200 Gb/sec (2X NDR)"
PORTS = [f"{rail}:{port}" for rail in range(gb300.GPUS) for port in PLANES]
NCCL = {"NCCL_IB_HCA": "=" + ",".join(f"mlx5_{one}" for one in PORTS), "NCCL_IB_TC": "106"}


def node(name: str, index: int) -> list[Item]:
    """Return what the probe brings home from the ``index``-th tray."""
    lossless = {netdev(rail, plane): [3] for rail in range(gb300.GPUS) for plane in PLANES}
    leaves = {interface: (f"leaf{interface[4:]}", f"swp{index}") for interface in lossless}
    own = (
        tree("infiniband", "/sys/class/infiniband", infiniband(index)),
        tree("net", "/sys/class/net", net()),
        *fabric.items({**lossless, gb300.netdev(gb300.GPUS): []}, NCCL, ["gdrdrv"], leaves),
    )
    replaced = {item.id for item in own}
    kept = [item for item in gb300.node(name, index, trays=TRAYS) if item.id not in replaced]
    return [*kept, *own]


def netdev(rail: int, plane: str) -> str:
    """Return the network interface of a plane."""
    return f"rdma{rail}p{plane}"


def infiniband(index: int) -> dict[str, Any]:
    """Return the RDMA devices: ``mlx5_0`` and up with their planes, those above them, the front end."""
    found = gb300.infiniband(index)
    for rail in range(gb300.GPUS):
        device = found[f"mlx5_{rail}"]
        one = device["ports"]["1"]
        above = {**one, "gids": {"0": one["gids"]["0"]}, "types": {"0": "RoCE v2"}}
        guid = f"03{device['node_guid'][2:]}"
        found[f"mlx5_all{rail}"] = {
            **device,
            "node_guid": guid,
            "ports": {"1": {**above, "ndevs": {"0": netdev(rail, "3")}}},
        }
        device["ports"] = {
            plane: {**one, "rate": RATE, "gids": _moved(one["gids"], plane), "ndevs": _on(rail, plane)}
            for plane in PLANES
        }
    return found


def _moved(gids: dict[str, str], plane: str) -> dict[str, str]:
    """Give each plane a subnet of its own."""
    return {slot: gid.replace(":ffff:0a", f":ffff:{10 + int(plane):02x}") for slot, gid in gids.items()}


def _on(rail: int, plane: str) -> dict[str, str]:
    return {str(slot): netdev(rail, plane) for slot in range(4)}


def net() -> dict[str, dict[str, str]]:
    """Return the network interfaces."""
    found = {name: one for name, one in gb300.net().items() if not name.startswith("rdma")}
    up = {"operstate": "up", "carrier_down_count": "1", "mtu": "9000", "speed": "200000"}
    planes = {
        netdev(rail, plane): up | {"pci": gb300.nic(rail)} for rail in range(gb300.GPUS) for plane in PLANES
    }
    return found | planes
