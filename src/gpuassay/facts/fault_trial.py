"""What came of one fault: how it was done, what the provider made of it and when, and how it ended."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from gpuassay.facts import fault_audited, fault_kube, fault_smoke
from gpuassay.facts import fault_sights as sights_of
from gpuassay.facts.fault_notices import alert_sight, hook_sight, ticket_sight
from gpuassay.facts.fault_slurm import canary_sight, fleet_sight, node_sight
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpuassay.evidence.item import Item
    from gpuassay.facts.fault_sights import Injected, Moment, Return, Sight
    from gpuassay.judge.fact import Fact

T = TypeVar("T")

TRIAL, PLAN, ARM, INJECT, UNDO, STAND_DOWN, END, LOOK, OVER = (
    "trial",
    "plan",
    "arm",
    "inject",
    "undo",
    "stand-down",
    "end",
    "look",
    "over",
)
METHOD = 1
"""Raised whenever a trial is conducted in another way: older ones are not read as such."""

UNDONE, HANDED_OVER, RESTORE_FAILED = "undone", "handed over", "restore failed"
REFUSED, BLOCKED = "refused", "blocked"

READERS: Mapping[str, Callable[[Item, str], Sight]] = {
    "watch/slurm-node": node_sight,
    "watch/slurm-canary": canary_sight,
    "watch/slurm-fleet": fleet_sight,
    "watch/kube-node": fault_kube.node_sight,
    "watch/kube-canary": fault_kube.canary_sight,
    "watch/kube-fleet": fault_kube.fleet_sight,
    "watch/kube-events": fault_kube.event_sight,
    "watch/alertmanager": alert_sight,
    "watch/prometheus": alert_sight,
    "watch/webhook": hook_sight,
    "watch/ticket": ticket_sight,
}
"""What reads the sights of each eye."""


_UNHEARD = Unread("denied", "the site file names nothing where a message could be seen ([notices])")


class FaultTrial:
    """One fault on one node. ``items`` are its evidence in order, each with its reference."""

    models: tuple[str, ...] = ()

    def __init__(self, items: Sequence[tuple[Item, str]]) -> None:
        """Take all that was kept of it.

        ``lacks`` is how much the node that serves lacks of what the failed one had, for whoever knows that.
        """
        self._items = items
        self.lacks: Fact[int] = fault_audited.NOT_COMPARED

    @property
    def items(self) -> Sequence[tuple[Item, str]]:
        """All that was kept of it."""
        return self._items

    @property
    def fault(self) -> str:
        """The name of what was done."""
        return str(self._asked(TRIAL).get("fault", ""))

    @property
    def ticket(self) -> str:
        """The ticket under which the provider knows of it."""
        return str(self._asked(TRIAL).get("ticket", ""))

    @property
    def node(self) -> str:
        """The node that it was done to."""
        return str(self._asked(TRIAL).get("node", ""))

    @property
    def where(self) -> str:
        """Its place: the node, for a fault is named by its check."""
        return self.node or "cluster"

    def has(self, item_id: str) -> bool:
        """Tell whether a step was kept."""
        return self._last(item_id) is not None

    def was(self, fault: str, args: Mapping[str, Any]) -> bool:
        """Tell whether it was this fault, done in this way."""
        told = self._asked(TRIAL)
        return self.fault == fault and told.get("args") == dict(args) and told.get("method") == METHOD

    @property
    def delivered(self) -> Fact[bool]:
        """Whether it was proven to have taken hold; where it was refused or blocked, nobody has failed."""
        if self._injected is None:
            return self._undelivered("whether it took hold")
        item, ref = self._injected
        return Read(value=True, evidence=ref, note=str(_said(item).get("proof", "")))

    @property
    def detected(self) -> Fact[bool]:
        """Whether the provider's side made any change in the time that was watched."""
        return self._whether(sights_of.detected)

    @property
    def detect_s(self) -> Fact[float]:
        """Seconds until the first change that the provider's side made."""
        return self._seconds(sights_of.detected, "nothing of the provider's changed")

    @property
    def isolated(self) -> Fact[bool]:
        """Whether a job pinned to the node was refused in the time that was watched."""
        return self._whether(sights_of.isolated)

    @property
    def isolate_s(self) -> Fact[float]:
        """Seconds until a job pinned to the node was refused."""
        return self._seconds(sights_of.isolated, "a pinned job was always let in")

    @property
    def notified(self) -> Fact[bool]:
        """Whether an alert, a ticket or a message about it came."""
        return self._whether(sights_of.notified) if self.listened else _UNHEARD

    @property
    def notify_s(self) -> Fact[float]:
        """Seconds until the first alert, ticket or message about it."""
        never = "no alert, ticket or message came"
        return self._seconds(sights_of.notified, never) if self.listened else _UNHEARD

    @property
    def listened(self) -> bool:
        """Whether the site file names a place where a message would be seen."""
        return any(sight.notified is not None for sight in self.sights)

    @property
    def taken_out(self) -> Fact[bool]:
        """Whether the node was taken out of service, which an application's fault must not cause."""
        return self._whether(sights_of.taken_out)

    @property
    def stays_out(self) -> Fact[bool]:
        """Whether the node was let in again only when another machine, booted anew, or seen to be mended."""
        if self._injected is None or self.moment(sights_of.taken_out) is None:
            return Unread("failed", "the node was not taken out of service")
        found = self.returned
        if found is None:
            last = self._last(END)
            return Read(value=True, evidence=last[1] if last else self._injected[1], note="it was not let in")
        at = f"after {found.moment.s:g} s: {found.moment.sight.words}"
        if found.other:
            return Read(value=True, evidence=found.moment.sight.evidence, note=at)
        well = self.well
        if isinstance(well, Unread):
            return well
        return Read(well.value, well.evidence, f"let in again {at}; {well.note}")

    @property
    def let_in_broken(self) -> Fact[bool]:
        """Whether the node was taken out and let in again while it was still broken; it need not be taken."""
        if self._injected is None:
            return self._undelivered("what the provider made of it")
        if self.moment(sights_of.taken_out) is None:
            return Read(value=False, evidence=self._injected[1], note="it was not taken out of service")
        found = self.stays_out
        return Read(not found.value, found.evidence, found.note) if isinstance(found, Read) else found

    @property
    def replaced(self) -> Fact[bool]:
        """Whether a node served again in place of the one taken out, and has passed its audit and a load."""
        return self._served(lambda found: Read(value=True, evidence=found.moment.sight.evidence))

    @property
    def replace_s(self) -> Fact[float]:
        """Seconds until a node served again: a spare, another machine, or the same one booted or mended.

        It counts from when it was let in, if it then has passed its audit and a load.
        """

        def when(found: Return) -> Read[float]:
            which = found.node or self.node
            how = "another machine, or booted anew" if found.other else "the same machine"
            sight = found.moment.sight
            return Read(found.moment.s, sight.evidence, f"{which}, {how}: {sight.words}")

        served = self._served(when)
        if isinstance(served, Read) and served.value is False:
            return Unread("failed", f"no node served again in its place ({served.note})", served.evidence)
        return served

    @property
    def well(self) -> Fact[bool]:
        """Whether the node that serves now was looked at, and is as it should be."""
        found = self._last(LOOK)
        if found is None:
            return Unread("failed", "no node was looked at")
        item, ref = found
        document = _said(item)
        if "proof" in document:
            return Read(value=True, evidence=ref, note=str(document["proof"]))
        why = document.get("not_restored") or document.get("failed") or item.why or "it gave no answer"
        return Read(value=False, evidence=ref, note=str(why))

    @property
    def loaded(self) -> Fact[bool]:
        """Whether the node that serves now was well, and has passed a load on each of its GPUs."""
        if "smoke" not in self._asked(TRIAL).get("args", {}):
            return Unread("not_asked", "no load belongs to this trial")
        well = self.well
        if isinstance(well, Unread) or not well.value:
            return well
        return fault_smoke.passed([pair for pair in self._items if pair[0].id == fault_smoke.SMOKE])

    @property
    def serving(self) -> str:
        """The node that serves in place of the one that was taken out; empty where none does."""
        found = self.returned
        return (found.node or self.node) if found else ""

    @property
    def audited(self) -> Fact[bool]:
        """Whether the node that serves now was well, and its audit finds all that the failed one had."""
        if not self._asked(TRIAL).get(fault_audited.AUDIT):
            return Unread("not_asked", "no audit belongs to this trial")
        well = self.well
        if isinstance(well, Unread) or not well.value:
            return well
        return fault_audited.passed(self._last(fault_audited.AUDIT), self.lacks)

    @property
    def restored_s(self) -> Fact[float]:
        """Seconds until as many nodes were in service as before."""
        found = self.restored
        if found is None:
            return Unread("failed", "there never were as many nodes in service again as before")
        return Read(found.s, found.sight.evidence, found.sight.words)

    @property
    def end(self) -> Fact[str]:
        """How it ended: undone, handed over, or restore failed."""
        found = self._last(END)
        if found is None:
            return Unread("failed", "it was cut: how it ended is not known (the dead-man undoes it)")
        item, ref = found
        state = str(item.asked.get("state", ""))
        if state in (REFUSED, BLOCKED):
            return Unread("failed", f"{state}: {item.why}", ref)
        return Read(state, ref, item.why)

    @cached_property
    def sights(self) -> tuple[Sight, ...]:
        """All that was seen, in the order in which it was seen."""
        user = self._asked(TRIAL).get("user")
        found = [READERS[item.id](item, ref) for item, ref in self._items if item.id in READERS]
        told = [replace(one, by=sights_of.TENANT) if user and one.by == user else one for one in found]
        return tuple(sorted(told, key=lambda sight: sight.at_s))

    @property
    def injected_s(self) -> float | None:
        """When it was proven to have taken hold, by the trial's clock."""
        return None if self._injected is None else sights_of.times(self._injected[0])[0]

    @property
    def _fault(self) -> Injected | None:
        if self._injected is None:
            return None
        proven_s, began_s = sights_of.times(self._injected[0])
        return sights_of.Injected(began_s, proven_s)

    @property
    def span(self) -> tuple[float, float] | None:
        """From when it had taken hold until its end, in seconds since 1970; None where it never took hold.

        One that was cut was mended by the dead-man, at his time at the latest.
        """
        at_s, told = self.injected_s, self._asked(TRIAL)
        if at_s is None:
            return None
        end = self._last(END)
        end_s = sights_of.number(end[0].asked.get("watched_until_s")) if end else at_s + self._held_s
        wall = sights_of.number(told.get("wall"))
        return wall + at_s, wall + max(at_s, end_s)

    @property
    def _held_s(self) -> float:
        """How long after it was armed the dead-man mends it."""
        args = self._asked(TRIAL).get("args", {})
        return sum(sights_of.number(args.get(key)) for key in ("watch_s", "mend_s"))

    def _by_us(self, found: Return) -> bool:
        """Tell whether the very machine serves that our own dead-man has mended before."""
        armed, told = self._last(ARM), self._last(STAND_DOWN)
        if found.other or armed is None or (told and _said(told[0]).get("stood_down")):
            return False
        return found.moment.sight.at_s >= sights_of.times(armed[0])[1] + self._held_s

    def moment(self, is_it: Callable[[Sight, Sight | None], bool]) -> Moment | None:
        """Find when something was first seen after the fault."""
        fault = self._fault
        return None if fault is None else sights_of.first(self.sights, fault, is_it)

    @property
    def returned(self) -> Return | None:
        """How a node served again after the one was taken out."""
        fault = self._fault
        return None if fault is None else sights_of.returned(self.sights, fault)

    @property
    def restored(self) -> Moment | None:
        """When as many nodes were in service as before."""
        fault = self._fault
        return None if fault is None else sights_of.restored(self.sights, fault)

    def _served(self, when: Callable[[Return], Read[T]]) -> Read[T] | Read[bool] | Unread:
        if self._injected is None:
            return self._undelivered("whether a node came in its place")
        if self.moment(sights_of.taken_out) is None:
            return Unread("failed", "the node was not taken out, so none had to come", self._injected[1])
        found = self.returned
        if found is not None and self._by_us(found):
            note = "the same machine serves, which our own dead-man has mended"
            return Read(value=False, evidence=found.moment.sight.evidence, note=note)
        if found is not None:
            return fault_audited.unproven(found, (self.loaded, self.audited)) or when(found)
        over = self._last(OVER)
        if over is None:
            return Unread("failed", "watching ended before a node came in its place", self._injected[1])
        lasted = sights_of.number(over[0].asked.get("watched_until_s")) - (self.injected_s or 0.0)
        return Read(value=False, evidence=over[1], note=f"not within {lasted:.0f} s")

    def _whether(self, is_it: Callable[[Sight, Sight | None], bool]) -> Fact[bool]:
        if self._injected is None:
            return self._undelivered("what the provider made of it")
        found = self.moment(is_it)
        if found:
            note = f"after {found.s:g} s: {found.sight.words}"
            return Read(value=True, evidence=found.sight.evidence, note=note)
        watched = self._watched_s
        if watched is None:
            return Unread("failed", "watching was cut before its time", self._injected[1])
        return Read(value=False, evidence=self._injected[1], note=f"not within {watched:.0f} s")

    def _seconds(self, is_it: Callable[[Sight, Sight | None], bool], never: str) -> Fact[float]:
        if self._injected is None:
            return self._undelivered("how long it took")
        found = self.moment(is_it)
        if found is None:
            watched = self._watched_s
            lasted = "watching was cut" if watched is None else f"watched for {watched:.0f} s"
            return Unread("failed", f"{never} ({lasted})", self._injected[1])
        note = f"between {found.since_s:g} and {found.s:g} s: {found.sight.words}"
        return Read(found.s, found.sight.evidence, note)

    @property
    def _watched_s(self) -> float | None:
        found = self._last(OVER) or self._last(END)
        at_s = self.injected_s
        watched = found[0].asked.get("watched_until_s") if found else None
        return watched - at_s if isinstance(watched, int | float) and at_s is not None else None

    @cached_property
    def _injected(self) -> tuple[Item, str] | None:
        found = self._last(INJECT)
        return found if found and "proof" in _said(found[0]) else None

    def _undelivered(self, what: str) -> Unread:
        found = self._last(END)
        why = f"{found[0].asked.get('state')}: {found[0].why}" if found else "the trial was cut"
        return Unread("failed", f"{what} is not known: {why}", found[1] if found else "")

    def _asked(self, item_id: str) -> Mapping[str, Any]:
        found = self._last(item_id)
        return found[0].asked if found else {}

    def _last(self, item_id: str) -> tuple[Item, str] | None:
        return next((pair for pair in reversed(self._items) if pair[0].id == item_id), None)


def trials(items: Sequence[tuple[Item, str]]) -> Iterator[FaultTrial]:
    """Part the evidence of a measurement into its trials: each begins with the item ``trial``."""
    begins = [number for number, (item, _) in enumerate(items) if item.id == TRIAL]
    for begin, end in pairwise([*begins, len(items)]):
        yield FaultTrial(items[begin:end])


def _said(item: Item) -> Mapping[str, Any]:
    """Read the document that an act printed; empty where it printed none."""
    try:
        said = json.loads(item.out)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


said = _said
