"""A burn-in on a live cluster: segment after segment, each recorded when it is over, then one more look.

A run that was killed goes on with what it lacks: what its ranks had said until then is kept, and the time
under load of which they told counts. Where a rank was lost it ends: what that one leaves behind is for
people.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuassay import aftermath
from gpuassay.evidence.recording import RecordingError, read_measurement
from gpuassay.evidence.sums import write_sums
from gpuassay.evidence.writer import add_measurement
from gpuassay.heard import Heard
from gpuassay.measure import errand
from gpuassay.measure.burn_in import BURN_IN, BurntIn, Stretch, subjects
from gpuassay.measure.journals import CUT, Journal, journals, name_of
from gpuassay.measure.work.products import PINNED
from gpuassay.target import Bound, Job, TargetError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from gpuassay.evidence.item import Item
    from gpuassay.facts import Node
    from gpuassay.judge.catalog import Measurement
    from gpuassay.judge.site import Site
    from gpuassay.target import Bounds, Results

    Run = Callable[[Job], Results]

AFTER = aftermath.AFTER
"""Of the name under which lies what the nodes said of themselves when it was over."""


class NotAsIsError(Exception):
    """What is recorded was made in another way, or is of another length; says so."""


@dataclass(frozen=True)
class Burning:
    """A burn-in of some nodes: what of it is recorded, and what is still to be done.

    ``aside`` is the folder in which it keeps what is not recorded yet; ``image`` that in which its ranks run.
    """

    recording: Path
    aside: Path
    measurement: Measurement
    nodes: Sequence[Node]
    wanted_s: float
    image: str = ""

    @property
    def told(self) -> Mapping[str, Sequence[Journal]]:
        """The journals of each node, as recorded. Raises NotAsIsError."""
        found = read_measurement(self.recording, self.measurement.name, self._names)
        asked = BURN_IN.asked(self.measurement.args)
        by_node = {name: journals(own) for name, own in found.items()}
        for one in (journal for own in by_node.values() for journal in own):
            if {**one.asked, **asked} != dict(one.asked):
                raise NotAsIsError(f"{self.measurement.name} was made by another method in this recording")
        return by_node

    @property
    def asked_s(self) -> float:
        """For how long it is to run: what was asked first stands, also where it is taken up again."""
        listed = [one.asked.get("of") for own in self.told.values() for one in own]
        return next((float(of) for of in listed if isinstance(of, (int, float))), self.wanted_s)

    @property
    def left_s(self) -> float:
        """How much is left to be done; nothing once a rank was lost or has failed.

        Of a segment counts what all of its ranks have told of, whether it came to its end or not.
        """
        every = [one for own in self.told.values() for one in own]
        if any(one.lost or one.stopped for one in every):
            return 0.0
        done: dict[int, float] = {}
        for one in every:
            done[one.segment] = min(one.burnt_s, done.get(one.segment, one.burnt_s))
        return max(0.0, self.asked_s - sum(done.values()))

    @property
    def started(self) -> bool:
        """Whether anything of it is recorded."""
        return any(self.told.values())

    def go(self, run: Run, longest_s: float, bounds: Bounds = lambda _nodes: Bound()) -> None:
        """Run what is left, at most ``longest_s`` at a time, and within what ``bounds`` allow to a job.

        Raises TargetError and RecordingError.
        """
        self._take_up()
        while (left := self.left_s) > 0:
            number = 1 + max((one.segment for own in self.told.values() for one in own), default=0)
            self._segment(run, number, self._stretch(min(left, longest_s), bounds(self._names)))
            if self.left_s >= left:
                raise TargetError(f"segment {number} came to an end without a beat: nothing was under load")

    def _stretch(self, seconds: float, bound: Bound) -> Stretch:
        """Fit a segment into what a job may take. Raises TargetError where nothing useful fits."""
        args = self.measurement.args
        usual = self.measurement.deadline_s + seconds * float(args["slack"])
        if usual <= bound.seconds:
            return Stretch(seconds, usual)
        fitting = BURN_IN.fitting(args, bound.seconds, accelerator=bool(self.nodes[0].gpus))
        if fitting.lacks_s > 0:
            raise TargetError(
                f"{bound.why}, and a segment of the burn-in needs {math.ceil(fitting.lacks_s / 60)} min more:"
                " find a partition, an account or QOS, an allocation or a budget that gives them"
            )
        return Stretch(min(seconds, fitting.within_s), bound.seconds, fitting.within_s, bound.why)

    def _segment(self, run: Run, number: int, stretch: Stretch) -> None:
        args = self.measurement.args
        asked = {**BURN_IN.asked(args), "segment": number, "of": self.asked_s, **stretch.asked}
        ids = [name_of(self.measurement.name, number, local) for local in range(self._ranks)]
        job = Job(
            self.measurement.name,
            errand.ARGV,
            self._names,
            self._ranks,
            PINNED,
            self.image,
            stretch.deadline_s,
            errand.pack(BURN_IN.order(args, self.nodes, number, stretch)),
            heard=True,
            hear=self._heard.begin(self._names, ids, asked),
        )
        try:
            results = run(job)
        except BaseException:
            with suppress(RecordingError):  # then it stays aside, for the run that takes this one up
                self._take_up()
            raise
        for (node, local), item in sorted(results.items()):
            self._keep(node, replace(item, id=ids[local], asked=asked))
        self._take_up()

    def _take_up(self) -> None:
        """Record what was heard in a segment whose end we did not see. Raises RecordingError.

        One of which nothing was heard at all is as if it had never begun.
        """
        if not self.aside.exists():
            return
        known = {(node, one.item.id) for node, own in self.told.items() for one in own}
        left = [(node, item) for node, item in self._heard.left(self._names) if (node, item.id) not in known]
        if any(item.out for _, item in left):
            for node, item in left:
                self._keep(node, _cut(item))
        write_sums(self.recording)
        self._heard.forget()

    def _keep(self, node: str, item: Item) -> None:
        _, number, local = item.id.split("/")
        placed = replace(item, seq=(int(number) - 1) * self._ranks + int(local) + 1)
        add_measurement(self.recording, self.measurement.name, node, placed, durable=True)

    @property
    def _heard(self) -> Heard:
        return Heard(self.aside, self.measurement.name)

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(node.name for node in self.nodes)

    @property
    def _ranks(self) -> int:
        return len(self.nodes[0].gpus) or int(self.measurement.args["processors"])

    def look(self, gather: Callable[[Callable[[str, Item], None]], None]) -> None:
        """Ask the nodes once more, as before it began: what was counted since is what it brought to light."""
        aftermath.look(self.recording, self.measurement.name, self.nodes, gather)

    def read(self, site: Site) -> BurntIn:
        """Read all of it."""
        told = self.told
        return BurntIn(subjects(self.nodes, told), self.asked_s, self._after(site))

    def _after(self, site: Site) -> tuple[Node, ...]:
        return aftermath.read(self.recording, self.measurement.name, self.nodes, site, self.asked_s)


def _cut(item: Item) -> Item:
    """Say of a rank whose last line was not heard that it was we who stopped to listen."""
    if Journal(0, 0, item, "").end is not None:
        return item
    why = "nobody listened any more: the controller of this segment was stopped or killed"
    return replace(item, status="failed", asked={**item.asked, CUT: True}, why=why)
