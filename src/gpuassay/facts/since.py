"""What became of a node's parts since an earlier recording: replaced, changed, gone, and what they counted.

A part is found again by what it calls itself, else by its slot. Counts are compared of one and the same
part only.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from gpuassay.facts.earlier import before, rate, risen
from gpuassay.facts.link import per_bit
from gpuassay.facts.record import mapped
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuassay.facts.earlier import Past
    from gpuassay.facts.gpu import Gpu
    from gpuassay.facts.nics import Nic
    from gpuassay.facts.node import Node
    from gpuassay.facts.rdma import Port
    from gpuassay.judge.fact import Fact

P = TypeVar("P", bound="Part")
T = TypeVar("T")

SAME: Final = "the same"
MOVED: Final = "moved"
REPLACED: Final = "replaced"
ADDED: Final = "added"
NEWER: Final = "newer"
OLDER: Final = "older"
ANOTHER: Final = "another"

_NOTHING: Final = Unread("denied", "there was nothing in its place in the earlier recording")
_DAY: Final = 24.0
_MINUTE: Final = 1 / 60
_SECOND: Final = 1 / 3600
_LEAST: Final = 24.0  # hours: the limit is so many in a day, and fewer hours are no day


def value(fact: Fact[T]) -> T | None:
    """Take what was read, if anything was."""
    return fact.value if isinstance(fact, Read) else None


def changed(now: Fact[str], then: Fact[str], base: int = 0) -> Fact[str]:
    """Compare a name with what it was; a version, whose numbers are of this base, also by its order."""
    old = before(then)
    if isinstance(now, Unread):
        return now
    if isinstance(old, Unread):
        return old
    if now.value == old.value:
        return Read(SAME, now.evidence)
    told = f"{old.value} earlier, {now.value} now"
    try:
        order = [[int(number, base) for number in text.split(".")] for text in (old.value, now.value)]
    except ValueError:
        return Read(ANOTHER, now.evidence, told)
    return Read(NEWER if order[0] < order[1] else OLDER, now.evidence, told)


class Part(Protocol):
    """What a slot holds: it has a name of its own, a make, and firmware."""

    @property
    def identity(self) -> Fact[str]:
        """What tells it from every other part."""

    @property
    def slot(self) -> Fact[str]:
        """Where it sits."""

    @property
    def told(self) -> str:
        """What to look for on its label."""

    @property
    def board_part(self) -> Fact[str]:
        """The make of its board."""

    @property
    def firmware_version(self) -> Fact[str]:
        """The version of its firmware."""


class PartSince(Generic[P]):
    """A part that a slot holds, and what that held."""

    _base = 10

    def __init__(self, now: P, past: Past) -> None:
        """Take the part as it is, and its node as it was."""
        self._now = now
        self._past = past

    def _parts(self, node: Node) -> Fact[Sequence[P]]:
        """Give the like parts of a node, or why they are not known."""
        raise NotImplementedError

    @cached_property
    def then(self) -> Fact[P]:
        """The same part in the earlier recording, else what was in its slot."""
        node, own, slot = self._past.node, self._now.identity, self._now.slot
        if isinstance(node, Unread):
            return node
        if isinstance(own, Unread):
            return own
        parts = self._parts(node.value)
        if isinstance(parts, Unread):
            return before(parts)
        itself = [part for part in parts.value if value(part.identity) == own.value]
        there = [part for part in parts.value if isinstance(slot, Read) and value(part.slot) == slot.value]
        found = next(iter((*itself, *there)), None)
        return Read(found) if found is not None else _NOTHING

    @property
    def part(self) -> Fact[str]:
        """Whether it is ``the same``, ``moved`` from another slot, ``replaced``, or ``added``."""
        then, own = self.then, self._now.identity
        if isinstance(own, Unread):
            return own
        came = self._past.was_at(own.value)
        if then is _NOTHING:
            return Read(ADDED, own.evidence, f"{self._now.told}, which was at {came}" if came else "")
        if isinstance(then, Unread):
            return then
        old = before(then.value.identity)
        if isinstance(old, Unread):
            return old
        if old.value != own.value:
            return Read(REPLACED, own.evidence, self._exchange(then.value, old.value, came))
        slots = (value(then.value.slot), value(self._now.slot))
        if None not in slots and slots[0] != slots[1]:
            return Read(MOVED, own.evidence, f"from {slots[0]} to {slots[1]}")
        return Read(SAME, own.evidence)

    def _exchange(self, then: P, old: str, came: str) -> str:
        """Say what was there, where that is now, what is there, and where it came from."""
        went = self._past.is_at(old)
        gone = f"{then.told} earlier" + (f", now at {went}" if went else "")
        return f"{gone}; {self._now.told} now" + (f", then at {came}" if came else "")

    @property
    def itself(self) -> Fact[P]:
        """The same part in the earlier recording, and no other."""
        then = self.then
        if isinstance(then, Unread) or value(then.value.identity) == value(self._now.identity):
            return then
        return Unread("denied", "another part than in the earlier recording: it began to count anew")

    @property
    def board(self) -> Fact[str]:
        """Whether the make of its board is ``the same`` or ``another``; ``added`` if it is new."""
        then = self.then
        if then is _NOTHING:
            return Read(ADDED)
        if isinstance(then, Unread):
            return then
        return changed(self._now.board_part, then.value.board_part)

    @property
    def firmware(self) -> Fact[str]:
        """Whether its firmware is ``the same``, ``newer``, ``older`` or ``another`` that has no order."""
        then = self.then
        if then is _NOTHING:
            return Read(ADDED)
        if isinstance(then, Unread):
            return then
        return changed(self._now.firmware_version, then.value.firmware_version, self._base)


class GpuSince(PartSince["Gpu"]):
    """A GPU, and what was in its slot."""

    _base = 16  # of the numbers in a VBIOS version: 97.00.FA.00.09

    def _parts(self, node: Node) -> Fact[Sequence[Gpu]]:
        return Read(node.gpus) if node.gpus else mapped(node.gpus_on_bus, lambda _: node.gpus)

    @property
    def nvlink_faults(self) -> Fact[int]:
        """How many packets its NVLinks lost or sent again, and how often they were trained anew."""
        then = self._past.break_in_counting or self.itself
        return then if isinstance(then, Unread) else risen(self._now.nvlink.faults, then.value.nvlink.faults)

    @property
    def replays_per_minute(self) -> Fact[float]:
        """How many packets it had to send again over PCIe in a minute, on average."""
        then, now = self.itself, self._now.health.pcie_replays
        if isinstance(then, Unread):
            return then
        return rate(risen(now, then.value.health.pcie_replays), self._past.hours, per=_MINUTE)

    @property
    def nvlink_crc_per_second(self) -> Fact[float]:
        """How many wrong check sums its NVLinks had in a second, on average (NVLink 1 to 4)."""
        then, now = self.itself, self._now.nvlink.crc_errors
        if isinstance(then, Unread):
            return then
        return rate(risen(now, then.value.nvlink.crc_errors), self._past.hours, per=_SECOND)

    @property
    def uncorrected(self) -> Fact[int]:
        """How many memory errors could not be corrected, by the count of its life, which nothing resets."""
        then, now = self.itself, self._now.health.lifetime_uncorrected_errors
        if isinstance(then, Unread):
            return then
        return risen(now, then.value.health.lifetime_uncorrected_errors)

    @property
    def uncorrected_since_load(self) -> Fact[int]:
        """The same by the driver's own count, which begins anew with the driver: all that AMD's has."""
        then, now = self._past.break_in_counting or self.itself, self._now.health.uncorrected_errors
        return then if isinstance(then, Unread) else risen(now, then.value.health.uncorrected_errors)

    @property
    def corrected_per_day(self) -> Fact[float]:
        """How many memory errors were corrected in a day, on average."""
        then, now = self.itself, self._now.health.corrected_errors
        if isinstance(then, Unread):
            return then
        return rate(risen(now, then.value.health.corrected_errors), self._past.hours, per=_DAY)


class NicSince(PartSince["Nic"]):
    """A network card, and what was in its slot."""

    def _parts(self, node: Node) -> Fact[Sequence[Nic]]:
        return node.nics_found


class PortSince:
    """A port, and the same port of the same adapter, whatever the kernel called that."""

    def __init__(self, now: Port, past: Past) -> None:
        """Take the port as it is, and its node as it was."""
        self._now = now
        self._past = past

    @cached_property
    def then(self) -> Fact[Port]:
        """The port in the earlier recording."""
        node, own = self._past.node, self._now.guid
        if isinstance(node, Unread):
            return node
        if isinstance(own, Unread):
            return own
        ports, unread = node.value.ports, node.value.ports_unread
        for port in ports:
            if port.number == self._now.number and value(port.guid) == own.value:
                return Read(port)
        if unread is not None:
            return before(unread)
        named = next((port.guid for port in ports if port.name == self._now.name), None)
        if isinstance(named, Read):
            return Unread("denied", f"another adapter has this name now: GUID {named.value} earlier")
        return _NOTHING if named is None else before(named)

    @property
    def downs(self) -> Fact[int]:
        """How often its link went down since."""
        then = self._past.break_in_counting or self.then
        return then if isinstance(then, Unread) else risen(self._now.downs, then.value.downs)

    @property
    def downs_per_day(self) -> Fact[float]:
        """How often a day its link went down since."""
        then = self.then
        if isinstance(then, Unread):
            return then
        return rate(risen(self._now.downs, then.value.downs), self._past.hours, per=_DAY, least=_LEAST)

    @property
    def bit_error_rate(self) -> Fact[float]:
        """Symbol errors since, by the bits that its rate makes in that time."""
        return self._per_bit(self._past.hours)

    @property
    def bit_error_rate_loaded(self) -> Fact[float]:
        """The same over any time: a loaded link carries so many bits that minutes of it tell."""
        return self._per_bit(self._past.counted_hours)

    def _per_bit(self, hours: Fact[float]) -> Fact[float]:
        then = self.then
        if isinstance(then, Unread):
            return then
        errors = risen(self._now.symbol_errors, then.value.symbol_errors)
        return per_bit(errors, self._now.line_rate_gbps, hours)
