"""A load that lasts, on a live cluster: part after part, each recorded when it is over, or when it is cut."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpuassay import aftermath
from gpuassay.burning import NotAsIsError
from gpuassay.evidence.item import Item
from gpuassay.evidence.recording import read_measurement
from gpuassay.evidence.sums import write_sums
from gpuassay.evidence.writer import add_measurement
from gpuassay.measure.journals import CUT, journals, name_of
from gpuassay.measure.lasted import Lasted
from gpuassay.measure.paces import number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from gpuassay.facts import Node
    from gpuassay.judge.catalog import Measurement
    from gpuassay.judge.services import Mount
    from gpuassay.judge.site import Site
    from gpuassay.measure.endured import Endured
    from gpuassay.measure.journals import Journal
    from gpuassay.target import Job, Results

    Run = Callable[[Job], Results]

_CUT = "it was cut by who started it"
_WHOLE_S = 1.0  # less than that is not worth a job


@dataclass(frozen=True)
class Enduring:
    """A load of some nodes: what of it is recorded, and what is still to be made."""

    recording: Path
    measurement: Measurement
    kind: Endured
    nodes: Sequence[Node]
    mounts: Sequence[Mount]
    wanted_s: float
    image: str = ""

    @property
    def told(self) -> Mapping[str, Sequence[Journal]]:
        """The journals of each node, as recorded. Raises NotAsIsError."""
        found = read_measurement(self.recording, self.measurement.name, [node.name for node in self.nodes])
        by_node = {name: journals(own) for name, own in found.items()}
        for one in (journal for own in by_node.values() for journal in own):
            if {**one.asked, **self._asked} != dict(one.asked):
                raise NotAsIsError(f"{self.measurement.name} was made by another method in this recording")
        return by_node

    @property
    def asked_s(self) -> float:
        """For how long it is to last: what was asked first stands, also where it is taken up again."""
        listed = [one.asked.get("of") for one in self._every]
        return next((float(of) for of in listed if isinstance(of, (int, float))), self.wanted_s)

    @property
    def parts(self) -> Sequence[str]:
        """Its parts."""
        return self.kind.parts(self.measurement.args, self.mounts)

    @property
    def started(self) -> bool:
        """Whether anything of it is recorded."""
        return bool(self._every)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to be made."""
        return not any(self.left_s(part) for part in self.parts)

    def left_s(self, part: str) -> float:
        """How much of a part is left to be made: nothing where it came to an end, whatever that was."""
        own = [one for one in self._every if one.asked.get("part") == part]
        last = max((one.segment for one in own), default=0)
        if not own:
            return self.asked_s
        ended = [one for one in own if one.segment == last]
        if any(one.cut for one in ended):
            return self.asked_s if self.kind.unbroken else max(0.0, self.asked_s - self._spent_s(part))
        if self.kind.unbroken or any(one.end is None or one.stopped for one in ended):
            return 0.0
        left = self.asked_s - self._spent_s(part)
        return left if left > _WHOLE_S else 0.0

    def go(self, run: Run) -> None:
        """Make what is left. Raises TargetError and RecordingError."""
        longest = float(self.measurement.args.get("segment", math.inf))
        for part in self.parts:
            while left := self.left_s(part):
                self._segment(run, part, min(left, longest))

    def look(self, gather: Callable[[Callable[[str, Item], None]], None]) -> None:
        """Ask the nodes once more, where what they counted meanwhile is judged."""
        if self.kind.looks_again:
            aftermath.look(self.recording, self.measurement.name, self.nodes, gather)

    def read(self, site: Site) -> Sequence[Any]:
        """Read all of it."""
        name, asked = self.measurement.name, self.asked_s
        after = aftermath.read(self.recording, name, self.nodes, site, asked) if self.kind.looks_again else ()
        args, told = self.measurement.args, self.told
        return self.kind.subjects(Lasted(self.nodes, args, self.mounts, told, asked, after))

    def _spent_s(self, part: str) -> float:
        """Give for how long a part has lasted: on the rank that it did so least."""
        spent: dict[tuple[str, int], float] = {}
        for node, own in self.told.items():
            for one in (each for each in own if each.asked.get("part") == part):
                beats = sum(number(beat, "span") or 0.0 for beat in one.beats)
                spent[node, one.local] = spent.get((node, one.local), 0.0) + beats
        return min(spent.values(), default=0.0)

    @property
    def _every(self) -> list[Journal]:
        return [one for own in self.told.values() for one in own]

    @property
    def _asked(self) -> dict[str, Any]:
        about = {"workload": self.kind.name, "method": self.kind.method}
        return {**about, "args": dict(self.measurement.args)}

    def _segment(self, run: Run, part: str, seconds: float) -> None:
        """Make a part; cut by Ctrl-C, what was heard of it is kept."""
        segment = 1 + max((one.segment for one in self._every), default=0)
        asked = {**self._asked, "part": part, "seconds": seconds, "of": self.asked_s}
        job = self.kind.job(self.measurement.name, self.measurement.args, self.nodes, part, seconds)
        heard: dict[tuple[str, int], bytes] = {}

        def hear(node: str, local: int, lines: bytes) -> None:
            heard[node, local] = heard.get((node, local), b"") + lines

        results: Results = {}
        try:
            deadline = job.deadline_s + self.measurement.deadline_s
            image = self.image if self.kind.in_image else ""
            results = run(replace(job, deadline_s=deadline, image=image, hear=hear))
        except KeyboardInterrupt:
            results = {place: Item("", 1, "failed", out=said, why=_CUT) for place, said in heard.items()}
            asked[CUT] = True
            raise
        finally:
            for (node, local), item in sorted(results.items()):
                seq = (segment - 1) * job.ranks + local + 1
                named = name_of(self.measurement.name, segment, local)
                kept = replace(item, id=named, seq=seq, asked=asked)
                add_measurement(self.recording, self.measurement.name, node, kept, durable=True)
            write_sums(self.recording)
