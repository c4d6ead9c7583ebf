"""One node that was rebooted: when it was gone and back, and what of it did not come back."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpuassay.facts import fault_sights as sights_of
from gpuassay.facts.fault_sights import Moment
from gpuassay.facts.fault_trial import END, LOOK, PLAN, READERS, said
from gpuassay.facts.reboot_parts import gpus_lost, links_lost, mounts_lost, nics_lost, software_changed
from gpuassay.facts.reboot_scheduler import scheduler_changed
from gpuassay.facts.record import mapped
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuassay.evidence.item import Item
    from gpuassay.facts.fault_sights import Sight
    from gpuassay.facts.node import Node
    from gpuassay.judge.fact import Fact
    from gpuassay.judge.services import Mount

METHOD = 1
"""Raised whenever nodes are rebooted in another way: older stories are not read as such."""

BEGIN, ORDER, SWEPT, CLAIM, CLAIM_AGAIN = "reboot", "order", "swept", "claim", "claim-again"
RETURNED, NOT_RETURNED = "returned", "not returned"
REFUSED, BLOCKED, SPARED, CUT = "refused", "blocked", "not reached", "cut short"

_UNTOLD = "unexpectedly rebooted"  # slurmctld's words for a boot that it has not ordered


class Reboot:
    """A node's story: ``items`` in order, each with its reference; the node before, and afterwards.

    ``mounts`` are those that the site file declares.
    """

    models: tuple[str, ...] = ()

    def __init__(
        self,
        node: str,
        items: Sequence[tuple[Item, str]],
        then: Node,
        now: Node,
        mounts: Sequence[Mount] = (),
    ) -> None:
        """Take all that was kept of it."""
        self.node = self.where = node
        self.items = items
        self._then, self._now, self._mounts = then, now, mounts

    @property
    def mark(self) -> str:
        """The name of its wave."""
        return str(self.asked(BEGIN).get("mark", ""))

    @property
    def ticket(self) -> str:
        """The ticket under which the provider knows of it."""
        return str(self.asked(BEGIN).get("ticket", ""))

    @property
    def ordered_s(self) -> float | None:
        """When its reboot was ordered, by the clock of its wave."""
        found = self._last(ORDER)
        return sights_of.times(found[0])[0] if found and found[0].status == "ok" else None

    @property
    def is_over(self) -> bool:
        """Whether its story has an end."""
        return self._last(END) is not None

    # --- time ------------------------------------------------------------------------------------

    @property
    def returned(self) -> Fact[bool]:
        """Whether it was in service again in the time that it was given."""
        found = self.back
        if found is not None:
            return Read(value=True, evidence=found.sight.evidence)
        return self._unproven or Read(value=False, evidence=self._ref(END), note=self._last_words)

    @property
    def return_s(self) -> Fact[float]:
        """Seconds from the order to the moment from which work could go to it again."""
        found = self.back
        if found is None:
            return self._unproven or Unread("failed", self._last_words, self._ref(END))
        down = self.down
        gone = f"out of service after {down.s:g} s, " if down else ""
        return Read(found.s, found.sight.evidence, f"{gone}back between {found.since_s:g} and {found.s:g} s")

    @property
    def boot_changed(self) -> Fact[bool]:
        """Whether its kernel was started anew: that it was away is no proof of it."""
        before = self._said(PLAN).get("boot")
        if not isinstance(before, str):
            return self._unproven or Unread("garbled", "what its boot was called before is not known")
        if self.back is None:
            return self._not_back
        boot = self._now.boot_id
        if isinstance(boot, Read) and boot.value == before:
            return Read(
                value=False, evidence=boot.evidence, note=f"boot {before} goes on: no kernel was started"
            )
        return mapped(boot, lambda now: now != before)

    # --- what came back --------------------------------------------------------------------------

    @property
    def gpus_lost(self) -> Fact[int]:
        """How many of its GPUs did not come back, or are others now."""
        return self._compared(gpus_lost)

    @property
    def nics_lost(self) -> Fact[int]:
        """The same of its network cards."""
        return self._compared(nics_lost)

    @property
    def links_lost(self) -> Fact[int]:
        """How many links of NVLink and ports of the compute fabric were up, and are down or slower now."""
        return self._compared(links_lost)

    @property
    def software_changed(self) -> Fact[int]:
        """How many of kernel, driver and libraries are of another version than before."""
        return self._compared(software_changed)

    @property
    def mounts_lost(self) -> Fact[int]:
        """How many of the declared file systems are not mounted any more, or not as before."""
        return self._compared(lambda then, now: mounts_lost(then, now, self._mounts))

    @property
    def scheduler_changed(self) -> Fact[int]:
        """How much of what its scheduler knew of it is not so any more: labels, resources, topology."""
        return self._compared(scheduler_changed)

    @property
    def files_damaged(self) -> Fact[int]:
        """How many of the files that were left on shared storage do not read as they were written."""
        if self.ordered_s is None or self.back is None:
            return self._not_back
        left = _marks(self._said(PLAN))
        kept = {mount: one for mount, one in left.items() if "sha256" in one}
        if not kept:
            why = "; ".join(f"{mount}: {one.get('why')}" for mount, one in left.items())
            return Unread("denied", f"no file could be left: {why or 'no shared file system is declared'}")
        look, ref = self._last(LOOK), self._ref(LOOK)
        found = _marks(said(look[0])) if look else {}
        if not found:
            why = look[0].why if look else "nobody looked"
            busy = look is not None and look[0].status == "denied"
            return Unread("denied" if busy else "failed", f"the files were not read again: {why}", ref)
        told = [words for mount, one in kept.items() if (words := _damage(mount, one, found.get(mount, {})))]
        return Read(len(told), ref, "; ".join(told))

    @property
    def claim_same(self) -> Fact[bool]:
        """Whether a file that a pod wrote into a volume of its own reads the same."""
        if self.ordered_s is None or self.back is None:
            return self._not_back
        left, found = self._said(CLAIM), self._said(CLAIM_AGAIN)
        if not left.get("wrote"):
            item = self._last(CLAIM)
            why = left.get("why") or (item[0].why if item else "") or "nobody tried"
            return Unread("denied", f"no file could be left in a claim: {why}", self._ref(CLAIM))
        if not found:
            return Unread("failed", "the claim was not read again", self._ref(CLAIM_AGAIN))
        note = str(found.get("why") or f"it reads as {found.get('read')}, and was written as {left['wrote']}")
        same = found.get("read") == left["wrote"]
        return Read(same, self._ref(CLAIM_AGAIN), "" if same else note)

    # --- the story -------------------------------------------------------------------------------

    @cached_property
    def sights(self) -> tuple[Sight, ...]:
        """All that its scheduler said of it, in order."""
        found = [READERS[item.id](item, ref) for item, ref in self.items if item.id in READERS]
        return tuple(sorted(found, key=lambda sight: sight.at_s))

    @property
    def down(self) -> Moment | None:
        """When it was first out of service after the order."""
        return next((self._moment(one) for one in self._after if one.out), None)

    @property
    def back(self) -> Moment | None:
        """When it was first in service again, with all its GPUs, after that or with another boot."""
        if self.ordered_s is None:
            return None
        found = came_back(self.sights, self._sent_s)
        return self._moment(found) if found else None

    @property
    def end(self) -> tuple[str, str]:
        """How it ended, and why."""
        found = self._last(END)
        if found is None:
            return "", "it was cut: whether it came back is not recorded"
        return str(found[0].asked.get("state", "")), found[0].why

    def asked(self, item_id: str) -> Mapping[str, Any]:
        """Give what was said of a step when it was kept."""
        found = self._last(item_id)
        return found[0].asked if found else {}

    @property
    def _after(self) -> list[Sight]:
        return [] if self.ordered_s is None else [one for one in self.sights if one.at_s > self._sent_s]

    @property
    def _sent_s(self) -> float:
        """When the order was sent: it may be carried out before that is known."""
        return sights_of.number(self.asked(ORDER).get("since_s"))

    def _moment(self, sight: Sight) -> Moment:
        begin = self.ordered_s or 0.0
        at_s, since_s = (max(0.0, round(seen_s - begin, 1)) for seen_s in (sight.at_s, sight.since_s))
        return Moment(at_s, since_s, sight)

    @property
    def _unproven(self) -> Unread | None:
        """Why nothing can be said of its return; None if it was ordered, and watched to its end."""
        state, why = self.end
        if self.ordered_s is None or state not in (RETURNED, NOT_RETURNED):
            return Unread("failed", f"{state or 'cut'}: {why}", self._ref(END))
        if state == RETURNED and self.back is None:
            why = "it was seen to return, and what was seen cannot be read"
            return Unread("garbled", why, self._ref(END))
        last = self.sights[-1].words if self.sights else ""
        if self.back is None and _UNTOLD in last.lower():
            why = f"{last}: it was restarted without Slurm, and we may not let it in again"
            return Unread("failed", why, self._ref(END))
        return None

    @property
    def _last_words(self) -> str:
        state, why = self.end
        return why or state

    @property
    def _not_back(self) -> Unread:
        return self._unproven or Unread("failed", f"it did not come back: {self._last_words}", self._ref(END))

    def _compared(self, compare: Callable[[Node, Node], Fact[int]]) -> Fact[int]:
        """Compare the node with itself, if it came back and was asked again."""
        return self._not_back if self.back is None else compare(self._then, self._now)

    def _said(self, item_id: str) -> Mapping[str, Any]:
        found = self._last(item_id)
        return said(found[0]) if found else {}

    def _ref(self, item_id: str) -> str:
        found = self._last(item_id)
        return found[1] if found else ""

    def _last(self, item_id: str) -> tuple[Item, str] | None:
        return next((pair for pair in reversed(self.items) if pair[0].id == item_id), None)


def came_back(sights: Sequence[Sight], sent_s: float) -> Sight | None:
    """Find when a node was first in service again, with all its GPUs, after an order was sent.

    It has to have been out of service in between, or to have booted: a scheduler may miss a short absence.
    """
    before, gone = None, False
    for sight in sights:
        if sight.at_s <= sent_s:
            before = sight
            continue
        gone = gone or sight.out is True
        if sight.out is False and sight.whole is not False and (gone or sights_of.another(sight, before)):
            return sight
    return None


def _marks(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Read what was said of the files, by file system."""
    listed = document.get("marks")
    entries = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return {str(one.get("mount")): one for one in entries}


def _damage(mount: str, left: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Say what is wrong with a file that was left; empty if it reads as it was written."""
    if found.get("sha256") == left["sha256"]:
        return ""
    if "sha256" in found:
        return f"{left.get('file', mount)} reads otherwise than it was written"
    return f"{left.get('file', mount)} cannot be read: {found.get('lost', 'it was not looked for')}"
