"""Which machine a node is: what another one, or the same after a boot, would show otherwise."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from gpuassay.fault.node.words import boot_id, run

_VENDORS = ("0x10de", "0x1002")
_GPUS = ("0x0300", "0x0302", "0x0380", "0x1200")  # PCI classes: display, 3D, other display, accelerator


def machine(root: str = "/") -> dict[str, Any]:
    """Give the boot, the serials of the board and of its GPUs, and the GPUs on the bus."""
    place = Path(root)
    return {
        "boot": boot_id(),
        "board": _text(place / "sys/class/dmi/id/product_serial"),
        "uuid": _text(place / "sys/class/dmi/id/product_uuid"),
        "gpus": sorted(path.name for path in (place / "sys/bus/pci/devices").glob("*") if _is_gpu(path)),
        "serials": _serials(),
    }


def _is_gpu(device: Path) -> bool:
    return _text(device / "vendor") in _VENDORS and _text(device / "class")[:6] in _GPUS


def _serials() -> list[str]:
    """Ask the driver; none where it is not there, or does not answer."""
    if not shutil.which("nvidia-smi"):
        return []
    status, said = run("nvidia-smi", "--query-gpu=serial,uuid", "--format=csv,noheader")
    return said.splitlines() if status == 0 else []


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
