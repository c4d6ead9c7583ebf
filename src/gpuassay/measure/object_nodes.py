"""The nodes that moved objects to a store and back, each by itself and all together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuassay.facts.record import Record
from gpuassay.facts.source import document
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import first_of
from gpuassay.measure import object_cases
from gpuassay.measure.fio_points import Figure
from gpuassay.measure.object_rates import Moved, median
from gpuassay.measure.ranks import tell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.judge.fact import Fact, Scalar

NODE, LACK, REMOVED = "node/", "lack/", "removed"
"""The items of the recording: what each node told, or why it was not asked, and what was left of it."""


@dataclass(frozen=True)
class Total:
    """What all nodes moved together, with objects of the size at which that is most."""

    nodes: Sequence[NodeStreams] = field(repr=False)
    sold: Mapping[str, float]
    removed: Record
    where: str = "s3"
    node: str = ""
    models: tuple[str, ...] = ()

    @property
    def read_gbps(self) -> Fact[float]:
        """What all nodes read in the same moment."""
        return self._most("read")

    @property
    def write_gbps(self) -> Fact[float]:
        """What all nodes write in the same moment."""
        return self._most("write")

    @property
    def promised(self) -> list[Figure]:
        """Each figure that the contract promises: what share of it was found."""
        made = []
        for name, sold in self.sold.items():
            found: Fact[float] = getattr(self, name)
            if isinstance(found, Read):
                note = f"{found.value:.4g} of {sold:g} {name}; {found.note}"
                found = Read(found.value / sold, found.evidence, note)
            made.append(Figure({"figure": name}, found))
        return made

    @property
    def left_behind(self) -> Fact[int]:
        """How much could not be removed again; the note says what, and why."""
        count, left, errors = self.removed.count("left_count"), *map(self.removed.look, ("left", "errors"))
        for fact in (count, left, errors):
            if isinstance(fact, Unread):
                return fact
        named = [str(one) for fact in (left, errors) if isinstance(fact.value, list) for one in fact.value]  # type: ignore[union-attr]
        return Read(max(count.value, len(named)), self.removed.evidence, first_of(named))  # type: ignore[union-attr]

    def _most(self, act: str) -> Fact[float]:
        sizes = [one.size for one in self.nodes[0].moved]
        found = [self._together(act, size) for size in sizes]
        read = [fact for fact in found if isinstance(fact, Read)]
        return max(read, key=lambda fact: fact.value) if len(read) == len(found) else _first_unread(found)

    def _together(self, act: str, size: str) -> Fact[float]:
        """Add up the bytes of each round, over the time of the node that took longest."""
        moved = [one.rounds(act) for node in self.nodes for one in node.moved if one.size == size]
        read = [fact for fact in moved if isinstance(fact, Read)]
        if len(read) < len(moved):
            return _first_unread(moved)
        rounds = zip(*(fact.value for fact in read), strict=False)
        rates = [sum(part for part, _ in one) / max(time for _, time in one) for one in rounds]
        note = f"{act} of {size} by {len(moved)} nodes at once"
        return median(rates, note, read[0].evidence, self.nodes[0])


@dataclass(frozen=True)
class NodeStreams:
    """A node, and what it told of the objects that it moved."""

    node: str
    told: Record
    args: Mapping[str, Scalar] = field(repr=False)
    sold: Mapping[str, float] = field(repr=False)
    removed: Record = field(repr=False)
    beside: Sequence[NodeStreams] = field(default=(), repr=False, compare=False)  # all nodes, itself too
    models: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """Its place: the node."""
        return self.node

    @property
    def tiny(self) -> bool:
        """Whether it has no accelerator: what is only shown may be noisy."""
        told = self.told.look("tiny")
        return isinstance(told, Read) and told.value is True

    @property
    def moved(self) -> list[Moved]:
        """Each size of objects."""
        listed = self.told.listed("rows")
        rows = listed.value if isinstance(listed, Read) else ()
        ended = self.told.text("ended")
        why = (
            f"its program ended: {ended.value}"
            if isinstance(ended, Read)
            else "its program did not tell of it"
        )
        lost = listed if isinstance(listed, Unread) else Unread("failed", why, self.told.evidence)
        found = {(_word(row, "case"), _word(row, "act")): row for row in rows}
        return [
            Moved(self, size, {act: found.get((size, act), Record(lost)) for act in ("write", "read")})
            for size in (case.name for case in object_cases.cases(self.args, tiny=False))
        ]

    @property
    def small(self) -> list[Moved]:
        """The smallest objects, of which the time counts."""
        return self.moved[:1]

    @property
    def streamed(self) -> list[Moved]:
        """The others, of which the rate counts."""
        return self.moved[1:]

    @property
    def totals(self) -> list[Total]:
        """All nodes together, beside the first of them."""
        return [Total(self.beside, self.sold, self.removed)] if self.beside[0].node == self.node else []


def read_nodes(
    args: Mapping[str, Scalar], evidence: NodeEvidence, sold: Mapping[str, float]
) -> list[NodeStreams]:
    """Read what the nodes told."""
    made: list[NodeStreams] = []
    removed = document(evidence, REMOVED)
    for item in evidence.items:
        kind, slash, name = item.id.partition("/")
        ref = evidence.ref(item)
        if f"{kind}{slash}" == LACK:
            told = Record(Unread("not_asked", item.why, ref), ref)
        elif f"{kind}{slash}" == NODE:
            told = tell(item, ref)
        else:
            continue
        made.append(NodeStreams(name, told, args, sold, removed, made))
    return made


def _first_unread(facts: Sequence[Fact[object]]) -> Unread:
    found = next((fact for fact in facts if isinstance(fact, Unread)), None)
    return found or Unread("failed", "nothing was moved")


def _word(row: Record, key: str) -> str:
    told = row.text(key)
    return told.value if isinstance(told, Read) else ""
