"""Folders of /sys that tell how a machine is built: processors, memory and local drives."""

# Importing pathlib takes longer than all that is read here:
# ruff: noqa: PTH120, PTH208
from __future__ import annotations

import os
import re
from typing import Any, Optional

from gpuassay.probe.answer import unread_because
from gpuassay.probe.files import attribute, attributes, entries, head

_CPU, _NODE = re.compile(r"cpu\d+"), re.compile(r"node\d+")
_CONTROLLER, _NAMESPACE = re.compile(r"nvme\d+"), re.compile(r"nvme\d+(?:c\d+)?n\d+")
_NVME = ("model", "firmware_rev", "transport", "state", "numa_node")
_FIRST_LINES = 256

# The same list under its name of today and that of kernels before 5.2.
_PACKAGE = ("package_cpus_list", "core_siblings_list")
_CORE = ("core_cpus_list", "thread_siblings_list")


def processors(root: str) -> dict[str, Any]:
    """Read which processors there are, and which share a package or a core. Raises OSError."""
    names = [name for name in os.listdir(root) if _CPU.fullmatch(name)]
    folders = [f"{root}/{name}/topology" for name in sorted(names, key=lambda name: int(name[3:]))]
    return {
        **attributes(root, ("online", "present")),
        "packages": _distinct(folders, _PACKAGE),
        "cores": _distinct(folders, _CORE),
    }


def _distinct(folders: list[str], names: tuple[str, ...]) -> list[str]:
    """Give each list once, in the order of processors; one that is offline has none."""
    lists = (_first(folder, names) for folder in folders)
    return list(dict.fromkeys(one for one in lists if one))


def _first(folder: str, names: tuple[str, ...]) -> Optional[str]:
    for name in names:
        try:
            return attribute(f"{folder}/{name}")
        except FileNotFoundError:
            continue
    return None


def numa(root: str) -> dict[str, Any]:
    """Read the NUMA nodes, their processors and memory; a kernel may know of none. Raises OSError."""
    names = (name for name in entries(root, os.path.dirname(root)) if _NODE.fullmatch(name))
    return {name: _numa_node(f"{root}/{name}") for name in names}


def _numa_node(folder: str) -> dict[str, Any]:
    node = attributes(folder, ("cpulist", "distance"))
    try:
        lines = head(f"{folder}/meminfo", _FIRST_LINES).splitlines()
    except OSError as error:
        return {**node, "memory": unread_because(error)}
    total = (line.partition("MemTotal:")[2].strip() for line in lines if "MemTotal:" in line)
    return {**node, "memory": next(total, "")}


def nvme(root: str) -> dict[str, Any]:
    """Read the NVMe drives: model, firmware, size; no serial numbers. Raises OSError."""
    names = [name for name in entries(root, os.path.dirname(root)) if _CONTROLLER.fullmatch(name)]
    return {name: _drive(f"{root}/{name}") for name in names}


def _drive(folder: str) -> dict[str, Any]:
    spaces = sorted(name for name in os.listdir(folder) if _NAMESPACE.fullmatch(name))
    sizes = {name: attributes(f"{folder}/{name}", ("size",)).get("size") for name in spaces}
    return {**attributes(folder, _NVME), "sectors": {name: size for name, size in sizes.items() if size}}
