"""Storage under load for an hour: as fast at its end, never still, without an error, alike on all nodes."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from gpuassay.judge.fact import Read, Unread
from gpuassay.measure import drift, errand
from gpuassay.measure.fio import FIO
from gpuassay.measure.lasted import EachMount, MountLoad, of_mounts
from gpuassay.measure.paces import number
from gpuassay.target import Job

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.facts import Node
    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact, Scalar
    from gpuassay.measure.lasted import Lasted
    from gpuassay.measure.ranks import Line

_MINUTE_S = 60.0
_STILL = 0.01  # of the usual: less than that is nothing
_WINDOWS = 24  # at least so many, however short it is
_TO_REMOVE_S = 60.0


@dataclass(frozen=True)
class Sustained(MountLoad):
    """A mount as one node loaded it with fio, together with all others."""

    # --- how fast --------------------------------------------------------------------------------

    @property
    def last_of_first(self) -> Fact[float]:
        """What it moves in the last tenth of the time, as a share of the first."""
        return self._told(drift.last_of_first(self._rates, float(self.args["most_error"])))

    @property
    def lowest_of_median(self) -> Fact[float]:
        """What it moves in its slowest tenth, wherever that lies, as a share of its usual."""
        return self._told(drift.lowest_of_median(self._rates))

    @property
    def of_fastest(self) -> Fact[float]:
        """Its usual speed beside that of the node which is fastest at the same mount."""
        own = self.gbps
        if isinstance(own, Unread):
            return own
        fastest = max((fact.value, one.node) for one in self.alike if isinstance(fact := one.gbps, Read))
        note = f"{own.value:.4g} GB/s, and {fastest[0]:.4g} on {fastest[1]}"
        return self.of(own.value / fastest[0] if fastest[0] else 0.0, note)

    @property
    def gbps(self) -> Fact[float]:
        """The median of its windows, read and written together."""
        if not self._rates:
            return self._nothing
        return self.of(statistics.median(self._rates), f"median of {len(self._rates)} windows")

    # --- whether it stood still ------------------------------------------------------------------

    @property
    def stalled_s(self) -> Fact[float]:
        """For how long it moved nothing, at its longest."""
        if not self._windows:
            return self._nothing
        usual, longest, still = statistics.median(self._rates), 0.0, 0.0
        since = 0.0
        for at, span, rate in self._windows:
            still = still + span if rate <= _STILL * usual else 0.0
            if still > longest:
                longest, since = still, at - still
        note = f"from {since / _MINUTE_S:.1f} minutes on" if longest else ""
        return Read(round(longest, 1), self.row.evidence, note)

    @property
    def errors(self) -> Fact[int]:
        """How many reads and writes failed."""
        told = self._last_line
        if told is None:
            return self._nothing
        count, first = told.count("errors"), told.look("first_error")
        if isinstance(count, Unread):
            return count
        if not count.value and not self._windows:
            return self._nothing
        note = f"the first with errno {first.value}" if count.value and isinstance(first, Read) else ""
        return Read(count.value, count.evidence, note)

    # --- for the report --------------------------------------------------------------------------

    @property
    def all_gbps(self) -> Fact[Line]:
        """What it moved over time."""
        return Read(tuple((at, rate) for at, _, rate in self._windows), self.row.evidence)

    # --- parts -----------------------------------------------------------------------------------

    @cached_property
    def _windows(self) -> tuple[tuple[float, float, float], ...]:
        """Give each window but the last, which ends when the time is over, if that is too short to tell."""
        usual = statistics.median([span for _, span, _ in self._all]) if self._all else 0.0
        return tuple(one for one in self._all if one[1] >= usual / 2)

    @cached_property
    def _all(self) -> list[tuple[float, float, float]]:
        """Give each window: when it ended, how long it was, and how much it moved (10^9 bytes a second)."""
        found, at = [], 0.0
        for one in self._beats:
            span, read, written = (number(one, key) for key in ("span", "read", "write"))
            if not span or read is None or written is None:
                continue
            at += span
            found.append((at, span, (read + written) / span / 1e9))
        return found

    @property
    def _rates(self) -> list[float]:
        return [rate for _, _, rate in self._windows]

    @property
    def _last_line(self) -> Record | None:
        lines = (self.journal.end, *reversed(self.journal.beats)) if self.journal else ()
        return next((one for one in lines if one and isinstance(one.look("errors"), Read)), None)

    def _told(self, fact: Fact[float]) -> Fact[float]:
        """Give a figure its place; one that could not be made, for which there is nothing, says why."""
        if isinstance(fact, Unread):
            return replace(fact, evidence=self.row.evidence) if self._windows else self._nothing
        return self.of(fact.value, f"{fact.note} (GB/s)")


class SustainedLoad(EachMount):
    """``[measure.X] workload = "sustained_storage"``: fio in each mount in turn, on all nodes at once."""

    name: ClassVar[str] = "sustained_storage"
    method: ClassVar[int] = 1
    in_image: ClassVar[bool] = False

    def job(
        self, name: str, args: Mapping[str, Scalar], nodes: Sequence[Node], part: str, seconds: float
    ) -> Job:
        """Load a mount on all nodes at once for so long."""
        window = min(float(args["window_s"]), max(1.0, seconds // _WINDOWS))
        order: dict[str, Any] = {
            "lasts": True,
            "module": "sustained",
            "mount": part,
            "nodes": len(nodes),
            "get": FIO.get,
            **{key: args[key] for key in ("block", "depth", "jobs", "size_mib", "read_percent")},
            "seconds": round(seconds),
            "window_s": round(window),
        }
        names = tuple(node.name for node in nodes)
        feed = errand.pack(order, "disk")
        return Job(name, errand.ARGV, names, deadline_s=seconds, feed=feed, grace_s=_TO_REMOVE_S)

    def subjects(self, lasted: Lasted) -> list[Sustained]:
        """Read the journals of all nodes: a subject for each mount on each of them."""
        return of_mounts(Sustained, lasted)
