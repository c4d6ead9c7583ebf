"""The software of a recorded node: kernel, packages, and what came without one."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from recorded.items import absent, command, file, tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuassay.evidence.item import Item

ABI, UPLOAD = "6.8.0-137", "6.8.0-137.137"
KERNEL = f"{ABI}-generic"

# From Docker's own repository: its containerd.io brings a runc along that no package lists.
DOCKER = {
    "containerd.io": {"version": "2.2.5-1~ubuntu.24.04~noble"},
    "docker-ce": {"version": "5:29.7.0-1~ubuntu.24.04~noble"},
}
RUNC = "runc version 1.3.6\ncommit: v1.3.6-0-g00000000\nspec: 1.2.1\ngo: go1.25.4\nlibseccomp: 2.5.5\n"


@dataclass(frozen=True)
class Software:
    """What a node has beside its operating system: packages with their versions, and the rest by itself."""

    packages: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    runc: str = ""
    cuda: str = ""

    @classmethod
    def nvidia(cls, driver: str) -> Software:
        """Return what NVIDIA's own installation guides lead to, all of it mended."""
        companions = {
            "datacenter-gpu-manager-4-core": {"version": "1:4.5.3-1", "source": "datacenter-gpu-manager-4"},
            "datacenter-gpu-manager-exporter": {"version": "4.8.2-1"},
            "nvidia-container-toolkit": {"version": "1.19.1-1"},
            "nvidia-fabricmanager": {"version": f"{driver}-1"},
        }
        return cls(DOCKER | companions, RUNC, "13.1.0")

    def items(self) -> Iterator[Item]:
        """Yield the items, in the order in which the probe asks."""
        version = f"Linux version {KERNEL} (buildd@example) (gcc-13 13.3.0) #137-Ubuntu SMP PREEMPT_DYNAMIC\n"
        yield file("proc-version", "/proc/version", version)
        yield file("version-signature", "/proc/version_signature", f"Ubuntu {UPLOAD}-generic 6.8.12\n")
        yield tree("boot", "/boot", {"kernels": [f"vmlinuz-{KERNEL}"]})
        yield absent("mlx5-version", {"file": "/sys/module/mlx5_core/version"})
        yield self._toolkit()
        image = {f"linux-image-{KERNEL}": {"version": UPLOAD, "source": "linux-signed"}}
        yield file(
            "packages", "/var/lib/dpkg/status", json.dumps(dict(sorted({**image, **self.packages}.items())))
        )
        if self.runc:
            yield command("runc", ["runc", "--version"], self.runc)
        else:
            yield absent("runc", {"command": ["runc", "--version"]}, "runc: No such file or directory")
        for item, packages in (
            ("containerd", ("containerd.io",)),
            ("dockerd", ("docker-ce",)),
            ("nvidia-ctk", ("nvidia-container-toolkit",)),
        ):
            if not self.packages.keys() & set(packages):
                yield absent(item, {"command": [item, "--version"]}, f"{item}: No such file or directory")

    def _toolkit(self) -> Item:
        path = "/usr/local/cuda/version.json"
        if not self.cuda:
            return absent("cuda-toolkit", {"file": path})
        release = {"cuda": {"name": "CUDA SDK", "version": self.cuda}}
        return file("cuda-toolkit", path, json.dumps(release, indent=3))
