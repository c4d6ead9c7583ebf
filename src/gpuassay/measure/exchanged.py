"""What one rank of a job of collectives found: of itself, of its partners, and of what came out."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure import figures
from gpuassay.measure.netlog import Ways, ways
from gpuassay.measure.work import rates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.facts import Node
    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact, Scalar

_SHORT_S = 1e-3  # what takes less is latency, of which the median is shown whatever its noise
_NO_PEER = Unread("not_asked", "there is one node, which has no other to reach")


@dataclass(frozen=True)
class RankOfJob:
    """The GPU that a rank worked on, or the processor in its place, and what the rank printed."""

    node: str
    where: str
    models: tuple[str, ...]
    told: Record
    args: Mapping[str, Scalar]
    own: Node = field(repr=False, compare=False)
    alone: bool = field(default=False)  # no other node takes part

    # --- did it come through ---------------------------------------------------------------------

    @property
    def broken(self) -> Fact[bool]:
        """Whether it hung or failed itself; unread where others were at fault, or nothing came."""
        if self.told.unread:
            return self.told.unread
        why = self._ended("broken")
        if why:
            tail = " | ".join(self._tail[-2:])
            return Read(value=True, evidence=self.told.evidence, note=f"{why}; {tail}" if tail else why)
        other = self._ended("ended")
        if other:
            return Unread("failed", f"ended by another rank: {other}", self.told.evidence)
        missed = self._missed
        return missed if isinstance(missed, Unread) else Read(value=False, evidence=self.told.evidence)

    @property
    def _missed(self) -> Fact[bool]:
        """Compare whom it says that it met with whom it had to meet."""
        place = self.told.record("place")
        rank, ranks, of_node = (place.count(key) for key in ("rank", "ranks", "of_node"))
        listed = self._listed("pairs")
        for fact in (rank, ranks, of_node, listed):
            if isinstance(fact, Unread):
                return fact
        sizes = [fact.value for fact in (rank, ranks, of_node) if isinstance(fact, Read)]
        if not sizes[2] or sizes[1] % sizes[2] or sizes[0] >= sizes[1]:
            return place.garbled("ranks", sizes, "a rank of whole nodes")
        rows = listed.value if isinstance(listed, Read) else ()
        met = {fact.value for row in rows if isinstance(fact := row.count("with"), Read)}
        due = rates.meetings(sizes[0], sizes[2], sizes[1] // sizes[2], int(self.args["rounds"]))
        left = {other for _, other in due if other >= 0} - met
        if left:
            return Unread("failed", f"it reports nothing of rank {min(left)}", self.told.evidence)
        return Read(value=True)

    @property
    def wrong(self) -> Fact[int]:
        """How many elements were wrong over all exchanges, before and under the load."""
        found: list[Fact[int]] = []
        for kind in ("pairs", "groups", "rows"):
            listed = self._listed(kind)
            if isinstance(listed, Unread):
                return listed
            found += [self._wrong(row) for row in listed.value if not self._unsupported(row)]
        if isinstance(self.broken, Unread) and not any(isinstance(one, Read) and one.value for one in found):
            return self.broken
        return figures.total(found)

    # --- how it went -----------------------------------------------------------------------------

    @cached_property
    def ways(self) -> Fact[Ways]:
        """What the library's log shows."""
        lines = self.told.record("log").look("lines")
        if isinstance(lines, Unread):
            return lines
        texts = (
            [str(line[0]) for line in lines.value if isinstance(line, list) and line] if lines.value else []
        )
        if not texts:
            return Unread("not_found", "the library's log shows nothing of how data went", self.told.evidence)
        return Read(ways(texts), self.told.evidence)

    @property
    def sockets(self) -> Fact[bool]:
        """Whether data between nodes went through sockets of the kernel, by the log."""
        if self.alone:
            return _NO_PEER
        found = self.ways
        if isinstance(found, Unread):
            return found
        if found.value.sockets is None:
            return Unread(
                "not_found",
                f"the log does not say how nodes were reached: {found.value.words}",
                found.evidence,
            )
        return Read(found.value.sockets, found.evidence, found.value.words)

    @property
    def direct(self) -> Fact[bool]:
        """Whether the cards read and write the memory of the GPU themselves (GPUDirect), by the log."""
        if self.alone:
            return _NO_PEER
        found = self.ways
        if isinstance(found, Unread):
            return found
        if found.value.direct is None:
            return Unread("not_found", "the log shows no way between nodes", found.evidence)
        return Read(found.value.direct, found.evidence, found.value.words)

    # --- how fast --------------------------------------------------------------------------------

    @property
    def across_gbps(self) -> Fact[float]:
        """What it exchanges with the partner of another node that it is fastest with, each way."""
        return _NO_PEER if self.alone else self._best("across")

    @property
    def within_gbps(self) -> Fact[float]:
        """What it exchanges with the partner of its own node that it is fastest with, each way."""
        return self._best("within")

    @property
    def across_of_line(self) -> Fact[float]:
        """The former as a share of the line rate that each GPU of its node has."""
        line = self.line_gbps
        return figures.ratio(self.across_gbps, line)

    @property
    def line_gbps(self) -> Fact[float]:
        """The rate of the node's ports of the compute fabric in GB/s, divided by its GPUs."""
        total = line_rate(self.own)
        return (
            total
            if isinstance(total, Unread)
            else Read(total.value / max(1, len(self.own.gpus)), total.evidence, total.note)
        )

    @property
    def all_reduce_gbps(self) -> Fact[float]:
        """Bus bandwidth of the largest all-reduce within its NVLink or xGMI domain."""
        return self._largest("all_reduce")

    @property
    def all_gather_gbps(self) -> Fact[float]:
        """The same of an all-gather."""
        return self._largest("all_gather")

    @property
    def reduce_scatter_gbps(self) -> Fact[float]:
        """The same of a reduce-scatter."""
        return self._largest("reduce_scatter")

    @property
    def all_to_all_gbps(self) -> Fact[float]:
        """The same of an all-to-all."""
        return self._largest("all_to_all")

    def seconds(self, case: Mapping[str, Any]) -> Fact[tuple[float, int, int]]:
        """Give seconds, bytes and ranks of a case."""
        row = self.row(case)
        return row if isinstance(row, Unread) else self.time(row.value)

    def row(self, case: Mapping[str, Any]) -> Fact[Record]:
        """Find what was measured of a case, or why it was not."""
        listed = self._listed("rows")
        if isinstance(listed, Unread):
            return listed
        for row in listed.value:
            found = row.look("case")
            if isinstance(found, Read) and found.value == case:
                return figures.lack(row) or Read(row, self.told.evidence)
        broken = self.broken
        why = broken.why if isinstance(broken, Unread) else broken.note or "its rank did not report this case"
        return Unread("failed", why, self.told.evidence)

    def _largest(self, collective: str) -> Fact[float]:
        case = {"collective": collective, "scope": "domain", "size": self.args["most"]}
        found = self.seconds(case)
        if isinstance(found, Unread):
            return found
        seconds, size, ranks = found.value
        return Read(rates.busbw(collective, ranks, size, seconds), found.evidence, f"of {ranks} ranks")

    def _best(self, kind: str) -> Fact[float]:
        listed = self._listed("pairs")
        if isinstance(listed, Unread):
            return listed
        found = []
        for row in listed.value:
            if isinstance(row.text("kind"), Read) and row.text("kind") == Read(kind, row.evidence):
                time = self.time(row, least_ranks=0)
                if isinstance(time, Unread):
                    return time
                found.append(rates.algbw(time.value[1], time.value[0]))
        if not found:
            unread = self.broken
            return (
                unread
                if isinstance(unread, Unread)
                else Unread("failed", unread.note or f"it met no partner {kind}", unread.evidence)
            )
        note = f"the best of {len(found)} partners" if len(found) > 1 else "of two, none can be told apart"
        return Read(max(found), self.told.evidence, note)

    def time(self, row: Record, least_ranks: int = 2) -> Fact[tuple[float, int, int]]:
        """Read seconds, bytes and ranks of a row; repeats that differ too much are no figure."""
        size, told = row.count("bytes"), row.look("seconds")
        ranks = row.count("ranks") if least_ranks else Read(2, self.told.evidence)
        if isinstance(size, Unread):
            return size
        if isinstance(told, Unread):
            return told
        if isinstance(ranks, Unread):
            return ranks
        times = figures.times(told.value)
        if times is None or ranks.value < least_ranks or not size.value:
            return row.garbled("seconds", told.value, "three positive numbers")
        seconds = statistics.median(times)
        spread, noise = (max(times) - min(times)) / seconds, float(self.args["noise"])
        if self.own.gpus and spread > noise and seconds > _SHORT_S:
            why = f"inconclusive: its repeats lie {spread:.1%} apart, more than {noise:.0%}"
            return Unread("failed", why, self.told.evidence)
        return Read((seconds, size.value, ranks.value), self.told.evidence)

    def _unsupported(self, row: Record) -> bool:
        status = row.text("status") if isinstance(row.look("status"), Read) else None
        return isinstance(status, Read) and status.value == "unsupported"

    def _wrong(self, row: Record) -> Fact[int]:
        wrong = row.count("wrong")
        if isinstance(wrong, Unread) or isinstance(row.look("with"), Read):
            return wrong
        changed = row.count("changed")
        if isinstance(changed, Unread):
            return changed
        total, case = wrong.value + changed.value, row.look("case")
        said = (
            " ".join(map(str, case.value.values()))
            if isinstance(case, Read) and isinstance(case.value, dict)
            else "a group"
        )
        note = f"{said}: {wrong.value} before the load, {changed.value} under it" if total else ""
        return Read(total, self.told.evidence, note)

    def _listed(self, key: str) -> Fact[tuple[Record, ...]]:
        return self.told.listed(key)

    def _ended(self, how: str) -> str:
        said = self.told.look(how)
        return brief(str(said.value)) if isinstance(said, Read) else ""

    @property
    def _tail(self) -> list[str]:
        tail = self.told.record("log").look("tail")
        return (
            [brief(str(line)) for line in tail.value]
            if isinstance(tail, Read) and isinstance(tail.value, list)
            else []
        )


def line_rate(node: Node) -> Fact[float]:
    """Add up the line rates of a node's connected ports of the compute fabric, in GB/s."""
    ports = [port for port in node.fabric.ports if port.connected]
    if not ports:
        return Unread("not_found", f"{node.name} shows no connected port of a compute fabric")
    total = 0.0
    for port in ports:
        rate = port.line_rate_gbps
        if isinstance(rate, Unread):
            return rate
        total += rate.value
    return Read(total / 8, port.line_rate_gbps.evidence, f"{len(ports)} ports, {total:g} Gb/s in all")
