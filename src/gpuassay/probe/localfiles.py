"""Local file systems, the node's own name, and the kernel's command line as far as it sets up hardware."""

from __future__ import annotations

import os
import re
import socket
from typing import Any

from gpuassay.probe.answer import unread_because
from gpuassay.probe.files import head
from gpuassay.probe.mountinfo import LOCAL, TABLE, Mount, mounted

PLACES = ("/", "/dev/shm", "/tmp", "/var", "/var/lib", "/var/log", "/var/tmp")  # noqa: S108 - only looked at
CGROUPS = "/sys/fs/cgroup"

_SAID = re.compile(r"(?:size|nr_inodes|errors)=\S*|[a-z_]+")  # options that name no place and no person

# What of the kernel's command line is kept; the rest may hold addresses, tokens and passwords.
WORDS = re.compile(
    r"(?:iommu|intel_iommu|amd_iommu|arm-smmu|pci|pcie_\w+|processor|intel_idle|intel_pstate|amd_pstate|cpuidle"
    r"|cpufreq|idle|mitigations|nosmt|numa_balancing|transparent_hugepage|default_hugepagesz|hugepagesz"
    r"|hugepages|lockdown|cgroup_no_v1|systemd\.unified_cgroup_hierarchy|init_on_alloc|log_buf_len)"
    r"(?:\.\w+)?(?:=[\w.,:@-]*)?"
)


def cmdline(path: str = "/proc/cmdline") -> dict[str, Any]:
    """Give the known words of the kernel's command line, and how many others there are. Raises OSError."""
    words = head(path, 1 << 14).split()
    kept = [word for word in words if WORDS.fullmatch(word)]
    return {"words": kept, "others": len(words) - len(kept)}


def mounts(table: str = TABLE) -> dict[str, Any]:
    """Tell of each place on which file system it is, and what is free there; and how cgroups are mounted.

    Raises OSError.
    """
    found = mounted(table)
    cgroups = [
        {"at": one.place, "type": one.type}
        for one in found
        if one.type in ("cgroup", "cgroup2") and (one.place + "/").startswith(CGROUPS + "/")
    ]
    return {"places": {place: _place(place, found) for place in PLACES}, "cgroups": cgroups}


def _plain(options: str) -> str:
    return ",".join(word for word in options.split(",") if _SAID.fullmatch(word))


def _place(place: str, table: list[Mount]) -> dict[str, Any]:
    """Describe the mount that a place is on: the longest that leads to it, the newest of equal ones."""
    try:
        path = os.path.realpath(place)
    except OSError as error:
        return unread_because(error)
    above = [one for one in table if one.place == "/" or f"{path}/".startswith(f"{one.place}/")]
    if not above:
        return {"unread": "not_found", "why": f"no mount leads to {place}"}
    longest = max(len(one.place) for one in above)
    mount = [one for one in above if len(one.place) == longest][-1]
    found: dict[str, Any] = {
        "mount": mount.place,
        "type": mount.type,
        "options": _plain(mount.options),
        "super": _plain(mount.super),
    }
    # A file system on a network is not asked for its space: it may not answer for ever.
    return {**found, **_space(path)} if mount.type in LOCAL else found


def _space(path: str) -> dict[str, Any]:
    try:
        return dict(space(path))
    except OSError as error:
        return {"bytes": unread_because(error), "inodes": unread_because(error)}


def space(path: str) -> dict[str, int]:
    """Tell how large the file system at a path is, and what is free there. Raises OSError."""
    told = os.statvfs(path)
    return {
        "bytes": told.f_blocks * told.f_frsize,
        "bytes_free": told.f_bavail * told.f_frsize,
        "inodes": told.f_files,
        "inodes_free": told.f_favail,
    }


def own_name() -> dict[str, Any]:
    """Resolve the node's own name as programs do, and tell whose each address is; no address is kept."""
    try:
        answers = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_DGRAM)
    except socket.gaierror as error:
        return {"addresses": [], "why": error.strerror or str(error)}
    addresses = dict.fromkeys((family, address[0]) for family, _, _, _, address in answers)
    return {"addresses": [_whose(family, str(address)) for family, address in addresses]}


def _whose(family: int, address: str) -> dict[str, Any]:
    bare = address.partition("%")[0]
    kind = "other"
    if bare.startswith("127.") or bare == "::1":
        kind = "loopback"
    elif bare.startswith("169.254.") or bare.lower().startswith("fe80:"):
        kind = "link-local"
    version = "ipv6" if family == socket.AF_INET6 else "ipv4"
    return {
        "family": version,
        "kind": kind,
        "own": _is_own(family, address),
    }


def _is_own(family: int, address: str) -> bool:
    """Tell whether an address is one of this machine's: only then may a socket take it. Nothing is sent."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True
