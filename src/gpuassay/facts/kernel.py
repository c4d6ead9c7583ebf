"""The kernel that runs: from which package, of which flavour, and whether a newer one waits for a reboot."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts.source import document, text
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import natural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.facts.packages import Packages
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

_RELEASE = r"[0-9]+\.[0-9]+[A-Za-z0-9._+~-]{0,80}"
# /proc/version_signature: "Ubuntu 6.8.0-137.137-generic 6.8.12"; HWE has ~22.04.1 before the flavour.
_UBUNTU = re.compile(
    r"Ubuntu ([0-9]+\.[0-9]+\.[0-9]+-[0-9][0-9.]*(?:[~+][a-z0-9.]+)?)-([a-z][a-z0-9-]*) [0-9.]+\s*"
)
_DEBIAN = re.compile(r" Debian ([0-9][A-Za-z0-9.+~-]{1,60}) \([0-9-]+\)")
_ENTERPRISE = re.compile(
    r"([0-9.]+-[0-9][A-Za-z0-9._]*\.el[0-9]+[A-Za-z0-9._]*)\.(?:x86_64|aarch64)(?:\+[a-z0-9]+)?"
)
# The kernel that each release of Ubuntu came with; others have their version in the name of the package.
_CAME_WITH: Mapping[str, str] = {"20.04": "5.4", "22.04": "5.15", "24.04": "6.8", "26.04": "7.0"}
_IMAGE = re.compile(r"linux-image-(?:unsigned-)?([0-9].*)")


class Kernel:
    """The kernel of a node."""

    def __init__(self, evidence: Evidence, packages: Packages) -> None:
        """Take the packages of the same node."""
        self._evidence = evidence
        self._packages = packages

    @property
    def release(self) -> Fact[str]:
        """What ``uname -r`` says."""
        return document(self._evidence, "host").text("kernel", _RELEASE, "a kernel release")

    @cached_property
    def package(self) -> Fact[str]:
        """Its source package and that one's version: ``ubuntu:24.04/linux-nvidia 6.8.0-1060.63``."""
        release, origin = self.release, self._packages.foreign or self._packages.origin
        if isinstance(release, Unread):
            return release
        if isinstance(origin, Unread):
            return origin
        system = origin.value.partition(":")[0]
        if system == "ubuntu":
            return self._of_ubuntu(origin.value)
        if system == "debian":
            return self._of_debian(origin.value)
        match = _ENTERPRISE.fullmatch(release.value)
        if match is None:
            why = (
                f"kernel {release.value} on {origin.value} is of no distribution whose kernels are known here"
            )
            return Unread("garbled", why, release.evidence)
        return Read(f"{origin.value}/kernel {match[1]}", release.evidence)

    def _of_ubuntu(self, origin: str) -> Fact[str]:
        signature = text(self._evidence, "version-signature")
        if isinstance(signature, Unread):
            return signature
        match = _UBUNTU.fullmatch(signature.value)
        if match is None:
            why = f"'{brief(signature.value)}' names no package of Ubuntu's kernels"
            return Unread("garbled", why, signature.evidence)
        version, flavour = match[1], match[2].removesuffix("-64k")
        series = ".".join(version.split(".")[:2])
        name = {"generic": "linux", "lowlatency": "linux-lowlatency"}.get(flavour, f"linux-{flavour}")
        if series != _CAME_WITH.get(origin.partition(":")[2]):
            name = f"{name}{'-hwe' if flavour in ('generic', 'lowlatency') else ''}-{series}"
        return Read(f"{origin}/{name} {version}", signature.evidence)

    def _of_debian(self, origin: str) -> Fact[str]:
        version = text(self._evidence, "proc-version")
        if isinstance(version, Unread):
            return version
        match = _DEBIAN.search(version.value)
        if match is None:
            why = f"'{brief(version.value)}' names no package of Debian's kernels"
            return Unread("garbled", why, version.evidence)
        return Read(f"{origin}/linux {match[1]}", version.evidence)

    @property
    def is_newest(self) -> Fact[bool]:
        """Whether no newer kernel of its series and flavour is installed and waits for a reboot."""
        release = self.release
        if isinstance(release, Unread):
            return release
        if self._packages.foreign:
            return self._packages.foreign
        for installed in (self._in_packages, self._in_boot):
            like = [one for one in installed if _kind(one) == _kind(release.value)]
            if release.value in like:
                newest = max(like, key=natural)
                note = f"{release.value} runs, {newest} is installed"
                return Read(release.value == newest, release.evidence, note)
        why = f"the kernel that runs, {release.value}, is in no package and not in /boot"
        return Unread("not_found", why, release.evidence)

    @property
    def _in_packages(self) -> list[str]:
        packages = self._packages.installed
        if isinstance(packages, Unread):
            return []
        images = (_IMAGE.fullmatch(one.name) for one in packages.value)
        cores = [f"{one.version}.{one.arch}" for one in packages.value if one.name == "kernel-core"]
        return [*(match[1] for match in images if match), *cores]

    @property
    def _in_boot(self) -> list[str]:
        kernels = document(self._evidence, "boot").look("kernels")
        names = kernels.value if isinstance(kernels, Read) and isinstance(kernels.value, list) else []
        return [name.removeprefix("vmlinuz-") for name in names if isinstance(name, str)]


def _kind(release: str) -> tuple[str, str]:
    """Give series and flavour: all kernels of one kind are numbered in one row."""
    flavour = [] if ".el" in release else release.split("-", 2)[2:]
    return ".".join(release.split(".")[:2]), "".join(flavour)
