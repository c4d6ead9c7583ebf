"""Installed software: what dpkg or rpm says, else what a program says of itself; and where it is from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts.source import document, text
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

# What systemd-detect-virt prints inside a container (its manual page): packages there are the container's.
_CONTAINERS = frozenset(
    "container-other docker lxc lxc-libvirt openvz podman pouch proot rkt systemd-nspawn wsl".split()  # noqa: SIM905 - a list of words
)
_VERSION = r"[0-9][A-Za-z0-9.+~:^_-]{0,100}"
_UPSTREAM = re.compile(
    r"(?:[0-9]+:)?([0-9][A-Za-z0-9.+~]*?)(?:-(?!rc|alpha|beta)[A-Za-z0-9.+~^_-]*)?", re.ASCII
)
_OS_FIELD = re.compile(r'^(ID|VERSION_ID|PRETTY_NAME)="?([^"\n]*)"?$', re.MULTILINE)
_RPM = re.compile(rf"^([A-Za-z0-9._+-]+) ({_VERSION}) ([a-z0-9_]+)$", re.MULTILINE | re.ASCII)
_SOURCE = re.compile(r"([a-z0-9.+-]+)(?: \((.+)\))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Package:
    """A package as it is installed; ``source`` is what the distribution's advisories call it."""

    name: str
    version: str
    source: str
    evidence: str
    arch: str = ""

    @property
    def upstream(self) -> str:
        """The maker's version: ``5:29.7.0-1~ubuntu.24.04`` without a packager's epoch and revision."""
        match = _UPSTREAM.fullmatch(self.version)
        return match[1].replace("~rc", "-rc").partition("~")[0] if match else self.version


@dataclass(frozen=True, slots=True)
class Component:
    """Where a component may be: in its maker's packages, in a distribution's, or in none."""

    name: str
    maker: tuple[str, ...] = ()
    distribution: tuple[str, ...] = ()
    item: str = ""
    says: str = ""


RUNC = Component("runc", (), ("runc",), "runc", r"runc version (\S+)")
CONTAINERD = Component(
    "containerd", ("containerd.io",), ("containerd",), "containerd", r"containerd \S+ v?(\d\S*)"
)
DOCKER = Component(
    "docker", ("docker-ce",), ("docker.io", "moby-engine"), "dockerd", r"Docker version ([^,\s]+)"
)
CRIO = Component("cri-o", ("cri-o",))
CONTAINER_TOOLKIT = Component(
    "container-toolkit", ("nvidia-container-toolkit",), (), "nvidia-ctk", r"CLI version (\S+)"
)
DCGM = Component("dcgm", ("datacenter-gpu-manager-4-core", "datacenter-gpu-manager"))
DCGM_EXPORTER = Component("dcgm-exporter", ("datacenter-gpu-manager-exporter",))
QEMU = Component("qemu", (), ("qemu-system-x86", "qemu-kvm-core"))
VIRTIO_NET = Component("virtio-net", ("virtio-net-controller",))


class Packages:
    """The packages of a node, of those that the probe asks for."""

    def __init__(self, evidence: Evidence) -> None:
        """Look at what dpkg's file or rpm said."""
        self._evidence = evidence

    @cached_property
    def foreign(self) -> Unread | None:
        """Why packages seen here are not the node's; None if they are."""
        item = self._evidence.item("virt")
        word = brief(item.out.decode(errors="replace")) if item else ""
        if item is None or word not in _CONTAINERS:
            return None
        why = f"this is a container ({word}): it shows its own packages, not those of its host"
        return Unread("denied", why, self._evidence.ref(item))

    @cached_property
    def installed(self) -> Fact[tuple[Package, ...]]:
        """All that were found; none on a system that has neither dpkg nor rpm."""
        if self.foreign:
            return self.foreign
        dpkg = document(self._evidence, "packages")
        if dpkg.unread is None:
            return Read(tuple(_dpkg(dpkg.values, dpkg.evidence)), dpkg.evidence)  # type: ignore[arg-type]
        if dpkg.unread.kind != "not_found":
            return dpkg.unread
        listed = text(self._evidence, "rpm")
        if isinstance(listed, Unread):
            return Read((), listed.evidence) if listed.kind == "not_found" else listed
        found = (
            Package(name, version, name, listed.evidence, arch)
            for name, version, arch in _RPM.findall(listed.value)
        )
        return Read(tuple(found), listed.evidence)

    @cached_property
    def _release(self) -> Fact[Mapping[str, str]]:
        release = text(self._evidence, "os-release")
        if isinstance(release, Unread):
            return release
        return Read(dict(_OS_FIELD.findall(release.value)), release.evidence)

    @property
    def system(self) -> Fact[str]:
        """The operating system in its own words, e.g. ``Ubuntu 24.04.3 LTS``."""
        return self._of_release("PRETTY_NAME", r"[ -~]{1,100}")

    @cached_property
    def origin(self) -> Fact[str]:
        """Distribution and release as advisories have them: ``ubuntu:24.04``, ``debian:12``, ``rhel:9``."""
        name, version = (
            self._of_release("ID", r"[a-z0-9._-]{1,40}"),
            self._of_release("VERSION_ID", r"[0-9][0-9.]{0,10}"),
        )
        if isinstance(name, Unread):
            return name
        if isinstance(version, Unread):
            return version
        release = version.value if name.value == "ubuntu" else version.value.partition(".")[0]
        return Read(f"{name.value}:{release}", name.evidence)

    def _of_release(self, field: str, pattern: str) -> Fact[str]:
        release = self._release
        if isinstance(release, Unread):
            return release
        value = release.value.get(field, "")
        if not re.fullmatch(pattern, value, re.ASCII):
            return Unread("garbled", f"{field} in /etc/os-release is '{brief(value)}'", release.evidence)
        return Read(value, release.evidence)

    def named(self, pattern: str) -> Fact[tuple[Package, ...]]:
        """Find the packages whose whole name fits a pattern."""
        found = self.installed
        if isinstance(found, Unread):
            return found
        return Read(tuple(one for one in found.value if re.fullmatch(pattern, one.name)), found.evidence)

    def has(self, component: Component) -> Fact[bool]:
        """Tell whether a component is installed, as far as packages and the PATH show."""
        version = self.version(component)
        if isinstance(version, Read):
            return Read(value=True, evidence=version.evidence)
        return Read(value=False, evidence=version.evidence) if version.kind == "not_found" else version

    def version(self, component: Component) -> Fact[str]:
        """Read where a component is from and its version: ``upstream/runc 1.3.6``."""
        found = self.installed
        if isinstance(found, Unread):
            return found
        for package in found.value:
            if package.name in component.maker and "rhaos" not in package.version:  # OpenShift's own builds
                return Read(f"upstream/{component.name} {package.upstream}", package.evidence)
            if package.name in (*component.distribution, *component.maker):
                return self._of_distribution(package)
        if not component.item:
            return Unread("not_found", f"no package of {component.name} is installed", found.evidence)
        return self._said(component)

    def _of_distribution(self, package: Package) -> Fact[str]:
        if isinstance(self.origin, Unread):
            return self.origin
        return Read(f"{self.origin.value}/{package.source} {package.version}", package.evidence)

    def _said(self, component: Component) -> Fact[str]:
        said = text(self._evidence, component.item)
        if isinstance(said, Unread):
            return said
        match = re.search(component.says, said.value, re.ASCII)
        if match is None or not re.fullmatch(_VERSION, match[1].removeprefix("v"), re.ASCII):
            return Unread(
                "garbled", f"no version of {component.name} in '{brief(said.value)}'", said.evidence
            )
        return Read(f"upstream/{component.name} {match[1].removeprefix('v')}", said.evidence)


def _dpkg(entries: Mapping[str, object], evidence: str) -> list[Package]:
    """Read packages of dpkg; the source package is named where its name or version differ."""
    found = []
    for name, entry in entries.items():
        version, source = (
            (entry.get("version"), entry.get("source", "")) if isinstance(entry, dict) else ("", "")
        )
        if not isinstance(version, str) or not re.fullmatch(_VERSION, version, re.ASCII):
            version = "garbled"  # no scheme orders it, and so it is an error
        match = _SOURCE.fullmatch(source) if isinstance(source, str) else None
        origin, of_source = match.groups() if match else (name, None)
        found.append(Package(name, of_source or version, origin, evidence))
    return found
