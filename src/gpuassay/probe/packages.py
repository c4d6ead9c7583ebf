"""Which of a few named packages are installed: read from dpkg's own file, never the whole of it."""

from __future__ import annotations

import os
import re
from typing import Any

from gpuassay.probe.files import contents

# What GPU nodes are held to, and nothing else: nobody has to show what else is on his machines.
NAMES = (
    "containerd",
    "containerd.io",
    "cri-o",
    "cuda-compat-*",
    "datacenter-gpu-manager",
    "datacenter-gpu-manager-4-core",
    "datacenter-gpu-manager-exporter",
    "docker-ce",
    "docker.io",
    "kernel-core",
    "linux-image-*",
    "moby-engine",
    "nvidia-container-toolkit",
    "nvidia-fabric-manager",
    "nvidia-fabricmanager",
    "nvidia-fabricmanager-*",
    "qemu-kvm-core",
    "qemu-system-x86",
    "runc",
    "virtio-net-controller",
)
STATUS = "/var/lib/dpkg/status"
RPM = ("rpm", "-qa", "--qf", r"%{NAME} %|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE} %{ARCH}\n", *NAMES)

_LARGEST = 1 << 26  # a full desktop's file has 10 MiB
_BOOTABLE = "vmlinuz-"


def installed(path: str = STATUS) -> dict[str, dict[str, str]]:
    """Read version and source package of those that are installed. Raises OSError."""
    wanted = re.compile("|".join(re.escape(name).replace(r"\*", ".*") for name in NAMES))
    found = {}
    for paragraph in contents(path, _LARGEST).decode(errors="replace").split("\n\n"):
        name = paragraph[9:].partition("\n")[0].strip() if paragraph.startswith("Package: ") else ""
        if wanted.fullmatch(name):
            package = _installed(paragraph)
            if package:
                found[name] = package
    return found


def _installed(paragraph: str) -> dict[str, str]:
    """Take what is told of a package; nothing of one that is not unpacked, such as a removed one."""
    fields = dict(re.findall(r"^(Status|Version|Source): (.*)$", paragraph, re.MULTILINE))
    if fields.get("Status", "").split()[-1:] != ["installed"]:
        return {}
    return {key.lower(): fields[key] for key in ("Version", "Source") if key in fields}


def boot(root: str) -> dict[str, Any]:
    """Name the kernels that can be started. Raises OSError."""
    return {"kernels": sorted(name for name in os.listdir(root) if name.startswith(_BOOTABLE))}  # noqa: PTH208 - pathlib is slow to import
