"""One node of eight AMD Instinct MI300X, each divided into eight: 64 GPUs to a program, no fabric.

It is the node of ``mi355x`` with other GPUs, divided. Identities are made up.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from recorded import mi355x
from recorded.hgx_b200 import GPUS
from recorded.items import tree

if TYPE_CHECKING:
    from gpuassay.evidence.item import Item

PRODUCT = "0x74a1"
PARTS = 8
GIB_192 = 206_141_652_992
POWER_UW = "750000000"


def node(name: str, index: int) -> list[Item]:
    """Return what the probe brings home from such a node."""
    changes = {"pci": pci, "amdgpu": amdgpu, "infiniband": lambda _: {}}
    items = [_changed(item, changes) for item in mi355x.node(name, index)]
    kfd = tree("kfd", "/sys/class/kfd/kfd/topology/nodes", topology())
    # rvs has levels for whole GPUs only.
    return [kfd if item.id == "kfd" else item for item in items if item.id != "measure/rvs"]


def _changed(item: Item, changes: dict[str, Any]) -> Item:
    if item.id not in changes:
        return item
    return replace(item, out=tree(item.id, "", changes[item.id](json.loads(item.out))).out)


def pci(devices: dict[str, Any]) -> dict[str, Any]:
    """Give the node MI300X, and no adapters."""
    kept = {name: one for name, one in devices.items() if one["device"] != "0x1002"}
    gpus = {mi355x.gpu(rail) for rail in range(GPUS)}
    return {
        name: one | ({"device": PRODUCT, "subsystem_device": PRODUCT} if name in gpus else {})
        for name, one in kept.items()
    }


def amdgpu(devices: dict[str, Any]) -> dict[str, Any]:
    """Divide each GPU by its dies, and its memory by four."""
    caps = dict.fromkeys(("power1_cap", "power1_cap_default", "power1_cap_max"), POWER_UW)
    divided = {
        "product_name": "AMD Instinct MI300X OAM",
        "product_number": "102-G30211-00A",
        "vbios_version": "113-M300-00-0EX-000",
        "mem_info_vram_total": str(GIB_192),
        "current_compute_partition": "CPX",
        "current_memory_partition": "NPS4",
        "available_memory_partition": "NPS1, NPS4",
    }
    return {name: one | divided | {"sensors": one["sensors"] | caps} for name, one in devices.items()}


def topology() -> dict[str, Any]:
    """Return the compute topology: two processors, then eight parts of each GPU."""
    found = [*mi355x.topology().values()][:2]
    for rail in range(GPUS):
        bus = int(mi355x.gpu(rail)[5:7], 16)
        for part in range(PARTS):
            location = part << 28 | bus << 8
            said = mi355x.properties(
                simd_count=152, vendor_id=0x1002, device_id=0x74A1, location_id=location, num_xcc=1
            )
            found.append({"name": "ip discovery", "properties": said})
    return {str(number): one for number, one in enumerate(found)}
