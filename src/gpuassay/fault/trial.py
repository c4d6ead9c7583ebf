"""One fault from its plan to its end. Whatever happens on the way, what was broken is mended or handed over.

Each step is kept before the next one begins, so that a run that is killed tells how far it came. Before
anything is broken a dead-man stands on the node, who mends it when nobody else has.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.facts import fault_trial as facts
from gpuassay.facts.fault_audited import AUDIT
from gpuassay.facts.fault_sights import isolated, notified, taken_out
from gpuassay.facts.fault_trial import FaultTrial, said
from gpuassay.fault import errand, rank
from gpuassay.fault.consent import RefusedError, refuse_own, user
from gpuassay.stopping import undisturbed
from gpuassay.target import Job, TargetError
from gpuassay.watch import Clock, Watcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from gpuassay.fault.audit import Audit
    from gpuassay.fault.smoke import Smoke
    from gpuassay.target import Results
    from gpuassay.watch import Eye

_ACT_S = 120.0  # for one act on the node
_AGAIN_S = 2.0  # between two tries to reach the node for its undo
_SPARE_S = 60.0  # how long after the dead-man's time a node that does not answer has to be reachable again

_SETTLE_S = 30.0  # for a node that serves again to give a place, and for the list of all nodes to show it


class RestoreFailedError(Exception):
    """Something that was broken is not mended: nothing more may be broken in this run."""


class _BlockedError(Exception):
    """The fault did not take hold."""


@dataclass
class Trial:
    """One fault on one node.

    ``hold`` keeps a node for ourselves, and gives what runs a job there. ``keep`` writes an item down for
    good. The provider has ``watch_s`` seconds to take the node out; then, or when it has, the fault ends.
    ``mend_s`` seconds after that time the dead-man mends it by himself. A node that the provider has taken
    is let go, and watched until ``replace_s`` seconds after the fault: it, or a spare, is to serve again.
    ``told`` is what the site file tells every fault. ``audit`` asks such a node all that nodes are asked,
    ``smoke`` is the load that it has to pass.
    """

    fault: str
    args: Mapping[str, Any]
    node: str
    hold: Callable[[str], AbstractContextManager[Callable[[Job], Results]]]
    eyes: Sequence[Eye]
    keep: Callable[[Item], None]
    watch_s: float
    mend_s: float
    replace_s: float = 0.0
    ticket: str = ""
    told: Mapping[str, Any] = field(default_factory=dict)
    audit: Audit | None = None
    smoke: Smoke | None = None
    mark: str = field(default_factory=lambda: secrets.token_hex(4))
    _items: list[tuple[Item, str]] = field(default_factory=list)
    _clock: Clock = field(default_factory=Clock)
    _lock: threading.RLock = field(default_factory=threading.RLock)  # the eyes keep what they see, too
    _state: dict[str, Any] = field(default_factory=dict)
    _machine: dict[str, Any] = field(default_factory=dict)  # which one it was
    _deadline_s: float = 0.0  # when the dead-man mends it, by the clock

    def conduct(self) -> FaultTrial:
        """Do all of it. Raises RestoreFailedError, TargetError, and what ``keep`` raises, after mending."""
        with ExitStack() as ours:
            beside = ours.enter_context(ThreadPoolExecutor(1))  # left once nothing is held any more
            self._run = ours.enter_context(self.hold(self.node))
            if self.fault in rank.RANKED:
                lasts_s = 2 * (self.watch_s + self.mend_s) + _ACT_S
                beside.submit(rank.work, self._run, self.node, self.mark, lasts_s)
            self._begin()
            try:
                self._plan()
                self._arm()
            except RefusedError as why:
                self._end(facts.REFUSED, str(why))
                return self.story
            watcher = Watcher(self.eyes, self._clock, self._keep)
            try:
                with watcher:
                    self._broken(watcher)
                    if self._taken:
                        self._end(facts.HANDED_OVER, self._hand_over())
                        ours.close()
                        self._await_return(watcher)
            except _BlockedError as why:
                self._mend(facts.BLOCKED, str(why))
            except BaseException:
                if not self._is_over:
                    with undisturbed():  # a second Ctrl-C must not leave it broken
                        self._mend(facts.UNDONE, "cut short")
                raise
            else:
                if not self._is_over:
                    self._mend(facts.UNDONE, "")
        return self.story

    def _begin(self) -> None:
        bounds: dict[str, Any] = {"watch_s": self.watch_s, "mend_s": self.mend_s}
        bounds |= {"replace_s": self.replace_s} if self.replace_s else {}
        bounds |= {"smoke": self.smoke.product} if self.smoke else {}
        what = {"fault": self.fault, "args": {**self.args, **bounds}, "method": facts.METHOD}
        wall = round(time.time() - self._clock.now_s(), 3)  # when the trial's clock began
        where = {"node": self.node, "ticket": self.ticket, "mark": self.mark, "wall": wall}
        more = {"user": user(), AUDIT: bool(self.audit and self.replace_s)}
        self._keep(Item(facts.TRIAL, 0, asked={**what, **where, **more}))

    def _plan(self) -> None:
        plan = self._act("plan")
        refuse_own(
            self.node, plan, Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        )
        self._state, self._machine = plan["state"], plan["machine"]

    def _arm(self) -> None:
        hold_s = self.watch_s + self.mend_s
        self._deadline_s = self._clock.now_s() + hold_s
        try:
            self._act("arm", errand.armed(self._order("arm"), hold_s))
        except RefusedError:
            with suppress(RefusedError, TargetError):
                self._act("stand_down")
            raise

    def _broken(self, watcher: Watcher) -> None:
        """Break it once every eye has seen how it was, and wait for what the provider makes of it."""
        eyes = {f"watch/{eye.name}" for eye in self.eyes}
        ready = watcher.wait(lambda: eyes <= {item.id for item, _ in self._items}, self._clock.now_s() + 30)
        dirty = [sight for sight in self.story.sights if sight.out or sight.lets_in is False]
        if not ready or dirty:
            why = dirty[0].words if dirty else "not every eye sees anything"
            raise _BlockedError(f"nothing was broken, for the node was not well before: {why}")
        try:
            self._act("inject")
        except RefusedError as why:
            raise _BlockedError(str(why)) from why
        until_s = self._clock.now_s() + self.watch_s
        watcher.wait(lambda: self._taken and self._isolated, until_s)

    @property
    def story(self) -> FaultTrial:
        """Read what was kept so far."""
        with self._lock:
            return FaultTrial(tuple(self._items))

    @property
    def _is_over(self) -> bool:
        return any(item.id == facts.END for item, _ in self._items)

    @property
    def _taken(self) -> bool:
        return self.story.moment(taken_out) is not None

    @property
    def _isolated(self) -> bool:
        return self.story.moment(isolated) is not None

    def _hand_over(self) -> str:
        """Leave it to the provider, who has taken the node: what we would mend may be evidence."""
        try:
            self._act("stand_down")
        except (RefusedError, TargetError) as why:
            return f"the dead-man could not be told, and mends it at his time: {why}"
        return ""

    def _await_return(self, watcher: Watcher) -> None:
        """Watch on, with nothing of ours there any more, until a node serves again, and look at that."""
        if not self.replace_s:
            return
        until_s = (self.story.injected_s or 0.0) + self.replace_s
        if watcher.wait(lambda: self.story.returned is not None, until_s):
            serving = self.story.serving or self.node
            self._look(serving)
            self._prove(serving)
            watcher.wait(
                lambda: self.story.restored is not None, min(until_s, self._clock.now_s() + _SETTLE_S)
            )
        if self.story.listened:  # for a message there is as much time as for taking the node
            heard_s = (self.story.injected_s or 0.0) + self.watch_s
            watcher.wait(lambda: self.story.moment(notified) is not None, heard_s)
        self._keep(Item(facts.OVER, 0, asked={"watched_until_s": self._clock.now_s()}))

    def _look(self, node: str) -> None:
        """Look on the node that serves now whether it is well; one that gives us no place is not.

        One that has just booted may need a moment, so it is asked again where it does not answer.
        """
        until_s = self._clock.now_s() + _SETTLE_S
        while True:
            try:
                with self.hold(node) as self._run:
                    self._act("look", node=node)
            except TargetError as why:
                times = {"verb": "look", "at_s": self._clock.now_s()}
                self._keep(Item(facts.LOOK, 0, "failed", times, why=str(why)))
            except RefusedError:  # what it said is kept
                pass
            if self._looked or self._clock.now_s() > until_s:
                return
            time.sleep(_AGAIN_S)

    @property
    def _looked(self) -> Mapping[str, Any]:
        """What the last look at the node that serves now has said; what eyes see comes between."""
        looks = [item for item, _ in self.story.items if item.id == facts.LOOK]
        return said(looks[-1]) if looks else {}

    def _prove(self, node: str) -> None:
        """Audit the node that serves now, and put a load on it, where it was seen to be well.

        It is asked, and loaded, like any node of a user's, and not within our own hold.
        """
        seen = self._looked
        if "proof" not in seen:
            return
        if self.audit:
            self._keep_all(self.audit(node))
        if self.smoke:
            self._keep_all(self.smoke(node, len(seen["machine"]["gpus"])))

    def _keep_all(self, items: Iterable[Item]) -> None:
        sent_s = self._clock.now_s()
        for item in items:
            times = {"since_s": sent_s, "at_s": self._clock.now_s()}
            self._keep(replace(item, asked={**item.asked, **times}))

    def _mend(self, end: str, words: str) -> None:
        """Undo until it is seen to be undone; the dead-man does it where the node cannot be reached."""
        until_s = self._deadline_s + _SPARE_S
        while True:
            try:
                done = self._act("undo")
            except (RefusedError, TargetError) as error:
                why = str(error)
            else:
                self._end(end, words or ("by the dead-man" if done.get("fired") else ""))
                return
            answered = "not_restored" in said(self._items[-1][0])
            if self._clock.now_s() > (self._deadline_s if answered else until_s):
                break
            time.sleep(_AGAIN_S)
        self._end(facts.RESTORE_FAILED, why)
        raise RestoreFailedError(f"{self.node}: {self.fault} is not undone: {why}")

    def _act(self, verb: str, feed: bytes = b"", node: str = "") -> Mapping[str, Any]:
        """Do one act on the node, and keep what came of it. Raises RefusedError if it failed, with why."""
        sent_s = self._clock.now_s()
        feed = feed or errand.pack(self._order(verb))
        node, deadline_s = node or self.node, min(_ACT_S, self.mend_s)
        job = Job(f"{self.fault} {verb}", errand.ARGV, (node,), deadline_s=deadline_s, feed=feed)
        item = self._run(replace(job, leaves=verb in ("arm", "inject")))[node, 0]
        times = {"since_s": sent_s, "at_s": self._clock.now_s()}
        self._keep(replace(item, id=verb.replace("_", "-"), asked={"verb": verb, **times}))
        document = said(item)
        for word in ("refused", "blocked", "not_restored", "failed"):
            if word in document:
                raise RefusedError(f"{verb}: {document[word]}")
        if document.get("verb") != verb:
            raise RefusedError(f"{verb}: {item.why or 'the node gave no answer that can be read'}")
        return document

    def _order(self, verb: str) -> dict[str, Any]:
        args = {**self.told, **self.args, "mark": self.mark}
        common = {"verb": verb, "fault": self.fault, "args": args, "mark": self.mark, "state": self._state}
        return {**common, "before": self._machine} if verb == "look" else common

    def _end(self, state: str, words: str) -> None:
        times = {"state": state, "watched_until_s": self._clock.now_s()}
        self._keep(Item(facts.END, 0, asked=times, why=words))

    def _keep(self, item: Item) -> None:
        with self._lock:
            numbered = replace(item, seq=len(self._items) + 1)
            self.keep(numbered)
            self._items.append((numbered, json.dumps(numbered.seq)))
