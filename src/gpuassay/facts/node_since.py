"""What became of a node since an earlier recording: parts that are gone, PCI errors, and its kernel log."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeVar

from gpuassay.facts import amdgpu_log, kernel_log
from gpuassay.facts.amdgpu_log import AmdgpuLog
from gpuassay.facts.earlier import before, rate
from gpuassay.facts.kernel_log import KernelLog
from gpuassay.facts.since import value
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.facts.earlier import Past
    from gpuassay.facts.node import Node
    from gpuassay.facts.since import Part
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

P = TypeVar("P", bound="Part")

_TOLD: Final = 4


class NodeSince:
    """A node beside itself in an earlier recording."""

    def __init__(self, now: Node, past: Past, evidence: Evidence) -> None:
        """Take the node as it is, as it was, and its evidence of now."""
        self._now = now
        self._past = past
        self._evidence = evidence

    # --- parts -----------------------------------------------------------------------------------

    @property
    def gpus_gone(self) -> Fact[int]:
        """How many GPUs it had whose slot is empty now, and that are in none of its others."""
        node, now = self._past.node, self._now
        if isinstance(node, Unread):
            return node
        then = before(node.value.gpus_on_bus)
        if isinstance(then, Unread):
            return then
        shown = now.gpus_on_bus
        return shown if isinstance(shown, Unread) else self._gone(node.value.gpus, now.gpus, shown.evidence)

    @property
    def nics_gone(self) -> Fact[int]:
        """The same of network cards."""
        node, now = self._past.node, self._now.nics_found
        if isinstance(node, Unread):
            return node
        then = before(node.value.nics_found)
        if isinstance(then, Unread):
            return then
        return now if isinstance(now, Unread) else self._gone(then.value, now.value, now.evidence)

    def _gone(self, then: Sequence[P], now: Sequence[P], evidence: str) -> Fact[int]:
        slots = {value(part.slot) for part in now} - {None}
        names = {value(part.identity) for part in now} - {None}
        gone = [part for part in then if value(part.slot) not in slots and value(part.identity) not in names]
        told = [self._missed(part) for part in gone[:_TOLD]]
        more = [f"and {len(gone) - _TOLD} more"] if len(gone) > _TOLD else []
        return Read(len(gone), evidence, "; ".join([*told, *more]))

    def _missed(self, part: Part) -> str:
        """Name a part that is gone: what it was, where it was, and where it is now, if that is known."""
        slot, identity = value(part.slot) or "a slot that is not known", value(part.identity)
        place = self._past.is_at(identity) if identity else ""
        return f"{part.told} in {slot}" + (f" is at {place} now" if place else "")

    # --- PCI errors ------------------------------------------------------------------------------

    @property
    def pci_fatal(self) -> Fact[int]:
        """How many errors cost a link or a device since."""
        return self._pci("aer_dev_fatal")

    @property
    def pci_nonfatal(self) -> Fact[int]:
        """How many errors cost a transaction since."""
        return self._pci("aer_dev_nonfatal")

    def _pci(self, kind: str) -> Fact[int]:
        more = self._pci_risen(kind)
        if isinstance(more, Unread):
            return more
        told = [f"{place}: {count}" for place, count in more.value.items() if count]
        return Read(sum(more.value.values()), more.evidence, "; ".join(told[:_TOLD]))

    @property
    def pci_corrected_per_hour(self) -> Fact[float]:
        """How many errors were corrected in an hour since, at the worst place."""
        more = self._pci_risen("aer_dev_correctable")
        if isinstance(more, Unread):
            return more
        if not more.value:
            return Unread("denied", "there is no GPU on the bus to count errors of", more.evidence)
        worst = max(more.value, key=lambda place: more.value[place])
        count = Read(more.value[worst], more.evidence, f"at {worst}: {more.value[worst]} errors")
        return rate(count, self._past.hours, per=1.0)

    def _pci_risen(self, kind: str) -> Fact[Mapping[str, int]]:
        """Tell by how much each place's count has risen; a place that was not there began at zero."""
        node = self._past.break_in_counting or self._past.node
        if isinstance(node, Unread):
            return node
        then, now = node.value.pci_errors.counts(kind), self._now.pci_errors.counts(kind)
        if isinstance(now, Unread):
            return now
        if isinstance(then, Unread):
            return before(then)
        more = {place: count - then.value.get(place, (0, ""))[0] for place, (count, _) in now.value.items()}
        fewer = [place for place, count in more.items() if count < 0]
        if fewer:
            why = f"the counts of {fewer[0]} were reset, or it is another part"
            return Unread("denied", why, now.evidence)
        return Read(more, now.evidence)

    # --- the kernel log --------------------------------------------------------------------------

    @cached_property
    def log(self) -> KernelLog:
        """What NVIDIA's drivers wrote into its kernel log since."""
        begin = self._log_begins
        if isinstance(begin, Unread):
            return KernelLog.unread(begin)
        return kernel_log.read_since(self._evidence, begin.value, self._past.break_in_counting)

    @cached_property
    def amdgpu_log(self) -> AmdgpuLog:
        """What AMD's driver wrote into it since."""
        begin = self._log_begins
        if isinstance(begin, Unread):
            return AmdgpuLog.unread(begin)
        return amdgpu_log.read(
            self._evidence, self._now.gpu_places, begin.value, self._past.break_in_counting
        )

    @property
    def _log_begins(self) -> Fact[float]:
        """From which second of uptime on the log is of interest: after a restart, all of it."""
        rebooted = self._past.rebooted
        if self._now.silence is not None:
            return self._now.silence
        if isinstance(rebooted, Unread):
            return rebooted
        return Read(0.0) if rebooted.value else self._past.log_seconds
