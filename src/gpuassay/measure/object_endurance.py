"""Object storage under load from all nodes for an hour: as fast at its end, and every object as it was."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gpuassay.facts.source import document
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import first_of
from gpuassay.measure import drift, errand, figures, object_cases
from gpuassay.measure.object_cases import Case
from gpuassay.measure.object_nodes import LACK, NODE, REMOVED, Total
from gpuassay.measure.object_speed import GRACE_S, ObjectSpeed
from gpuassay.measure.paces import number
from gpuassay.measure.ranks import tell
from gpuassay.target import Job, TargetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpuassay.evidence.item import Item
    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.facts import Node
    from gpuassay.facts.record import Record
    from gpuassay.judge.catalog import Measurement
    from gpuassay.judge.fact import Fact, Scalar
    from gpuassay.judge.services import Services
    from gpuassay.measure.ranks import Line
    from gpuassay.measure.s3client import Place
    from gpuassay.target import Results

_MINUTE_S, _GB = 60.0, 1e9
_WHOLE = 0.99
_WINDOWS = 24  # at least so many, however short it is
_LENT_S = 7 * 24 * 3600  # a signed URL is good for a week at most (Signature Version 4)


@dataclass(frozen=True)
class NodeObjects:
    """A node that moved the same objects to the store and back for long, all nodes at the same time."""

    node: str
    told: Record
    args: Mapping[str, Scalar] = field(repr=False)
    asked_s: float
    volumes: tuple[Total, ...] = field(default=(), repr=False)  # what was left of it, beside the first node
    models: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """Its place: the node."""
        return self.node

    # --- how fast --------------------------------------------------------------------------------

    @property
    def read_last_of_first(self) -> Fact[float]:
        """What it reads in the last tenth of the time, as a share of the first."""
        return self._share("read", self._drift)

    @property
    def write_last_of_first(self) -> Fact[float]:
        """What it writes in the last tenth of the time, as a share of the first."""
        return self._share("write", self._drift)

    @property
    def read_lowest_of_median(self) -> Fact[float]:
        """What it reads in its slowest tenth, wherever that lies, as a share of its usual."""
        return self._share("read", drift.lowest_of_median)

    @property
    def write_lowest_of_median(self) -> Fact[float]:
        """What it writes in its slowest tenth, wherever that lies, as a share of its usual."""
        return self._share("write", drift.lowest_of_median)

    @property
    def read_gbps(self) -> Fact[Line]:
        """What it read over time."""
        return self._line("read")

    @property
    def write_gbps(self) -> Fact[Line]:
        """What it wrote over time."""
        return self._line("write")

    # --- whether all went well -------------------------------------------------------------------

    @property
    def wrong(self) -> Fact[int]:
        """How many objects came back with other bytes than were written."""
        return self._counted("wrong", "read")

    @property
    def missing(self) -> Fact[int]:
        """How many were confirmed, and were not there when they were read."""
        return self._counted("lost", "read")

    @property
    def unmoved(self) -> Fact[int]:
        """How many requests came to no good end, though they were tried again, or found no time."""
        return self._counted("unmoved", "write", "read")

    @property
    def refused_share(self) -> Fact[float]:
        """The share of requests that failed, whatever came of the next try."""
        return self._of_requests("errors")

    @property
    def slowed_share(self) -> Fact[float]:
        """The share of requests that the store answered with a wish for fewer (HTTP 503 or 429)."""
        return self._of_requests("slow_downs")

    @property
    def longest_s(self) -> Fact[float]:
        """How long it took at its longest until one object of each stream was written, or read."""
        rows = self._rows
        if isinstance(rows, Unread):
            return rows
        at, longest, since = 0.0, 0.0, 0.0
        for row in rows.value:
            told = number(row, "longest_s")
            if told is None:
                return row.garbled("longest_s", row.values, "a time")
            longest, since = max((longest, since), (told, at))
            at += number(row, "span") or 0.0
        return Read(longest, self.told.evidence, f"after {since / _MINUTE_S:.1f} minutes")

    # --- how long --------------------------------------------------------------------------------

    @property
    def minutes(self) -> Fact[float]:
        """For how long it was under load."""
        rows = self._rows
        if isinstance(rows, Unread):
            return rows
        note = f"of {self.asked_s / _MINUTE_S:.3g} that were asked for"
        return Read(round(self._lasted_s(rows.value) / _MINUTE_S, 2), self.told.evidence, note)

    @property
    def whole(self) -> Fact[bool]:
        """Whether that is as long as was asked for."""
        rows = self._rows
        if isinstance(rows, Unread):
            return rows
        whole, ended = self._lasted_s(rows.value) >= _WHOLE * self.asked_s, self.told.text("ended")
        return Read(whole, self.told.evidence, ended.value if isinstance(ended, Read) else "")

    # --- parts -----------------------------------------------------------------------------------

    @property
    def _rows(self) -> Fact[Sequence[Record]]:
        rows, ended = self.told.listed("rows"), self.told.text("ended")
        if isinstance(rows, Read) and not rows.value:
            why = ended.value if isinstance(ended, Read) else "it told of no window"
            return Unread("failed", f"nothing was moved: {why}", self.told.evidence)
        return rows

    @staticmethod
    def _lasted_s(rows: Sequence[Record]) -> float:
        return sum(number(row, "span") or 0.0 for row in rows)

    def _rates(self, act: str) -> Fact[Sequence[tuple[float, float]]]:
        """Give when each window ended, and its GB/s; the last is left out where it is too short to tell."""
        rows = self._rows
        if isinstance(rows, Unread):
            return rows
        found, at = [], 0.0
        spans = [number(row, "span") or 0.0 for row in rows.value]
        usual = sorted(spans)[len(spans) // 2]
        for row, span in zip(rows.value, spans, strict=True):
            moved, seconds = number(row, act), number(row, f"{act}_s")
            if moved is None or seconds is None:
                return row.garbled(act, row.values, "bytes and seconds of a window")
            at += span
            if seconds and span >= usual / 2:
                found.append((at, moved / seconds / _GB))
        return Read(found, self.told.evidence)

    def _drift(self, rates: Sequence[float]) -> Fact[float]:
        return drift.last_of_first(rates, float(self.args["most_error"]))

    def _share(self, act: str, of: Callable[[Sequence[float]], Fact[float]]) -> Fact[float]:
        rates = self._rates(act)
        if isinstance(rates, Unread):
            return rates
        found = of([rate for _, rate in rates.value])
        if isinstance(found, Unread):
            return replace(found, evidence=rates.evidence)
        return Read(found.value, rates.evidence, f"{act}: {found.note} (GB/s)")

    def _line(self, act: str) -> Fact[Line]:
        rates = self._rates(act)
        return rates if isinstance(rates, Unread) else Read(tuple(rates.value), rates.evidence)

    def _of_requests(self, key: str) -> Fact[float]:
        count, requests = (self._counted(one, "write", "read") for one in (key, "requests"))
        if isinstance(count, Unread) or isinstance(requests, Unread):
            return count if isinstance(count, Unread) else requests
        if not requests.value:
            return Unread("failed", "nothing was asked", requests.evidence)
        note = f"{count.value} of {requests.value}; {count.note}" if count.value else ""
        return Read(count.value / requests.value, count.evidence, note)

    def _counted(self, key: str, *acts: str) -> Fact[int]:
        rows = self._rows
        if isinstance(rows, Unread):
            return rows
        counts = figures.total([self.told.record(act).count(key) for act in acts])
        if isinstance(counts, Unread) or not counts.value:
            return counts
        said = [self.told.record(act).look("said") for act in acts]
        words = [str(one) for fact in said if isinstance(fact, Read) for one in _listed(fact.value)]
        return Read(counts.value, counts.evidence, first_of(words))


class ObjectEndurance(ObjectSpeed):
    """Objects of one size, written and read by each node again and again for a long time."""

    method = 2

    def ask(
        self,
        run: Callable[[Job], Results],
        services: Services,
        nodes: Sequence[Node],
        measurement: Measurement,
    ) -> Iterator[Item]:
        """Load the store from the idle ones of these nodes; what was made is removed before the first answer.

        ``seconds`` of the measurement's arguments is for how long; its deadline is what it takes beside that.
        """
        lasts_s = float(measurement.args["seconds"])
        longer = replace(measurement, deadline_s=measurement.deadline_s + lasts_s)
        for item in super().ask(run, services, nodes, longer):
            yield replace(item, asked={**item.asked, "of": lasts_s})

    def read(  # type: ignore[override]
        self, services: Services, args: Mapping[str, Scalar], evidence: NodeEvidence
    ) -> Sequence[NodeObjects]:
        """Read the answers into a subject for each node."""
        del services
        made: list[NodeObjects] = []
        removed = document(evidence, REMOVED)
        for item in evidence.items:
            kind, slash, name = item.id.partition("/")
            if f"{kind}{slash}" not in (NODE, LACK):
                continue
            ref = evidence.ref(item)
            told = tell(item, ref)
            volumes = () if made else (Total((), {}, removed),)
            made.append(NodeObjects(name, told, args, float(item.asked.get("of", 0.0)), volumes))
        return made

    def cost(self, args: Mapping[str, Scalar], nodes: int) -> str:
        """Say what is moved."""
        stored = _case(args, tiny=False).bytes / _GB
        words = f"as much as the store takes and gives in {float(args['seconds']) / _MINUTE_S:g} min"
        return (
            f"{words}, on {nodes or 'all'} nodes at once; {stored:.3g} GB of each are stored, and overwritten"
        )

    def _lend(
        self, measurement: Measurement, place: Place, names: Sequence[str], left_s: float, *, tiny: bool
    ) -> Job:
        from gpuassay.measure import s3loan  # noqa: PLC0415 - an extra

        if measurement.deadline_s > _LENT_S:
            raise TargetError("URLs are lent for a week at most: name a shorter --endurance")
        if place.keeps_versions():
            why = (
                "keeps what is overwritten, which would fill it: declare one without versions in [s3] bucket"
            )
            raise TargetError(f"the bucket {place.bucket} {why}")
        args, case = measurement.args, _case(measurement.args, tiny=tiny)
        lasts_s = float(args["seconds"])
        loan = s3loan.Loan(place, [case], 1, int(measurement.deadline_s), own=True)
        order: dict[str, Any] = {
            "method": self.method,
            "nodes": list(names),
            "plans": loan.plans(names),
            "tiny": tiny,
            "lasts_s": lasts_s,
            "window_s": min(float(args["window_s"]), max(0.5, lasts_s / _WINDOWS)),
            "rounds": {
                "count": 1,
                "follows": True,
                "seconds": args["patience_s"],
                "streams": object_cases.streams(args, tiny=tiny),
            },
        }
        feed = errand.alone("object_windows", order)
        return Job(measurement.name, errand.ALONE, tuple(names), 1, {}, "", left_s, feed, GRACE_S)


def _case(args: Mapping[str, Scalar], *, tiny: bool) -> Case:
    """Give the objects of each node: one for each stream."""
    return Case(int(args["size"]), object_cases.streams(args, tiny=tiny))


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()
