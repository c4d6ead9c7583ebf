"""Which evidence of several runs is rated: the newest whole gather, the newest of each measurement.

Pure: from what the runs hold to a plan, whatever the order in which they were named.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from gpuassay.judge.names import natural
from gpuassay.rating.words import RatingError
from gpuassay.report.fold import fold

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from gpuassay.judge.waivers import Replaced
    from gpuassay.rating.source import Source


@dataclass(frozen=True, slots=True)
class Take:
    """A measurement that is taken from a run: its nodes, and those left out, each with the reason."""

    measurement: str
    source: Source
    nodes: frozenset[str]
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is rated: ``sources`` newest first, of which the first is the gather that counts."""

    sources: tuple[Source, ...]
    takes: tuple[Take, ...]
    refused: tuple[tuple[str, Source, str], ...]
    replaced: tuple[Replaced, ...]

    @property
    def base(self) -> Source:
        """The newest gather."""
        return self.sources[0]


def plan(sources: Collection[Source], replaced: Sequence[Replaced] = ()) -> Plan:
    """Choose the evidence. Raises RatingError where runs do not belong together."""
    if not sources:
        raise RatingError("name at least one run to rate")
    once = {source.digest: source for source in sources}
    ordered = sorted(once.values(), key=lambda one: (one.clock, one.digest), reverse=True)
    _one_cluster(ordered)
    _known(ordered, replaced)
    for older in ordered[1:]:
        _whole(ordered[0], older, replaced)
    takes: dict[str, Take] = {}
    refused: list[tuple[str, Source, str]] = []
    for source in ordered:
        for name in source.measured:
            if name in takes:
                continue
            take = _take(ordered[0], source, name, replaced)
            if isinstance(take, str):
                refused.append((name, source, take))
            else:
                takes[name] = take
    chosen = tuple(takes[name] for name in sorted(takes))
    return Plan(tuple(ordered), chosen, tuple(refused), tuple(sorted(replaced, key=_order)))


def _order(record: Replaced) -> tuple[str, str, str]:
    return record.old, record.new, record.reason


def _one_cluster(ordered: Sequence[Source]) -> None:
    named = [source for source in ordered if source.cluster]
    for one, other in pairwise(named):
        if one.cluster != other.cluster:
            raise RatingError(
                f"{one.folder} is of cluster {one.cluster}, and {other.folder} of cluster {other.cluster}: "
                "rate them apart"
            )


def _whole(base: Source, older: Source, replaced: Sequence[Replaced]) -> None:
    """Make sure that two runs saw the same nodes, but for those with a record."""
    renamed = {record.old: record.new for record in replaced}
    gone = {name for name in older.hardware if renamed.get(name, name) not in base.hardware}
    come = base.hardware.keys() - older.hardware.keys() - {renamed.get(name) for name in older.hardware}
    if gone or come:
        said = [
            f"{fold(names)} only in {run.folder}" for names, run in ((come, base), (gone, older)) if names
        ]
        hint = _hint(base, older, gone, come)
        raise RatingError(
            f"runs of a subset do not merge: {'; '.join(said)}. Rate runs of the whole cluster{hint}"
        )
    for name, parts in older.hardware.items():
        now = base.hardware.get(renamed.get(name, name), frozenset())
        if parts and now and parts != now and name not in renamed:
            raise RatingError(
                f"{name} has other parts in {base.folder} than in {older.folder}: if it was exchanged, "
                f"say so: --replaced '{name}={name}:REASON', or [[replaced]] in the site file"
            )


def _hint(base: Source, older: Source, gone: Collection[str], come: Collection[str]) -> str:
    """Name the record that is missing, where a node was plainly set up anew under another name."""
    for old in sorted(gone, key=natural):
        for new in sorted(come, key=natural):
            if older.hardware[old] and older.hardware[old] == base.hardware[new]:
                return f"; {new} has the parts of {old}: --replaced '{old}={new}:REASON'"
    return ", or say which node stands for which: --replaced 'OLD=NEW:REASON'"


def _known(ordered: Sequence[Source], replaced: Sequence[Replaced]) -> None:
    """Refuse a record that is about nothing, or that two of them contradict."""
    seen: dict[str, Replaced] = {}
    for record in replaced:
        where = f"the record {record.old}={record.new}"
        if seen.setdefault(record.old, record) != record:
            raise RatingError(f"{where}: {record.old} has two records; leave one")
        if not any(record.old in source.hardware for source in ordered):
            raise RatingError(f"{where}: no run has a node {record.old}")
        if record.new not in ordered[0].hardware:
            raise RatingError(f"{where}: the newest run, {ordered[0].folder}, has no node {record.new}")


def _take(base: Source, source: Source, name: str, replaced: Sequence[Replaced]) -> Take | str:
    """Take a measurement, on the nodes that are still the same; or say why it proves nothing here."""
    if source is base:
        return Take(name, source, source.measured[name])
    if not source.measured[name]:
        if source.services != base.services:
            return "its site file declares other services than that of the newest run"
        return Take(name, source, frozenset())
    left = dict(_strangers(base, source, source.measured[name], replaced))
    kept = source.measured[name] - left.keys()
    return Take(name, source, kept, left) if kept else next(iter(left.values()))


def _strangers(
    base: Source, source: Source, nodes: Collection[str], replaced: Sequence[Replaced]
) -> Iterator[tuple[str, str]]:
    records = {record.old: record for record in replaced}
    for node in sorted(nodes, key=natural):
        then, now = source.hardware.get(node, frozenset()), base.hardware.get(node, frozenset())
        if then and then == now:
            continue
        if node in records and then != now:
            yield node, f"{node} was replaced since: {records[node].reason}"
        else:
            yield node, f"the parts of {node} were not read in both runs, so it is not known again"
