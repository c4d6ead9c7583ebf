"""The way out of the cluster, north and south: name lookups, mirrors, registries and model hubs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Any

from gpuassay.facts.record import Record
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.outside import document
from gpuassay.measure import errand
from gpuassay.measure.ranks import tell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.evidence.item import Item
    from gpuassay.judge.fact import Fact, Scalar
    from gpuassay.judge.services import Services

_NO_ERROR = 0
_CODES = {1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED"}  # RFC 1035, 4.1.1
_LEAST_BYTES = 1_000_000  # less is over before a connection has come up to speed
_MEGABIT = 1e6 / 8


def rows(item: Item | Unread, ref: str) -> Sequence[Record]:
    """Read the rows that an errand printed; a single unread one where there are none."""
    told = Record(item, ref) if isinstance(item, Unread) else tell(item, ref)
    listed = told.listed("rows")
    if isinstance(listed, Read) and not listed.value:
        listed = Unread("garbled", "it printed no row", ref)
    return (Record(listed, ref),) if isinstance(listed, Unread) else listed.value


@dataclass(frozen=True)
class Resolver:
    """A resolver as a node sees it; ``rows`` are its answers, name by name."""

    node: str
    rows: Sequence[Record]
    models: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """Its place: its address on the node."""
        address = self.rows[0].text("resolver")
        return f"{self.node}/{address.value}" if isinstance(address, Read) else self.node

    @cached_property
    def _times(self) -> Fact[list[float]]:
        times: list[float] = []
        for row in self.rows:
            listed = row.look("ms")
            if isinstance(listed, Unread):
                return listed
            if not isinstance(listed.value, list) or not all(type(ms) in (int, float) for ms in listed.value):
                return row.garbled("ms", listed.value, "a list of numbers")
            times += listed.value
        if not times:
            problem = self.rows[0].text("problem")
            said = f": {problem.value}" if isinstance(problem, Read) else ""
            return Unread("failed", f"it answered nothing{said}", self.rows[0].evidence)
        return Read(times, self.rows[0].evidence, f"{len(times)} answers")

    @property
    def median_ms(self) -> Fact[float]:
        """How long an answer takes as a rule."""
        times = self._times
        return times if isinstance(times, Unread) else Read(median(times.value), times.evidence, times.note)

    @property
    def worst_ms(self) -> Fact[float]:
        """How long the slowest answer took."""
        times = self._times
        return times if isinstance(times, Unread) else Read(max(times.value), times.evidence, times.note)

    @property
    def lost(self) -> Fact[float]:
        """The share of the questions to which no answer came."""
        asked = 0
        for row in self.rows:
            count = row.count("asked")
            if isinstance(count, Unread):
                return count
            asked += count.value
        times = self._times
        answered = len(times.value) if isinstance(times, Read) else 0
        note = f"{answered} of {asked} questions were answered"
        return Read(1 - answered / asked if asked else 1.0, self.rows[0].evidence, note)

    @property
    def unknown(self) -> Fact[int]:
        """How many of the names it could not tell an address of; the note says what it said instead."""
        bad = []
        for row in self.rows:
            codes, name = row.look("codes"), row.text("name")
            if isinstance(codes, Unread):
                return codes
            if isinstance(name, Unread):
                return name
            if not isinstance(codes.value, list):
                return row.garbled("codes", codes.value, "a list of numbers")
            wrong = [code for code in codes.value if code != _NO_ERROR]
            bad += [f"{name.value}: {_CODES.get(code, f'code {code}')}" for code in wrong[:1]]
        return Read(len(bad), self.rows[0].evidence, "; ".join(bad))


@dataclass(frozen=True)
class NamesOnNode:
    """What a node's resolvers say."""

    node: str
    resolvers: Sequence[Resolver]


class Lookups:
    """The declared names, at each resolver of /etc/resolv.conf."""

    method = 1

    def argv(self, args: Mapping[str, Scalar]) -> tuple[str, ...]:  # noqa: ARG002 - the order has them
        """Give the command: Python, which takes the program from its standard input."""
        return errand.ALONE

    def order(self, services: Services) -> Mapping[str, Any]:
        """Give the names."""
        return {"names": list(services.outside.lookups)}

    def feed(self, args: Mapping[str, Scalar], order: Mapping[str, Any], nodes: Sequence[str]) -> bytes:  # noqa: ARG002 - alike on all
        """Pack it."""
        return errand.alone("lookup", {**order, **args})

    def read(self, node: str, args: Mapping[str, Scalar], item: Item | Unread, ref: str) -> NamesOnNode:  # noqa: ARG002 - as all tools
        """Read the answers, resolver by resolver."""
        by: dict[object, list[Record]] = {}
        for row in rows(item, ref):
            resolver = row.text("resolver")
            by.setdefault(resolver.value if isinstance(resolver, Read) else None, []).append(row)
        return NamesOnNode(node, [Resolver(node, found) for found in by.values()])


@dataclass(frozen=True)
class Fetched:
    """What a node fetched from one place."""

    node: str
    row: Record
    models: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """Its place: what was fetched, on the node."""
        url = self.row.text("url")
        return f"{self.node}/{url.value}" if isinstance(url, Read) else self.node

    @property
    def reached(self) -> Fact[bool]:
        """Whether it came: all of it, as much as may be fetched, or as much as there was time for."""
        end, came = self.row.text("end"), self.row.count("bytes")
        if isinstance(end, Unread) or isinstance(came, Unread):
            return end if isinstance(end, Unread) else came  # type: ignore[return-value]
        why = self.row.text("why")
        said = why.value if isinstance(why, Read) else f"{came.value} bytes came"
        arrived = end.value in ("whole", "limit") or (end.value == "time" and came.value > 0)
        return Read(arrived, end.evidence, said)

    @property
    def mbps(self) -> Fact[float]:
        """How fast it came, by one connection, in Mbit/s; what is too small for that is unread."""
        reached, came = self.reached, self.row.count("bytes")
        if isinstance(reached, Unread):
            return reached
        seconds = self.row.look("stream_s")
        if isinstance(seconds, Unread) or isinstance(came, Unread):
            return seconds if isinstance(seconds, Unread) else came
        if type(seconds.value) not in (int, float):
            return self.row.garbled("stream_s", seconds.value, "a number")
        if came.value < _LEAST_BYTES or seconds.value <= 0:
            why = f"{came.value} bytes came: too few to tell a rate (a `bytes` of 1000000 or more)"
            return Unread("failed", why, seconds.evidence)
        note = f"{came.value / 1e9:.3g} GB in {seconds.value:.3g} s, by one connection"
        return Read(came.value / seconds.value / _MEGABIT, seconds.evidence, note)


@dataclass(frozen=True)
class FetchedOnNode:
    """All that a node fetched."""

    node: str
    fetched: Sequence[Fetched]
    models: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """Its place: the node."""
        return self.node

    @property
    def best_mbps(self) -> Fact[float]:
        """The rate of the fastest: the others may be slow for reasons of their own."""
        rates = [one.mbps for one in self.fetched]
        read = [rate for rate in rates if isinstance(rate, Read)]
        return max(read, key=lambda rate: rate.value) if read else rates[0]


class Fetches:
    """What is declared as ``[[mirror]]``, of some kinds, fetched by each node at once and not kept."""

    method = 1

    def __init__(self, need: str, *kinds: str) -> None:
        """Take the kinds, and the word of ``[needs]`` that says that some are declared."""
        self.need = need
        self._kinds = kinds

    def argv(self, args: Mapping[str, Scalar]) -> tuple[str, ...]:  # noqa: ARG002 - the order has them
        """Give the command: Python, which takes the program from its standard input."""
        return errand.ALONE

    def order(self, services: Services) -> Mapping[str, Any]:
        """Give what to fetch, and the way."""
        outside = services.outside
        return {"mirrors": document(outside.of(*self._kinds)), "proxy": outside.proxy}

    def feed(self, args: Mapping[str, Scalar], order: Mapping[str, Any], nodes: Sequence[str]) -> bytes:  # noqa: ARG002 - alike on all
        """Pack it."""
        return errand.alone("fetch", {**order, **args})

    def cost(self, services: Services, nodes: int) -> str:
        """Say what it fetches at most, and what that costs."""
        return services.outside.cost(services.outside.of(*self._kinds), nodes)

    def read(self, node: str, args: Mapping[str, Scalar], item: Item | Unread, ref: str) -> FetchedOnNode:  # noqa: ARG002 - as all tools
        """Read what came."""
        return FetchedOnNode(node, [Fetched(node, row) for row in rows(item, ref)])
