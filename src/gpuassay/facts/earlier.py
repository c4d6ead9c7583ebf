"""The same cluster in an earlier recording: what each node was then, and what has been counted since."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeVar

from gpuassay.facts.record import mapped
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpuassay.facts.node import Node
    from gpuassay.judge.fact import Fact

T = TypeVar("T")

_HOW: Final = "no earlier recording of this cluster was given to compare with: name one by --earlier=DIR"
_NEW: Final = "a new node: the earlier recording has none of this name"
_LEAST_HOURS: Final = 1.0  # docs/decisions.md: a rate over less says nothing
_PAST: Final = "in the earlier recording: "


class Whereabouts:
    """Where each GPU and network card of some nodes is, by what it calls itself."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        """Take the nodes; they are looked at when somebody asks."""
        self._nodes = tuple(nodes)

    def of(self, identity: str) -> str:
        """Name the place of a part; empty where it is nowhere, or nobody could tell."""
        return self._places.get(identity, "")

    @cached_property
    def _places(self) -> Mapping[str, str]:
        gpus = ((gpu.identity, gpu.where) for node in self._nodes for gpu in node.gpus)
        nics = ((nic.identity, nic.where) for node in self._nodes for nic in node.nics)
        return {known.value: where for known, where in (*gpus, *nics) if isinstance(known, Read)}


class Earlier:
    """An earlier recording of the cluster: its nodes by name, and the hours from then to now."""

    def __init__(self, nodes: Iterable[Node], hours: float) -> None:
        """Take the nodes as they were."""
        self.nodes = {node.name: node for node in nodes}
        self.hours = hours
        self.then = Whereabouts(self.nodes.values())
        self.now = Whereabouts(())

    def meet(self, nodes: Iterable[Node]) -> None:
        """Take the nodes as they are, among which parts are looked for that were elsewhere then."""
        self.now = Whereabouts(nodes)


class Past:
    """One node as it was; without an earlier recording, or as a new node, it has none."""

    def __init__(self, now: Node | None = None, earlier: Earlier | None = None) -> None:
        """Take the node as it is now, and the earlier recording."""
        self._now = now
        self._earlier = earlier

    @property
    def node(self) -> Fact[Node]:
        """The node in the earlier recording."""
        if self._earlier is None or self._now is None:
            return Unread("not_asked", _HOW)
        then = self._earlier.nodes.get(self._now.name)
        return Read(then) if then is not None else Unread("not_found", _NEW)

    @property
    def known(self) -> Fact[bool]:
        """Whether there is such a node; the note says why not."""
        node = self.node
        return Read(value=False, note=node.why) if isinstance(node, Unread) else Read(value=True)

    def was_at(self, identity: str) -> str:
        """Name the place where a part was then, on whatever node."""
        return self._earlier.then.of(identity) if self._earlier else ""

    def is_at(self, identity: str) -> str:
        """Name the place where a part is now, on whatever node."""
        return self._earlier.now.of(identity) if self._earlier else ""

    # --- time ------------------------------------------------------------------------------------

    @cached_property
    def rebooted(self) -> Fact[bool]:
        """Whether the node was started anew since: what its kernel counts began at zero then."""
        then, now = self.node, self._now
        if isinstance(then, Unread) or now is None or self._earlier is None:
            return then if isinstance(then, Unread) else Unread("not_asked", _HOW)
        boots = (then.value.boot_id, now.boot_id)
        if isinstance(boots[0], Read) and isinstance(boots[1], Read):
            return Read(boots[0].value != boots[1].value, boots[1].evidence)
        hours = self._earlier.hours
        return mapped(now.uptime_hours, lambda up: up < hours)

    @cached_property
    def break_in_counting(self) -> Unread | None:
        """Why what the kernel and its drivers count cannot be compared; None if they went on counting."""
        rebooted = self.rebooted
        if isinstance(rebooted, Unread):
            return rebooted
        why = "the node was restarted since: its counters and its log began anew"
        return Unread("denied", why, rebooted.evidence) if rebooted.value else None

    @cached_property
    def counted_hours(self) -> Fact[float]:
        """How many hours have passed in which everything went on counting, however few."""
        unread = self.break_in_counting
        return unread if unread is not None else Read(self._earlier.hours if self._earlier else 0.0)

    @cached_property
    def hours(self) -> Fact[float]:
        """The same, where it is long enough for a rate of what happens now and then."""
        counted = self.counted_hours
        if isinstance(counted, Read) and counted.value < _LEAST_HOURS:
            minutes = counted.value * 60
            why = f"too short: {minutes:.0f} minutes lie between the recordings, and a rate needs an hour"
            return Unread("failed", why)
        return counted

    @property
    def log_seconds(self) -> Fact[float]:
        """Up to when the earlier recording has seen the kernel log, in seconds since the boot.

        Uptime is that of a container where one has its own: then the log's own last record tells better.
        """
        node = self.node
        if isinstance(node, Unread):
            return node
        newest = node.value.kernel_log.newest_seconds
        last = newest.value if isinstance(newest, Read) else 0.0
        return before(mapped(node.value.uptime_hours, lambda hours: max(hours * 3600, last)))


NO_PAST: Final = Past()


def before(fact: Fact[T]) -> Fact[T]:
    """Take a fact of the earlier recording; its references are none of the recording that is judged."""
    return Unread(fact.kind, f"{_PAST}{fact.why}") if isinstance(fact, Unread) else Read(fact.value)


def risen(now: Fact[int], then: Fact[int]) -> Fact[int]:
    """Tell by how much a counter has risen; one that went down began anew, and says nothing."""
    old = before(then)
    if isinstance(now, Unread):
        return now
    if isinstance(old, Unread):
        return old
    if now.value < old.value:
        why = f"{now.value} now and {old.value} earlier: the counter was reset"
        return Unread("denied", why, now.evidence)
    return Read(now.value - old.value, now.evidence, f"{old.value} earlier, {now.value} now")


def rate(count: Fact[int], hours: Fact[float], per: float, least: float = 0.0) -> Fact[float]:
    """Tell how many in ``per`` hours, over the time that passed or at least ``least`` hours."""
    if isinstance(count, Unread):
        return count
    if isinstance(hours, Unread):
        return hours
    found = count.value / max(hours.value, least) * per
    return Read(round(found, 3), count.evidence, f"{count.note}, in {lasting(hours.value)}")


def lasting(hours: float) -> str:
    """Write how long something was."""
    return f"{hours / 24:.1f} days" if hours >= 48 else f"{hours:.1f} hours"  # noqa: PLR2004 - as people say it
