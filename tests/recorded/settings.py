"""How a healthy recorded host is set up: memory, processors, file systems, IOMMU, PCI bridges, services."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from recorded.items import absent, command, file, library, tree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuassay.evidence.item import Item
    from recorded.host import Host

GIB = 1 << 30
SHM = "/dev/shm"  # noqa: S108 - a name in a recording
PLACES = ("/", SHM, "/tmp", "/var", "/var/lib", "/var/log", "/var/tmp")  # noqa: S108 - likewise
PCI = "/sys/bus/pci/devices"
UNITS = ("nvidia-persistenced*", "nvidia-dcgm*", "slurmd*", "kubelet*", "containerd*", "docker*")

PARAMS = """\
ResmanDebugLevel: 4294967295
RmLogonRC: 1
ModifyDeviceFiles: 1
EnableStreamMemOPs: 0
RmProfilingAdminOnly: 0
CoherentGPUMemoryMode: ""
OpenRmEnableUnsupportedGpus: 1
"""


def items(host: Host, devices: Iterable[Item]) -> list[Item]:
    """Return what the probe finds out about the settings of a host with these devices."""
    devices = list(devices)
    metal = host.virt == "none"
    pci: dict[str, Any] = next((json.loads(item.out) for item in devices if item.id == "pci"), {})
    nvidia = any(item.id == "nvidia-module" and item.status == "ok" for item in devices)
    params = "/proc/driver/nvidia/params"
    words = ["iommu=pt", "numa_balancing=disable"] if metal else []
    systemctl = ["systemctl", "list-units", "--state=failed", "--plain", "--no-pager", *UNITS]
    return [
        _settings(host),
        library("cmdline", "cmdline", {"words": words, "others": 5}),
        library("mounts", "mounts", _mounts(host)),
        library("own-name", "own name", {"addresses": [{"family": "ipv4", "kind": "other", "own": True}]}),
        tree("cpu", "/sys/devices/system/cpu", _cpu(host, metal=metal)),
        tree("edac", "/sys/devices/system/edac/mc", _edac(host) if metal else {}),
        tree("iommu", "/sys/kernel/iommu_groups", _groups(pci) if metal else {}),
        tree("acs", PCI, _acs(pci, metal=metal)),
        file("nvidia-params", params, PARAMS) if nvidia else absent("nvidia-params", {"file": params}),
        command("failed-units", systemctl, "0 loaded units listed.\n"),
    ]


def _settings(host: Host) -> Item:
    total = host.memory // 1024
    memory = {
        "MemTotal": f"{total} kB",
        "MemFree": f"{total * 9 // 10} kB",
        "MemAvailable": f"{total * 95 // 100} kB",
        "SwapTotal": "0 kB",
        "SwapFree": "0 kB",
        "HugePages_Total": "0",
        "HugePages_Free": "0",
        "Hugepagesize": "2048 kB",
        "Hugetlb": "0 kB",
    }
    content = {
        "/proc/meminfo": "\n".join(f"{key}: {size:>15}" for key, size in memory.items()),
        "/proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority",
        "/proc/sys/kernel/numa_balancing": "0",
        "/proc/sys/kernel/perf_event_paranoid": "2",
        "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
        "/sys/kernel/security/lockdown": "[none] integrity confidentiality",
        "/sys/devices/system/node/online": "0-1" if host.virt == "none" else "0",
    }
    return replace(library("settings", "", content), asked={"files": list(content)})


def _mounts(host: Host) -> dict[str, Any]:
    disk = {
        "mount": "/",
        "type": "ext4",
        "options": "rw,relatime",
        "super": "rw",
        "bytes": 1800 * GIB,
        "bytes_free": 1500 * GIB,
        "inodes": 120_000_000,
        "inodes_free": 118_000_000,
    }
    shared = {
        "mount": SHM,
        "type": "tmpfs",
        "options": "rw,nosuid,nodev",
        "super": "rw",
        "bytes": host.memory // 2,
        "bytes_free": host.memory // 2,
        "inodes": host.memory // 8192,
        "inodes_free": host.memory // 8192 - 1,
    }
    return {
        "places": {place: shared if place == SHM else disk for place in PLACES},
        "cgroups": [{"at": "/sys/fs/cgroup", "type": "cgroup2"}],
    }


def _cpu(host: Host, *, metal: bool) -> dict[str, Any]:
    """Return the processors: tuned ones on real machines, and those of a guest, which keep nothing."""
    cpus = f"0-{host.cpus - 1}"
    poll = {"cpus": cpus, "state": "state0", "name": "POLL", "latency": "0", "disable": "0"}
    if not metal:
        guest = {"cpus": cpus, "state": "state1", "name": "haltpoll idle", "latency": "1", "disable": "0"}
        return {"frequency": [], "idle": [poll, guest]}
    frequency = {
        "cpus": cpus,
        "scaling_driver": "amd-pstate-epp" if "AMD" in host.cpu else "intel_pstate",
        "scaling_governor": "performance",
        "energy_performance_preference": "performance",
        "scaling_max_freq": "4000000",
        "cpuinfo_max_freq": "4000000",
    }
    states = (("state1", "C1", "1", "0"), ("state2", "C1E", "2", "0"), ("state3", "C6", "290", "1"))
    keys = ("state", "name", "latency", "disable")
    idle = [{"cpus": cpus, **dict(zip(keys, state, strict=True))} for state in states]
    return {"frequency": [frequency], "idle": [poll, *idle]}


def _edac(host: Host) -> dict[str, Any]:
    since = str(int(host.uptime) - 40)
    counts = {"ce_count": "0", "ue_count": "0", "seconds_since_reset": since}
    name = "F19h_M10h" if "AMD" in host.cpu else "Intel_10nm Socket"
    return {f"mc{number}": {"mc_name": f"{name}#{number // 4}", **counts} for number in range(8)}


def _groups(pci: dict[str, Any]) -> dict[str, Any]:
    return {str(group): {"type": "identity", "devices": [place]} for group, place in enumerate(pci)}


def _acs(pci: dict[str, Any], *, metal: bool) -> dict[str, Any]:
    """Return the bridges: their ports check where a request comes from, and redirect none."""
    bridges = (place for place, function in pci.items() if function.get("class", "").startswith("0x0604"))
    return {place: {"control": "0x0001" if metal else "none"} for place in bridges}
