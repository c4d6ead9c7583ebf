"""The GPUs and switches on a node's PCI buses, as the kernel shows them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from gpuassay.fault.node.words import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NVIDIA, BRIDGE = "0x10de", "0x0604"
_GPU, _SWITCH = ("0x0300", "0x0302"), ("0x0680",)
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def device(root: Path, address: str) -> Path:
    """Give the folder of a device, which lies below that of the bridge it hangs on."""
    return (root / "sys/bus/pci/devices" / address).resolve()


def kind(place: Path) -> str:
    """Give the class of a device, without its programming interface; empty where it cannot be read."""
    return _read(place / "class")[:6]


def gpus(root: Path) -> list[str]:
    """List NVIDIA's GPUs by address, in the order of the driver."""
    return _those(root, _GPU)


def switches(root: Path) -> list[str]:
    """List NVSwitches by address."""
    return _those(root, _SWITCH)


def chosen(root: Path, args: Mapping[str, Any]) -> str:
    """Give the GPU that ``address`` or its number ``gpu`` names. Raises Refused if it is not here."""
    found = gpus(root)
    address = str(args.get("address", "")).lower()
    if address:
        if address not in found:
            raise Refused(f"no GPU of this node is at {address}: there are {', '.join(found) or 'none'}")
        return address
    number = int(args.get("gpu", 0))
    if not 0 <= number < len(found):
        raise Refused(f"there is no GPU {number} on this node: there are {len(found)}")
    return found[number]


def _those(root: Path, kinds: tuple[str, ...]) -> list[str]:
    places = (root / "sys/bus/pci/devices").glob("*")
    return sorted(
        place.name for place in places if _read(place / "vendor") == NVIDIA and kind(place) in kinds
    )


def _read(place: Path) -> str:
    try:
        return place.read_text(encoding="ascii").strip()
    except OSError:
        return ""
