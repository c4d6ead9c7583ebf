"""What AMD's driver shows below /sys: the GPUs that it holds, and the compute topology made of them."""

# Importing pathlib takes longer than all that is read here:
# ruff: noqa: PTH120, PTH208
from __future__ import annotations

import errno
import os
from typing import Any

from gpuassay.probe import files
from gpuassay.probe.answer import unread, unread_because
from gpuassay.probe.files import attribute, attributes, entries

_GPU = (
    "unique_id",
    "serial_number",
    "product_name",
    "product_number",
    "vbios_version",
    "mem_info_vram_total",
    "mem_info_vram_used",
    "gpu_busy_percent",
    "current_compute_partition",
    "current_memory_partition",
    "available_compute_partition",
    "available_memory_partition",
    "power_dpm_force_performance_level",
    "pcie_replay_count",
    "xgmi_num_links",
    "xgmi_num_hops",
)
_SENSORS = (
    "power1_cap",
    "power1_cap_default",
    "power1_cap_max",
    "power1_average",
    "power1_input",
    *(f"temp{number}_{what}" for number in (1, 2, 3) for what in ("label", "input", "crit", "emergency")),
)
# What a sensor or a partition that this GPU does not have answers.
_ABSENT = (errno.ENOENT, errno.EINVAL, errno.EOPNOTSUPP, errno.ENODATA)
_PAGES = "gpu_vram_bad_pages"
_PAGES_CAP = 1 << 18  # 29 bytes for each page: thirteen times what AMD's threshold allows for


def amdgpu(root: str) -> dict[str, Any]:
    """Read the GPUs that the driver is bound to, by address; none where it is not loaded. Raises OSError."""
    names = entries(root, os.path.dirname(root))
    return {name: _gpu(f"{root}/{name}") for name in names if name.count(":") == 2}  # noqa: PLR2004 - an address


def _gpu(folder: str) -> dict[str, Any]:
    gpu = attributes(folder, _GPU, _ABSENT)
    suspended = attributes(folder, ("power/runtime_status",)).get("power/runtime_status") == "suspended"
    for monitor in _listed(f"{folder}/hwmon"):
        gpu["sensors"] = attributes(f"{folder}/hwmon/{monitor}", _SENSORS, _ABSENT)
    # The counters of a GPU that sleeps are not those of its hardware.
    gpu["ras"] = (
        unread("failed", "the GPU sleeps, and has no counters until it wakes") if suspended else _ras(folder)
    )
    return gpu


def _ras(folder: str) -> dict[str, Any]:
    try:
        names = sorted(os.listdir(f"{folder}/ras"))
    except OSError as error:
        return unread_because(error)
    counters = [name for name in names if name.endswith("_err_count")]
    ras = attributes(f"{folder}/ras", ["features", *counters])
    if _PAGES in names:
        ras[_PAGES] = _pages(f"{folder}/ras/{_PAGES}")
    return ras


def _pages(path: str) -> Any:
    try:
        pages = files.contents(path, _PAGES_CAP)
    except OSError as error:
        return unread_because(error)
    if len(pages) == _PAGES_CAP:
        return unread("failed", f"{path}: more than {_PAGES_CAP} bytes")
    return pages.decode(errors="replace").strip()


def kfd(root: str) -> dict[str, Any]:
    """Read the nodes of the compute topology, processors too; none without it. Raises OSError."""
    above = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(root))))
    return {name: _node(f"{root}/{name}") for name in entries(root, above)}


def users(root: str) -> dict[str, Any]:
    """Count the processes that have the driver's compute device open. Raises OSError."""
    return {"processes": sum(map(str.isdigit, os.listdir(root)))}


def _node(folder: str) -> Any:
    try:
        return {"name": attribute(f"{folder}/name"), "properties": attribute(f"{folder}/properties")}
    except OSError as error:
        return unread_because(error)


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
