"""Collectives over all nodes: what the ranks of a job found together, by size, by group, and on the wire."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import folded
from gpuassay.measure import figures
from gpuassay.measure.exchanged import RankOfJob, line_rate
from gpuassay.measure.ranks import join
from gpuassay.measure.work import collectives, rates

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.facts import Node
    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact, Scalar

_KIB = 1024
_MANY_NODES = 32  # docs/thresholds.md
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class Collectives:
    """``[measure.X] workload = "collectives"``: one job over all nodes alike, with a rank for each GPU."""

    name = "collectives"
    method = collectives.METHOD
    together: ClassVar[bool] = True
    one_rank: ClassVar[bool] = False

    def cases(self, args: Mapping[str, Any]) -> list[dict[str, Any]]:
        """List what is exchanged."""
        return collectives.cases(args)

    def order(self, args: Mapping[str, Scalar], nodes: Sequence[Node] = ()) -> dict[str, Any]:
        """Give what a rank is told to do; the nodes in the order of their ranks, and their NVLink domains."""
        return {
            "workload": self.name,
            "method": self.method,
            "args": dict(args),
            "cases": self.cases(args),
            "nodes": [node.name for node in nodes],
            "domains": [_domain(node) for node in nodes],
        }

    def asked(self, args: Mapping[str, Scalar]) -> dict[str, Any]:
        """Say what was asked, as it is recorded."""
        return {"workload": self.name, "method": self.method, "args": dict(args)}

    def subjects(
        self, nodes: Sequence[Node], args: Mapping[str, Scalar], told: Mapping[str, Sequence[Record]]
    ) -> list[Together]:
        """Give a subject for each pool that has worked together."""
        pools: dict[str, list[Node]] = defaultdict(list)
        for node in nodes:
            pools[node.pool].append(node)
        return [
            Together(pool or "cluster", tuple(ranks_of(members, args, told)), args, self.cases(args))
            for pool, members in pools.items()
        ]


def ranks_of(
    nodes: Sequence[Node], args: Mapping[str, Scalar], told: Mapping[str, Sequence[Record]]
) -> Iterator[RankOfJob]:
    """Give each GPU of a job's nodes with what its rank printed."""
    for node in nodes:
        for gpu, record in join(node, told[node.name]):
            where = gpu.where if gpu else f"{node.name}/cpu"
            models = gpu.models if gpu else ()
            yield RankOfJob(node.name, where, models, record, args, node, alone=len(nodes) == 1)


def _domain(node: Node) -> str:
    """Name the NVLink domain of a node: its rack's, or its own."""
    domain = node.rack.domain if node.gpus else Unread("not_found", "it has no GPU")
    return domain.value if isinstance(domain, Read) and domain.value else node.name


@dataclass(frozen=True)
class Point:
    """One collective at one size over all: a point of a curve."""

    where: str
    at: Mapping[str, str]
    busbw_gbps: Fact[float]
    best_smaller_gbps: Fact[float]
    models: tuple[str, ...]
    node: str = ""


@dataclass(frozen=True)
class Leaving:
    """What left the nodes in one collective: as a share of the line, and counted by their cards."""

    at: Mapping[str, str]
    of_line: Fact[float]


@dataclass(frozen=True)
class Grown:
    """How a growing group of nodes fared, beside the fastest of the smaller groups."""

    at: Mapping[str, str]
    of_smaller: Fact[float]


@dataclass(frozen=True)
class Counted:
    """What the cards of a node counted, as a share of what must have left it."""

    node: str
    through_cards: Fact[float]
    models: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """Its place: the node."""
        return self.node


@dataclass(frozen=True)
class Together:
    """All ranks of the nodes of a pool."""

    where: str
    gpus: tuple[RankOfJob, ...]
    args: Mapping[str, Scalar]
    cases: Sequence[Mapping[str, Any]]
    node: str = ""

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the GPUs, if all are alike."""
        found = {gpu.models for gpu in self.gpus}
        return found.pop() if len(found) == 1 else ()

    @property
    def across_gbps(self) -> Fact[float]:
        """The median over all ranks of what pairs of nodes exchange."""
        found = [gpu.across_gbps for gpu in self.gpus]
        unread = next((one for one in found if isinstance(one, Unread)), None)
        if unread or not found:
            return unread or Unread("failed", "no rank was measured")
        values = [one.value for one in found if isinstance(one, Read)]
        return Read(statistics.median(values), found[0].evidence)

    def share_of(self, others: Sequence[Together]) -> Fact[float]:
        """Give the former as a share of what another run of these nodes gave."""
        other = next((one for one in others if one.where == self.where), None)
        if other is None:
            return Unread("failed", f"{self.where} has no other run to compare with")
        return figures.ratio(self.across_gbps, other.across_gbps)

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """The curves: each collective over all ranks, by size."""
        points: list[Point] = []
        best: dict[str, Read[float]] = {}
        for case in self.cases:
            if case["scope"] != self._widest:
                continue
            name, found = case["collective"], self._bus(case)
            at = {"collective": name, "size": size_words(case["size"])}
            smaller = best.get(name, found)  # the smallest has only itself to be held to
            points.append(Point(self.where, at, found, smaller, self.models))
            if isinstance(found, Read) and (name not in best or found.value > best[name].value):
                best[name] = Read(found.value, found.evidence)
        return tuple(points)

    @property
    def leaving(self) -> tuple[Leaving, ...]:
        """What left the nodes in the largest all-to-all, all-gather and reduce-scatter over all."""
        found = []
        for case in self.cases:
            told = case["collective"] != "all_reduce" and case["scope"] == "all"
            if told and case["size"] == self.args["most"]:
                at = {"collective": case["collective"], "size": size_words(case["size"])}
                found.append(Leaving(at, self._of_line(case)))
        return tuple(found)

    @property
    def leaving_by_rdma(self) -> tuple[Leaving, ...]:
        """The same without an all-to-all over so many nodes that no public figure is there to hold it to."""
        large = len({gpu.node for gpu in self.gpus}) >= _MANY_NODES
        return tuple(one for one in self.leaving if not large or one.at["collective"] != "all_to_all")

    @property
    def counted(self) -> tuple[Counted, ...]:
        """What the cards of each node counted in the largest all-to-all over all."""
        case = {"collective": "all_to_all", "scope": "all", "size": self.args["most"]}
        names = dict.fromkeys(gpu.node for gpu in self.gpus)
        return tuple(Counted(name, self._through_cards(name, case)) for name in names)

    @property
    def grown(self) -> tuple[Grown, ...]:
        """The growing groups, beginning with the nodes that are fastest in pairs."""
        best, found, known = 0.0, [], set[str]()
        for names, speed in self._groups():
            at = {"nodes": str(len(names))}
            added = [name for name in names if name not in known] or names
            known |= {*names}
            if isinstance(speed, Unread):
                found.append(Grown(at, speed))
                continue
            note = f"{speed.value:.3g} GB/s with {folded(added)}"
            found.append(Grown(at, Read(speed.value / best if best else 1.0, speed.evidence, note)))
            best = max(best, speed.value)
        return tuple(found)

    def _groups(self) -> list[tuple[Sequence[str], Fact[float]]]:
        """Give each group, the smallest first, and its bus bandwidth."""
        told: dict[tuple[str, ...], list[Fact[tuple[float, int, int]]]] = defaultdict(list)
        for gpu in self.gpus:
            listed = gpu.told.listed("groups")
            for row in listed.value if isinstance(listed, Read) else ():
                names = row.look("nodes")
                if isinstance(names, Read) and isinstance(names.value, list):
                    told[tuple(map(str, names.value))].append(gpu.time(row))
        found = [(names, _busbw("all_gather", times)) for names, times in told.items()]
        return sorted(found, key=lambda one: len(one[0]))

    @property
    def _widest(self) -> str:
        """Over what the curves go: all, or the one domain that there is."""
        scopes = str(self.args["scopes"]).split()
        return "all" if "all" in scopes else scopes[-1]

    def _bus(self, case: Mapping[str, Any]) -> Fact[float]:
        return _busbw(case["collective"], [gpu.seconds(case) for gpu in self.gpus])

    def _of_line(self, case: Mapping[str, Any]) -> Fact[float]:
        bus = self._bus(case)
        if isinstance(bus, Unread):
            return bus
        own = self.gpus[0].own
        island, line = max(1, len(own.gpus)), line_rate(own)
        if isinstance(line, Unread):
            return line
        if len(self.gpus) <= island:
            return Unread("not_asked", "there is one node, which nothing leaves")
        out = rates.leaving(case["collective"], bus.value, len(self.gpus), island)
        note = (
            f"{out:.4g} GB/s leave a node, of {line.value:g} GB/s ({line.note}); busbw {bus.value:.4g} GB/s"
        )
        return Read(out / line.value, bus.evidence, note)

    def _through_cards(self, name: str, case: Mapping[str, Any]) -> Fact[float]:
        own = [gpu for gpu in self.gpus if gpu.node == name]
        rows = [gpu.row(case) for gpu in own]
        unread = next((row for row in rows if isinstance(row, Unread)), None)
        if unread:
            return unread
        for gpu, row in zip(own, rows, strict=True):
            if isinstance(row, Read) and isinstance(sent := row.value.look("sent"), Read):
                return self._share(case, gpu, row.value, sent, len(own))
        return Unread(
            "not_found", "no card of the node has a counter of sent bytes that can be read", rows[0].evidence
        )

    def _share(
        self, case: Mapping[str, Any], gpu: RankOfJob, row: Record, sent: Read[Any], island: int
    ) -> Fact[float]:
        time, calls = gpu.time(row), row.count("calls")
        if isinstance(time, Unread):
            return time
        if isinstance(calls, Unread):
            return calls
        listed = sent.value.values() if isinstance(sent.value, dict) else ()
        counts = [one for one in listed if type(one) in (int, float) and one >= 0]
        seconds, size, ranks = time.value
        bus = rates.busbw(case["collective"], ranks, size, seconds)
        must = rates.leaving(case["collective"], bus, ranks, island) * seconds * calls.value * 1e9
        if not counts or not must:
            return row.garbled("sent", sent.value, "bytes of each port")
        note = f"{sum(counts):.3e} bytes by its cards, {must:.3e} had to leave it"
        return Read(sum(counts) / must, sent.evidence, note)


def _busbw(collective: str, told: Sequence[Fact[tuple[float, int, int]]]) -> Fact[float]:
    """Give the bus bandwidth by the mean of all ranks' times, which is what nccl-tests shows."""
    unread = next((one for one in told if isinstance(one, Unread)), None)
    if unread or not told:
        return unread or Unread("failed", "no rank was measured")
    values = [one.value for one in told if isinstance(one, Read)]
    seconds, (_, size, ranks) = statistics.fmean(value[0] for value in values), values[0]
    return Read(rates.busbw(collective, ranks, size, seconds), told[0].evidence, f"of {ranks} ranks")


def size_words(size: int) -> str:
    """Say a size as people do: ``16 GiB``."""
    power = 0
    while size >= _KIB and size % _KIB == 0 and power < len(_UNITS) - 1:
        size, power = size // _KIB, power + 1
    return f"{size} {_UNITS[power]}"
