"""Burn-in: what is asked of the ranks of all nodes, and their journals joined to the accelerators."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from gpuassay.facts.text import pci_address
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure import paces
from gpuassay.measure.burnt import HOUR_S, SILENT, Burnt
from gpuassay.measure.journals import moment
from gpuassay.measure.work import burn_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.facts import Gpu, Node
    from gpuassay.judge.fact import Fact, Scalar
    from gpuassay.measure.journals import Journal


_START_S = 60.0  # until all ranks of a job run: torch comes from a shared file system
_END_S = 15.0
_BEATS = 6  # of fewer nobody learns anything


@dataclass(frozen=True)
class Stretch:
    """What one job does of a burn-in: seconds under load, its deadline, and what bounds that from outside.

    Where something does, ranks end by themselves ``within_s`` seconds after they have started.
    """

    seconds: float
    deadline_s: float
    within_s: float | None = None
    because: str = ""

    @property
    def words(self) -> str:
        """Say why it is as short as it is, after its name; empty where it is not short."""
        return f", at most {self.within_s:.0f} s: {self.because}" if self.within_s is not None else ""

    @property
    def asked(self) -> dict[str, Any]:
        """Say what is asked, as it is recorded."""
        bound = {"within": self.within_s, "because": self.because} if self.because else {}
        return {"seconds": self.seconds, **bound}


@dataclass(frozen=True)
class Fitting:
    """For how long ranks may work in a job of some length, and how much that lacks to be of any use."""

    within_s: float
    lacks_s: float


@dataclass(frozen=True)
class _Part:
    """A segment: when it was under load, by the clocks of its ranks, 0 if no rank said; and if it was cut."""

    number: int
    begin: float
    end: float
    cut: bool
    evidence: str

    @classmethod
    def of(cls, number: int, told: Sequence[Journal]) -> _Part:
        """Read it from the journals of all ranks."""
        begins = [at for one in told if one.begin and (at := paces.number(one.begin, "at"))]
        ends = [at for one in told for beat in one.beats if (at := paces.number(beat, "at"))]
        cut = any(one.cut for one in told)
        return cls(number, min(begins, default=0.0), max(ends, default=0.0), cut, told[0].evidence)


@dataclass(frozen=True)
class BurntIn:
    """The whole of it: all ranks of all nodes; ``nodes`` are these after it, if they were asked."""

    gpus: tuple[Burnt, ...]
    asked_s: float
    nodes: tuple[Node, ...] = ()
    where: str = ""
    node: str = ""
    models: tuple[str, ...] = ()

    @property
    def hours(self) -> Fact[float]:
        """For how long the rank that was under load least was so."""
        found = [gpu.hours for gpu in self.gpus]
        read = [fact for fact in found if isinstance(fact, Read)]
        if len(read) < len(found) or not read:
            return next((one for one in found if isinstance(one, Unread)), SILENT)
        least = min(read, key=lambda fact: fact.value)
        cut = [str(one.number) for one in self._parts if one.cut]
        told = f"; cut before its end: segment {', '.join(cut)}" if cut else ""
        stood = max(sum(len(one.pauses) for one in gpu.journals) for gpu in self.gpus)
        told += f"; all stood still and started again {stood} times" if stood else ""
        return Read(least.value, least.evidence, f"of {self.asked_s / HOUR_S:.3g} that were asked for{told}")

    @property
    def gap_s(self) -> Fact[float]:
        """For how long at most nothing was under load between the first beat and the last, in seconds."""
        parts = [one for one in self._parts if one.begin and one.end]
        if not parts:
            return next((gpu.hours for gpu in self.gpus if isinstance(gpu.hours, Unread)), SILENT)
        gaps = [(max(0.0, later.begin - one.end), one, later) for one, later in pairwise(parts)]
        if not gaps:
            return Read(0.0, parts[0].evidence, "one segment")
        longest, before, after = max(gaps, key=lambda gap: gap[0])
        words = f"from {moment(before.end)} to {moment(after.begin)}, after segment {before.number}"
        return Read(round(longest, 1), after.evidence, f"{words}, which was cut" if before.cut else words)

    @cached_property
    def _parts(self) -> list[_Part]:
        """Its segments in order, as far as its ranks told of them."""
        every = [one for gpu in self.gpus for one in gpu.journals]
        by_number: dict[int, list[Journal]] = defaultdict(list)
        for one in every:
            by_number[one.segment].append(one)
        return [_Part.of(number, own) for number, own in sorted(by_number.items())]

    @property
    def whole(self) -> Fact[bool]:
        """Whether it ran for as long as was asked."""
        hours = self.hours
        if isinstance(hours, Unread):
            return hours
        # Each beat is counted whole, so there is more at the end rather than less.
        return Read(
            hours.value >= 0.99 * self.asked_s / HOUR_S, hours.evidence, f"{hours.value} h {hours.note}"
        )


class BurnIn:
    """``[measure.X] workload = "burn_in"``: one job over all nodes alike, with a rank for each GPU."""

    name: ClassVar[str] = "burn_in"
    method: ClassVar[int] = burn_in.METHOD

    def order(
        self, args: Mapping[str, Scalar], nodes: Sequence[Node], number: int, stretch: Stretch
    ) -> dict[str, Any]:
        """Give what a rank is told to do in a segment."""
        return {
            **self.asked(args),
            "nodes": [node.name for node in nodes],
            "seconds": stretch.seconds,
            "within": stretch.within_s,
            "called": f"segment {number}{stretch.words}",
        }

    def fitting(self, args: Mapping[str, Scalar], job_s: float, *, accelerator: bool) -> Fitting:
        """Divide what a job may take: into its start, what its ranks have for themselves, and its end."""
        beat_s, solo_s = burn_in.lengths(args, accelerator=accelerator)
        hang_s = float(args["stall_s"]) + 4 * beat_s  # after that a rank says that its beat hangs
        within_s = job_s - _START_S - hang_s - _END_S
        alone = len(str(args["formats"]).split()) + len(str(args["sizes"]).split())
        return Fitting(within_s, max(0.0, alone * solo_s + _BEATS * beat_s - within_s))

    def asked(self, args: Mapping[str, Scalar]) -> dict[str, Any]:
        """Say what was asked, as it is recorded."""
        return {"workload": self.name, "method": self.method, "args": dict(args)}


BURN_IN = BurnIn()


def subjects(nodes: Sequence[Node], told: Mapping[str, Sequence[Journal]]) -> tuple[Burnt, ...]:
    """Give a subject for each GPU, or for each rank of a node that has none, with its journals."""
    found: list[Burnt] = []
    for node in nodes:
        by_local: dict[int, list[Journal]] = defaultdict(list)
        for one in told.get(node.name, ()):
            by_local[one.local].append(one)
        found += _on_gpus(node, by_local, found) if node.gpus else _on_processors(node, by_local, found)
    return tuple(found)


def _on_processors(node: Node, by_local: Mapping[int, list[Journal]], beside: Sequence[Burnt]) -> list[Burnt]:
    named = {
        local: f"{node.name}/cpu" if len(by_local) == 1 else f"{node.name}/cpu{local}" for local in by_local
    }
    listed = [Burnt(node.name, named[local], (), own, False, beside) for local, own in by_local.items()]  # noqa: FBT003
    return listed or [Burnt(node.name, f"{node.name}/cpu", (), (), False, beside)]  # noqa: FBT003


def _on_gpus(node: Node, by_local: Mapping[int, list[Journal]], beside: Sequence[Burnt]) -> list[Burnt]:
    """Join ranks to GPUs by address; one that never said where it worked has what is left over, in order."""
    by_address = {address: own for own in by_local.values() if (address := _address(own))}
    left = [own for own in by_local.values() if not _address(own)]
    found = []
    for gpu in node.gpus:
        own = by_address.get(_bdf(gpu)) or (left.pop(0) if left else [])
        found.append(Burnt(node.name, gpu.where, gpu.models, own, True, beside))  # noqa: FBT003
    return found


def _bdf(gpu: Gpu) -> str:
    return gpu.bdf.value if isinstance(gpu.bdf, Read) else ""


def _address(own: Sequence[Journal]) -> str:
    for one in own:
        said = one.begin.record("device").text("address") if one.begin else None
        if isinstance(said, Read):
            return pci_address(said.value) or ""
    return ""
