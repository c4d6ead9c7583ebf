"""Checkpoints on the file systems of a cluster: how fast, how long a job waits, whether all is there."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from gpuassay.facts.record import Record
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure import figures, tiers, whole
from gpuassay.measure.fio_points import Figure
from gpuassay.measure.ranks import on_gpu
from gpuassay.measure.work import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuassay.facts import Node
    from gpuassay.judge.fact import Fact, Scalar
    from gpuassay.judge.services import Mount

_GB = 1e9
_SOLD = {"write_gbps": "save_gbps", "read_gbps": "load_gbps"}


@dataclass(frozen=True)
class StoredState(tiers.Tier):
    """The checkpoints of one file system as the ranks of one node found them, in ``rows``."""

    rows: Sequence[Record] = ()
    mount: Mount | None = None
    beside: Sequence[StoredState] = field(default=(), repr=False, compare=False)  # all states, itself too

    @property
    def promised(self) -> list[Figure]:
        """Each speed that the contract promises of it: what share of it checkpoints get.

        What is promised to a node that has a shared file system for itself, all nodes together get at least:
        that is told once, of the first of them.
        """
        if self.mount is None or self._together[0].node != self.node:
            return []
        sold = {name: value for name, value in self.mount.speeds.items() if name in _SOLD}
        return [
            Figure({**self.at, "figure": name}, self._of_sold(name, value)) for name, value in sold.items()
        ]

    @property
    def _together(self) -> Sequence[StoredState]:
        """All nodes whose rates are added up for what was promised: of its own storage, itself alone."""
        if self.mount is None or not self.mount.shared:
            return [self]
        return [one for one in self.beside if one.path == self.path]

    def _of_sold(self, name: str, sold: float) -> Fact[float]:
        found: list[Fact[float]] = [getattr(one, _SOLD[name]) for one in self._together]
        unread = next((fact for fact in found if isinstance(fact, Unread)), None)
        if unread:
            return unread
        total = sum(fact.value for fact in found if isinstance(fact, Read))
        nodes = f" by {len(found)} nodes" if len(found) > 1 else ""
        note = f"{total:.4g} of {sold:g} {name}{nodes}; {self.about}"
        return Read(total / sold, self.row.evidence, note)

    @property
    def save_gbps(self) -> Fact[float]:
        """What its ranks bring to storage, to last: until the slowest has synced its files."""
        return self._rate("save_seconds")

    @property
    def load_gbps(self) -> Fact[float]:
        """What its ranks load of what others saved, from files that are not in memory."""
        rate = self._rate("load_seconds")
        if isinstance(rate, Unread):
            return rate
        held = self._number("held", max)
        if isinstance(held, Unread):
            return held
        most = float(self.args["held"])
        if held.value > most:
            why = f"{held.value:.0%} of the files stayed in memory, more than {most:.0%}: no storage was read"
            return Unread("denied", f"{why}; {self.about}", self.row.evidence)
        return rate

    @property
    def blocked_share(self) -> Fact[float]:
        """How long saving aside keeps a job from going on, as a share of saving at once."""
        sync = self._seconds("save_seconds")
        if isinstance(sync, Unread):
            return sync
        told = [[one.look("blocked") for one in rows] for rows in self._listed("aside")]
        values = [
            [fact.value for fact in one if isinstance(fact, Read) and figures.is_time(fact.value)]
            for one in told
        ]
        if not values or not all(values):
            return Unread("garbled", "how long saving aside blocked was not recorded", self.row.evidence)
        blocked = statistics.median(max(repeat) for repeat in zip(*values, strict=False))
        note = f"{blocked:.3g} s of {sync.value:.3g} s; {self.about}"
        return Read(blocked / sync.value, self.row.evidence, note)

    @property
    def wrong(self) -> Fact[int]:
        """How many elements were not what was saved, when another rank loaded them."""
        return self._count([row.count("wrong") for row in self.rows])

    @property
    def wrong_anew(self) -> Fact[int]:
        """How many were not, when half as many ranks shared them."""
        parts = [row.record("anew") for row in self.rows]
        lack = next((found for part in parts if (found := tiers.lack(part))), None)
        if self.lack is None and lack:
            return Unread("denied", lack.why, lack.evidence) if lack.kind == "not_asked" else lack
        return self._count([part.count("wrong") for part in parts])

    @property
    def lacking(self) -> Fact[int]:
        """How many files are missing, empty or cut, over all checkpoints that this node sees."""
        if self.lack:
            return self.lack
        found = self.row.listed("files")
        if isinstance(found, Unread):
            return found
        listings = [_listing(one, self.row) for one in found.value]
        read = [one for one in listings if isinstance(one, whole.Listing)]
        bad = next((one for one in listings if isinstance(one, Unread)), None)
        count, words = whole.told(read)
        if count:
            return Read(count, self.row.evidence, words)
        if bad or not read:
            return bad or Unread("failed", "no checkpoint was listed", self.row.evidence)
        return Read(0, self.row.evidence)

    def _rate(self, key: str) -> Fact[float]:
        seconds = self._seconds(key)
        size = self._number("rank_bytes", min)
        if isinstance(seconds, Unread):
            return seconds
        if isinstance(size, Unread):
            return size
        rank = size.value / seconds.value / _GB
        note = f"{rank:.3g} GB/s of each of {len(self.rows)} ranks; {seconds.note}"
        return Read(rank * len(self.rows), self.row.evidence, note)

    def _seconds(self, key: str) -> Fact[float]:
        """Give the median over repeats of what the slowest rank took."""
        if self.lack:
            return self.lack
        found = [
            figures.times(fact.value) if isinstance(fact := row.look(key), Read) else None
            for row in self.rows
        ]
        if not found or None in found:
            return Unread("garbled", f"{key} of a rank is not three positive numbers", self.row.evidence)
        slowest = [max(one) for one in zip(*filter(None, found), strict=False)]
        merged = Record({key: slowest}, self.row.evidence)
        return self.median(merged, key, float(self.args["noise"]))

    def _number(self, key: str, choose: Callable[[list[float]], float]) -> Fact[float]:
        """Choose one of the numbers that all ranks have under a key, each one or several."""
        if self.lack:
            return self.lack
        values: list[float] = []
        for row in self.rows:
            fact = row.look(key)
            told = fact.value if isinstance(fact, Read) else None
            listed: list[Any] = told if isinstance(told, list) else [told]
            read = [float(one) for one in listed if type(one) in (int, float) and 0 <= one < math.inf]
            if not listed or len(read) < len(listed):
                return Unread("garbled", f"{key} of a rank is no number", self.row.evidence)
            values += read
        return Read(choose(values), self.row.evidence)

    def _listed(self, key: str) -> list[tuple[Record, ...]]:
        found = (row.listed(key) for row in self.rows)
        return [fact.value if isinstance(fact, Read) else () for fact in found]

    def _count(self, facts: Sequence[Fact[int]]) -> Fact[int]:
        return self.lack or figures.total(facts)


def _listing(told: Record, row: Record) -> whole.Listing | Unread:
    step, ranks = told.text("step"), row.count("ranks")
    sizes, needed = _sizes(told, "sizes"), _sizes(told, "needed")
    if isinstance(step, Unread):
        return step
    if sizes is None:
        return Unread("garbled", f"the files of {step.value} are not as a listing has them", told.evidence)
    return whole.Listing(step.value, sizes, needed, ranks.value if isinstance(ranks, Read) else 0)


def _sizes(told: Record, key: str) -> dict[str, int] | None:
    fact = told.look(key)
    found = fact.value if isinstance(fact, Read) else None
    if not isinstance(found, dict) or not all(type(size) is int and size >= 0 for size in found.values()):
        return None
    return found


class Checkpoints:
    """``[measure.X] workload = "checkpoint"``: one job over all nodes alike, with a rank for each GPU."""

    name = "checkpoint"
    method = checkpoint.METHOD
    together: ClassVar[bool] = True
    one_rank: ClassVar[bool] = False

    def order(self, args: Mapping[str, Scalar], nodes: Sequence[Node] = ()) -> dict[str, Any]:
        """Give what a rank is told to do."""
        mounts = tiers.for_checkpoints(nodes[0].declared_mounts) if nodes else []
        listed = [tiers.told(mount) for mount in mounts]
        return {"workload": self.name, "method": self.method, "args": dict(args), "mounts": listed}

    def asked(self, args: Mapping[str, Scalar]) -> dict[str, Any]:
        """Say what was asked, as it is recorded."""
        return {"workload": self.name, "method": self.method, "args": dict(args)}

    def subjects(
        self, nodes: Sequence[Node], args: Mapping[str, Scalar], told: Mapping[str, Sequence[Record]]
    ) -> list[StoredState]:
        """Give a subject for each node and file system."""
        made: list[StoredState] = []
        for node in nodes:
            made += _of_node(node, args, told[node.name], made)
        return made


def _of_node(
    node: Node, args: Mapping[str, Scalar], told: Sequence[Record], beside: Sequence[StoredState]
) -> list[StoredState]:
    declared = {mount.path: mount for mount in tiers.for_checkpoints(node.declared_mounts)}
    found: dict[str, list[Record]] = defaultdict(list)
    documents = [on_gpu(one) for one in told] if node.gpus else list(told)
    shown: dict[str, str] = {}
    for one in documents:
        rows = one.listed("rows")
        for row in rows.value if isinstance(rows, Read) else ():
            path, role = row.text("mount"), row.text("role")
            if isinstance(path, Read) and isinstance(role, Read):
                found[path.value].append(row)
                shown[path.value] = role.value
    lost = _lost(documents)
    ranks = max(1, len(node.gpus))
    listed = [(mount.path, mount.role) for mount in declared.values()] or list(shown.items())
    return [
        StoredState(
            node.name,
            path,
            role,
            _first(found[path], ranks, lost),
            args,
            node.models,
            not node.gpus,
            found[path],
            declared.get(path),
            beside,
        )
        for path, role in listed
    ]


def _first(rows: Sequence[Record], ranks: int, lost: Unread) -> Record:
    """Give the row that speaks for the node: one without figures before all others."""
    if len(rows) < ranks:
        return Record(lost, lost.evidence)
    bad = next((row for row in rows if tiers.lack(row)), None)
    return bad or next((row for row in rows if _has_files(row)), rows[0])


def _has_files(row: Record) -> bool:
    files = row.look("files")
    return isinstance(files, Read) and bool(files.value)


def _lost(documents: Sequence[Record]) -> Unread:
    """Say why ranks have not reported on a file system: by the one that broke, else by those it ended."""
    for key in ("broken", "ended"):
        for one in documents:
            said = one.text(key)
            if isinstance(said, Read):
                return Unread(
                    "failed",
                    f"{'' if key == 'broken' else 'ended by another rank: '}{said.value}",
                    one.evidence,
                )
    unread = next((one.unread for one in documents if one.unread), None)
    return unread or Unread("failed", "no rank reported on this file system")
