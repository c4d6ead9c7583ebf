"""What nodes told of objects that they moved to a store and back: rates, times, and what went wrong."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import first_of
from gpuassay.measure import figures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact
    from gpuassay.measure.object_nodes import NodeStreams

_GB = 1e9


@dataclass(frozen=True)
class Moved:
    """The objects of one size on one node, both ways; ``rows`` are what its program told of each way."""

    stream: NodeStreams = field(repr=False)
    size: str
    rows: Mapping[str, Record]

    @property
    def at(self) -> Mapping[str, str]:
        """The size of the objects: each has rates of its own."""
        return {"objects": self.size}

    @property
    def read_gbps(self) -> Fact[float]:
        """What the node reads, of objects that another has written."""
        return self.rate("read")

    @property
    def write_gbps(self) -> Fact[float]:
        """What the node writes, until the store has confirmed all of it."""
        return self.rate("write")

    @property
    def read_of_fastest(self) -> Fact[float]:
        """Its reading beside that of the fastest node."""
        return self._of_fastest("read")

    @property
    def write_of_fastest(self) -> Fact[float]:
        """Its writing beside that of the fastest node."""
        return self._of_fastest("write")

    @property
    def read_ms(self) -> Fact[float]:
        """The median time until an object has come."""
        return self._time("read", "p50")

    @property
    def read_p99_ms(self) -> Fact[float]:
        """The time that one of a hundred exceeds."""
        return self._time("read", "p99")

    @property
    def write_ms(self) -> Fact[float]:
        """The median time until the store has confirmed an object."""
        return self._time("write", "p50")

    @property
    def write_p99_ms(self) -> Fact[float]:
        """The time that one of a hundred exceeds."""
        return self._time("write", "p99")

    @property
    def wrong(self) -> Fact[int]:
        """How many objects came back with other bytes than were written."""
        whole = self._whole_by_writer()
        return whole if isinstance(whole, Unread) else self._count(("read",), "wrong")

    @property
    def missing(self) -> Fact[int]:
        """How many were confirmed, and were not there when another node read them."""
        whole = self._whole_by_writer()
        return whole if isinstance(whole, Unread) else self._count(("read",), "lost")

    @property
    def unmoved(self) -> Fact[int]:
        """How many requests came to no good end, though they were tried again, or found no time."""
        return self._count(("write", "read"), "unmoved")

    @property
    def refused_share(self) -> Fact[float]:
        """The share of requests that failed, whatever came of the next try."""
        return self._share("errors")

    @property
    def slowed_share(self) -> Fact[float]:
        """The share of requests that the store answered with a wish for fewer (HTTP 503 or 429)."""
        return self._share("slow_downs")

    def rounds(self, act: str) -> Fact[tuple[tuple[int, float], ...]]:
        """Give the bytes and seconds of each round, if all was moved in it."""
        row = self.rows[act]
        lacking = figures.lack(row, f"{act} of {self.size}")
        unmoved, listed = row.count("unmoved"), row.listed("rounds")
        for fact in (lacking, unmoved, listed):
            if isinstance(fact, Unread):
                return fact
        if unmoved.value:  # type: ignore[union-attr]
            why = f"{act} of {self.size}: {unmoved.value} requests came to no good end{self._said(row)}"  # type: ignore[union-attr]
            return Unread("failed", why, row.evidence)
        if act == "read" and isinstance(whole := self._whole_by_writer(), Unread):
            return whole
        found = [(one.count("bytes"), one.look("seconds")) for one in listed.value]  # type: ignore[union-attr]
        rounds = tuple(
            (size.value, float(time.value))
            for size, time in found
            if isinstance(size, Read)
            and size.value
            and isinstance(time, Read)
            and figures.is_time(time.value)
        )
        if len(rounds) < len(found) or figures.times([time for _, time in rounds]) is None:
            return row.garbled("rounds", found, "three rounds with bytes and seconds")
        return Read(rounds, row.evidence)

    def rate(self, act: str) -> Fact[float]:
        """Give GB/s, the median of the rounds."""
        rounds = self.rounds(act)
        if isinstance(rounds, Unread):
            return rounds
        told = self.rows[act].count("streams")
        streams = f"{told.value} streams" if isinstance(told, Read) else "streams"
        note = f"{act} of {self.size} by {streams}"
        return median([size / time for size, time in rounds.value], note, rounds.evidence, self.stream)

    def _of_fastest(self, act: str) -> Fact[float]:
        own = self.rate(act)
        if isinstance(own, Unread):
            return own
        others = [one for node in self.stream.beside for one in node.moved if one.size == self.size]
        rates = [(rate.value, one.stream.node) for one in others if isinstance(rate := one.rate(act), Read)]
        most, node = max(rates)
        return Read(
            own.value / most, own.evidence, f"{own.value:.4g} GB/s, and {most:.4g} on {node}; {own.note}"
        )

    def _time(self, act: str, share: str) -> Fact[float]:
        row = self.rows[act]
        lacking = figures.lack(row, f"{act} of {self.size}")
        told = row.record("ms").look(share)
        if lacking or isinstance(told, Unread):
            return lacking or told
        if not figures.is_time(told.value):
            return row.garbled(share, told.value, "a time")
        return Read(float(told.value), row.evidence, f"{act} of {self.size}")

    def _whole_by_writer(self) -> Unread | None:
        """Say why what was to be read was not written whole; None if it was."""
        row = self.rows["read"]
        lacking = figures.lack(row, f"read of {self.size}")
        name = row.text("from")
        if lacking or isinstance(name, Unread):
            return lacking or name  # type: ignore[return-value]
        writer = next(
            (
                one
                for node in self.stream.beside
                if node.node == name.value
                for one in node.moved
                if one.size == self.size
            ),
            None,
        )
        unmoved = writer.rows["write"].count("unmoved") if writer else Unread("failed", "it told nothing")
        if isinstance(unmoved, Read) and not unmoved.value:
            return None
        return Unread(
            "failed", f"{name.value} was to write what is read here, and did not write all", row.evidence
        )

    def _share(self, key: str) -> Fact[float]:
        count, requests = self._count(("write", "read"), key), self._count(("write", "read"), "requests")
        if isinstance(count, Unread):
            return count
        if isinstance(requests, Unread) or not requests.value:
            return (
                requests
                if isinstance(requests, Unread)
                else Unread("failed", "nothing was asked", requests.evidence)
            )
        note = f"{count.value} of {requests.value}; {count.note}" if count.value else ""
        return Read(count.value / requests.value, count.evidence, note)

    def _count(self, acts: Sequence[str], key: str) -> Fact[int]:
        rows = [self.rows[act] for act in acts]
        lacking = next((found for row in rows if (found := figures.lack(row))), None)
        total = lacking or figures.total([row.count(key) for row in rows])
        if isinstance(total, Unread) or not total.value:
            return total
        return Read(total.value, total.evidence, f"{self.size}{''.join(map(self._said, rows))}")

    @staticmethod
    def _said(row: Record) -> str:
        said = row.look("said")
        words = (
            [str(one) for one in said.value]
            if isinstance(said, Read) and isinstance(said.value, list)
            else []
        )
        return f"; {first_of(words)}" if words else ""


def median(rates: Sequence[float], note: str, evidence: str, stream: NodeStreams) -> Fact[float]:
    """Give the median of the rounds in GB/s; rounds that lie too far apart are no figure."""
    middle = statistics.median(rates)
    apart = (max(rates) - min(rates)) / middle
    if apart > float(stream.args["noise"]) and not stream.tiny:
        return Unread("failed", f"{note}: inconclusive, its rounds lie {apart:.0%} apart", evidence)
    return Read(middle / _GB, evidence, f"{note}, {len(rates)} rounds {apart:.0%} apart", apart)
