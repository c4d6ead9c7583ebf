"""Checkpoints whose writer was killed: what is torn has to be noticed, and what was saved has to be there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure import errand
from gpuassay.measure.lasted import EachMount, MountLoad, of_mounts
from gpuassay.measure.work import checkpoint_kills
from gpuassay.target import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuassay.facts import Node
    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact, Scalar
    from gpuassay.measure.lasted import Lasted

_TO_REMOVE_S = 90.0


@dataclass(frozen=True)
class Torn(MountLoad):
    """A mount on which one node's writer was killed, again and again."""

    @property
    def torn(self) -> Fact[int]:
        """How many kills left something that does not load: only those have tried it."""
        return self._counted(lambda beat: isinstance(beat.record("torn").look("why"), Read), noted=False)

    @property
    def unnoticed(self) -> Fact[int]:
        """How many were loaded as if they were whole, and have other bits than were saved."""
        return self._counted(lambda beat: _wrong(beat.record("torn")) > 0)

    @property
    def lost(self) -> Fact[int]:
        """How often what was saved before the kill did not load, or was not the same bit for bit."""
        return self._counted(lambda beat: _wrong(beat.record("good")) != 0)

    @property
    def left(self) -> Fact[int]:
        """How many files were still there when all was over."""
        if self.journal is None or self.journal.end is None:
            return self._nothing
        return self.journal.end.count("left")

    def _counted(self, bad: Callable[[Record], bool], *, noted: bool = True) -> Fact[int]:
        if not self._beats:
            return self._nothing
        found = [beat for beat in self._beats if bad(beat)]
        said = found[0].text("words") if found and noted else None
        note = brief(said.value) if isinstance(said, Read) else f"of {len(self._beats)} kills"
        return Read(len(found), self.row.evidence, note)


def _wrong(loaded: Record) -> int:
    """Give how many elements of what was loaded are wrong; -1 where it did not load, or that is not told."""
    wrong = loaded.count("wrong")
    return -1 if isinstance(wrong, Unread) else wrong.value


class CheckpointKills(EachMount):
    """``[measure.X] workload = "checkpoint_kills"``: in each mount in turn, a writer on each node."""

    name: ClassVar[str] = "checkpoint_kills"
    method: ClassVar[int] = checkpoint_kills.METHOD
    in_image: ClassVar[bool] = True

    def job(
        self, name: str, args: Mapping[str, Scalar], nodes: Sequence[Node], part: str, seconds: float
    ) -> Job:
        """Kill a writer on each node for so long; without accelerators it writes little."""
        order: dict[str, Any] = {
            "workload": self.name,
            "method": self.method,
            "args": dict(args),
            "mount": part,
            "seconds": seconds,
            "tiny": not any(node.gpus for node in nodes),
        }
        names = tuple(node.name for node in nodes)
        return Job(
            name, errand.ARGV, names, deadline_s=seconds, feed=errand.pack(order), grace_s=_TO_REMOVE_S
        )

    def subjects(self, lasted: Lasted) -> list[Torn]:
        """Read the journals of all nodes: a subject for each mount on each of them."""
        return of_mounts(Torn, lasted)
