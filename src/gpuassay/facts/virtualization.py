"""Virtual machines on a node: whether one could run there, and who could start it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay.facts import host
from gpuassay.facts.exposure import BY_OTHERS, allows
from gpuassay.facts.source import document
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact


class Virtualization:
    """What the processor offers, and what the kernel makes of it."""

    def __init__(self, evidence: Evidence) -> None:
        """Look at the processor's flags and at ``/dev/kvm``; nothing was opened."""
        self._evidence = evidence
        self._told = document(evidence, "virtualization")

    @property
    def offered_to_guest(self) -> Fact[bool]:
        """Whether this is a virtual machine in which further ones can run: the host lets it nest."""
        virtual = host.is_virtual(self._evidence)
        if isinstance(virtual, Unread):
            return virtual
        extensions = self._told.flag("extensions")
        if not virtual.value:
            return self._told.unread or Read(
                value=False, evidence=virtual.evidence, note="a physical machine"
            )
        if isinstance(extensions, Unread) and extensions.kind == "not_found":
            return self._by_device(extensions)
        return extensions

    def _by_device(self, lack: Unread) -> Fact[bool]:
        """Take the kernel's device for a yes where no flag tells; that there is none tells nothing."""
        device = self._told.record("device")
        if device.unread or not any(True for _ in device.items()):
            return device.unread or Unread("denied", lack.why, lack.evidence)
        return Read(value=True, evidence=device.evidence, note="/dev/kvm is there")

    @property
    def open_to_users(self) -> Fact[int]:
        """How many devices that start virtual machines are open to everybody: ``/dev/kvm`` or none."""
        device = self._told.record("device")
        runtime = host.container(self._evidence)
        if device.unread or runtime:
            why = f"seen from inside a container ({runtime})"
            return device.unread or Unread("denied", why, device.evidence)
        exposed = []
        for path, one in device.items():
            mode, way = one.count("mode", 0o7777), one.count("way", 0o777)
            for fact in (mode, way):
                if isinstance(fact, Unread):
                    return fact
            exposed += [path] if allows(one, BY_OTHERS) else []
        return Read(len(exposed), device.evidence, ", ".join(exposed))
