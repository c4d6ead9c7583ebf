"""Nodes that are rebooted at once: held, looked at, ordered to restart, and waited for.

Each step is kept before the next one begins, so that a run that is killed tells how far each node came. A
reboot has no undo: what was ordered is not taken back, and a node that does not return is left as it is.
"""

from __future__ import annotations

import math
import secrets
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gpuassay.evidence.item import Item
from gpuassay.facts import reboot as facts
from gpuassay.facts.fault_trial import END, LOOK, PLAN, READERS, said
from gpuassay.fault import errand
from gpuassay.fault.consent import RefusedError, refuse_own
from gpuassay.target import Job, TargetError
from gpuassay.watch import Clock, Watcher

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuassay.facts.fault_sights import Sight
    from gpuassay.target import Results
    from gpuassay.target.restarts import Restarts
    from gpuassay.watch import Eye

    Act = Callable[[Job], Results]
    Put = Callable[[str, Item], None]

MODULE = "restart"
_ACT_S = 120.0
_SEEN_S = 30.0  # for the first look at each node


class Keeper(Protocol):
    """Keeps a file where a node's pods keep theirs; what cannot be done, the item says."""

    def write(self, node: str) -> Item:
        """Write it, before."""

    def read(self, node: str) -> Item:
        """Read it, afterwards."""


class _StopError(Exception):
    """The wave goes no further; says how that ends its nodes' stories, and why."""

    def __init__(self, state: str, why: str) -> None:
        super().__init__(why)
        self.state, self.why = state, why


@dataclass
class Wave:
    """Some nodes that are rebooted together.

    ``act`` runs a job with what holds the nodes; ``put`` writes an item of a node down for good. Nodes have
    ``return_s`` seconds to be in service again. ``mounts`` are the shared file systems; ``keeper`` keeps a
    file in a volume of each node, where there are such.
    """

    nodes: Sequence[str]
    target: Restarts
    act: Callable[[Any, Job], Results]
    put: Put
    return_s: float
    about: Mapping[str, Any]
    mounts: Sequence[str] = ()
    keeper: Keeper | None = None
    mark: str = field(default_factory=lambda: secrets.token_hex(4))
    _clock: Clock = field(default_factory=Clock)
    _plans: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _sights: dict[str, list[Sight]] = field(default_factory=dict)
    _sent_s: float = math.inf
    _ended: set[str] = field(default_factory=set)

    def conduct(self, hold_s: float) -> list[str]:
        """Do all of it, and name the nodes that are back. Raises TargetError where they cannot be held."""
        with ExitStack() as ours:
            run = ours.enter_context(self.target.hold_all(self.nodes, hold_s))
            try:
                self._begin()
                self._plan(run)
                self._restart(run, ours)
            except _StopError as stop:
                self._end_all(stop.state, stop.why)
                self._sweep(self.nodes[0], lambda job: self.act(run, job)[job.nodes[0], 0])
            except BaseException:
                self._end_all(facts.CUT, "the run was ended; a reboot that was ordered is not taken back")
                raise
        return [node for node in self.nodes if node in self._back]

    def look(self, again: Restarts) -> None:
        """Read the files that were left again, where nodes are back, and have one remove all of them.

        ``again`` is the target as it is by now. Somebody else may have a node already, and then it says so.
        """
        back = [node for node in self.nodes if node in self._back]
        once = partial(self._once, again)
        for node in back:
            order = {"verb": "look", "marks": self._plans[node].get("marks", [])}
            self._keep(node, LOOK, once(self._job("look", (node,), order)))
            if self.keeper:
                self._keep(node, facts.CLAIM_AGAIN, self.keeper.read(node))
        next((node for node in back if self._sweep(node, once)), None)

    def _once(self, target: Restarts, job: Job) -> Item:
        """Run a job on a node that is held for it alone; where it cannot be had, the item says why."""
        try:
            with target.hold_all(job.nodes, job.deadline_s) as run:
                return self.act(run, job)[job.nodes[0], 0]
        except TargetError as why:
            return Item(job.name, 0, "denied", why=str(why))

    def _begin(self) -> None:
        for node in self.nodes:
            told = {**self.about, "mark": self.mark, "wave": len(self.nodes), "wall": round(time.time(), 3)}
            self.put(node, Item(facts.BEGIN, 0, asked=told))

    def _plan(self, run: Any) -> None:
        """Look at each node, and leave files on shared storage: one node that may not be spares all."""
        order = {"verb": "plan", "mounts": [*self.mounts]}
        told = self.act(run, self._job("plan", tuple(self.nodes), order))
        for node in self.nodes:
            self._plans[node] = said(told[node, 0])
            self._keep(node, PLAN, told[node, 0])
        self._refuse(told)
        for node in self.nodes:
            if self.keeper:
                self._keep(node, facts.CLAIM, self.keeper.write(node))

    def _refuse(self, told: Results) -> None:
        """Go on only where no node refuses. Raises _StopError."""
        own = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        for node, plan in self._plans.items():
            why = plan.get("refused") or plan.get("failed") or ("" if plan.get("boot") else told[node, 0].why)
            try:
                refuse_own(node, plan, own)
            except RefusedError as own_machine:
                why = str(own_machine)
            if why or not plan.get("boot"):
                raise _StopError(facts.REFUSED, f"{node}: {why or 'it gave no answer that can be read'}")

    def _restart(self, run: Any, ours: ExitStack) -> None:
        """Have them restarted, once each was seen as it is, and wait until all are in service again."""
        with ExitStack() as watching:
            watchers = [watching.enter_context(self._watcher(node)) for node in self.nodes]
            until_s = self._clock.now_s() + _SEEN_S
            if not all(one.wait(lambda: {*self.nodes} <= self._sights.keys(), until_s) for one in watchers):
                raise _StopError(facts.BLOCKED, "not every node was seen before")
            self._sent_s = self._clock.now_s()
            try:
                ordered = self.target.restart(self.nodes, partial(self.act, run))
            except TargetError as why:
                raise _StopError(facts.BLOCKED, str(why)) from why
            for node in self.nodes:
                self._keep(node, facts.ORDER, ordered.items[node], self._sent_s)
            if ordered.by_scheduler:
                ours.close()  # it waits for our own job, too
            until_s = self._clock.now_s() + self.return_s
            for one in watchers:
                one.wait(lambda: {*self.nodes} <= self._back, until_s)
        for node in self.nodes:
            self._end(node, ordered.items[node])

    def _watcher(self, node: str) -> Watcher:
        every_s = max(1.0, len(self.nodes) / 16)  # no more than sixteen looks a second in all
        eyes: list[Eye] = [
            _Slower(eye, every_s) for eye in self.target.eyes(node) if eye.name.endswith("-node")
        ]
        return Watcher(eyes, self._clock, lambda item: self._see(node, item))

    def _see(self, node: str, item: Item) -> None:
        """Keep what was seen of a node."""
        self.put(node, item)
        self._sights.setdefault(node, []).append(READERS[item.id](item, ""))

    @property
    def _back(self) -> set[str]:
        """The nodes that are in service again."""
        return {node for node, seen in [*self._sights.items()] if facts.came_back([*seen], self._sent_s)}

    def _end(self, node: str, order: Item) -> None:
        if order.status != "ok":
            self._end_one(node, facts.BLOCKED, order.why)
        elif node in self._back:
            self._end_one(node, facts.RETURNED, "")
        else:
            why = f"it was not in service again within {self.return_s:g} s, and is left as it is"
            self._end_one(node, facts.NOT_RETURNED, why)

    def _end_all(self, state: str, why: str) -> None:
        for node in self.nodes:
            if node not in self._ended:
                self._end_one(node, state, why)

    def _end_one(self, node: str, state: str, why: str) -> None:
        self._ended.add(node)
        self.put(node, Item(END, 0, asked={"state": state, "watched_until_s": self._clock.now_s()}, why=why))

    def _sweep(self, node: str, run: Callable[[Job], Item]) -> bool:
        """Remove the files of all nodes by one of them, and keep that it was done; tell whether it was."""
        if not self.mounts:
            return True
        told = run(self._job("sweep", (node,), {"verb": "sweep", "mounts": [*self.mounts]}))
        if told.status == "ok":
            self._keep(node, facts.SWEPT, told)
        return told.status == "ok"

    def _keep(self, node: str, item_id: str, item: Item, since_s: float | None = None) -> None:
        at_s = self._clock.now_s()
        times = {"at_s": at_s, "since_s": at_s if since_s is None else since_s}
        self.put(
            node,
            replace(item, id=item_id, asked={**times, "way": " ".join(item.asked.get("command", ()))[:200]}),
        )

    def _job(self, verb: str, nodes: tuple[str, ...], order: Mapping[str, Any]) -> Job:
        feed = errand.pack({**order, "mark": self.mark}, MODULE)
        return Job(f"reboot {verb}", errand.ARGV, nodes, deadline_s=_ACT_S, feed=feed)


@dataclass(frozen=True, slots=True)
class _Slower:
    """An eye that looks less often."""

    eye: Eye
    every_s: float

    @property
    def name(self) -> str:
        """What it looks at."""
        return self.eye.name

    def look(self) -> Item:
        """Look once."""
        return self.eye.look()

    def key(self, item: Item) -> Any:
        """Give what of it matters."""
        return self.eye.key(item)
