"""Grade what was observed, row by row: find what a value is compared with, and let its limit compare."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.judge import robust
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.limits import Grade
from gpuassay.judge.names import first_of
from gpuassay.judge.observe import as_fact
from gpuassay.judge.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from gpuassay.judge.bench import Bench
    from gpuassay.judge.catalog import Check
    from gpuassay.judge.fact import Absence, Fact, Scalar, Subject
    from gpuassay.judge.limits import Limit
    from gpuassay.judge.observe import Observation
    from gpuassay.judge.rules import Reference
    from gpuassay.judge.waivers import Waiver

# What an unread value means for a verdict. `None` is "not run"; `unsupported` depends on the product.
ABSENT: Mapping[Absence, Verdict | None] = {
    "not_asked": None,
    "denied": Verdict.UNSEEN,
    "not_found": Verdict.ERROR,
    "timed_out": Verdict.ERROR,
    "failed": Verdict.ERROR,
    "garbled": Verdict.ERROR,
    "unsupported": Verdict.ERROR,
}
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Row:
    """One graded observation, or ``cells`` of them that are missing. ``verdict`` None is "not run".

    ``note`` and ``spread`` say how a figure that was measured came about, also where it passed.
    """

    where: str
    node: str
    metric: str
    verdict: Verdict | None
    reason: str
    value: Scalar | None = None
    reference: Scalar | None = None
    evidence: str = ""
    at: tuple[tuple[str, str], ...] = ()
    caps_at_gold: bool = False
    provisional: bool = False
    waived: Waiver | None = None
    cells: int = 1
    note: str = ""
    spread: float | None = None


class Grading:
    """The grading of one check."""

    def __init__(self, bench: Bench, check: Check) -> None:
        """Take the limits as they hold at this site."""
        self._bench = bench
        self._check = check
        self._limits = bench.site.effective(check.id)
        self._holders: dict[tuple[str, object], dict[str, str]] = defaultdict(dict)

    def rows(self, seen: Sequence[Observation]) -> list[Row]:
        """Grade observations, each beside those that it may be compared with."""
        compared = {metric for metric, limit in self._limits.items() if _compares(limit)}
        # A subject has one vote, however often it was observed; what is no finite number has none.
        votes: dict[object, dict[object, Scalar]] = defaultdict(dict)
        for one in seen:
            if one.metric in compared and isinstance(one.value, Read) and _is_finite(one.value.value):
                value = one.value.value
                votes[self._like(one)][one.subject.where, type(value), value] = value
            limit = self._limits.get(one.metric)
            if limit and limit.unique_to and isinstance(one.value, Read):
                self._holders[one.metric, one.value.value][one.subject.where] = one.subject.node
        alone = _Peers(())
        peers = {key: _Peers(values.values()) for key, values in votes.items()}
        return [
            self._waive(
                self._grade(one, peers.get(self._like(one), alone) if one.metric in compared else alone)
            )
            for one in seen
        ]

    def _like(self, seen: Observation) -> object:
        subject = seen.subject
        return (self._bench.like(subject.node, subject.models), seen.metric, seen.at)

    def _grade(self, seen: Observation, peers: _Peers) -> Row:
        limit = self._limits.get(seen.metric)
        fact = seen.value
        if limit is None:
            return _row(seen, Verdict.ERROR, f"{self._check.id} has no limit for {seen.metric}")
        if isinstance(fact, Unread):
            # What is provisional is the figure, not the measuring: what is no value binds.
            return replace(self._unread(seen, fact), provisional=limit.provisional and fact.kind != "garbled")
        product = self._bench.accelerator(seen.subject.models) if self._check.over == "gpu" else None
        if isinstance(product, Unread):
            return _row(seen, Verdict.ERROR, product.why)
        reference, grade = self._reference(seen, limit, peers)
        if isinstance(reference, Unread):
            reason = f"{seen.metric} cannot be compared with {limit.of}: {reference.why}"
            return replace(_row(seen, ABSENT[reference.kind], reason), provisional=limit.provisional)
        if not _is_finite(fact.value):  # an error by every limit, also where there is nothing to compare with
            grade = limit.grade(fact.value, fact.value)
        if grade and grade.verdict is Verdict.FAIL and limit.softened:  # no majority, where that only warns
            grade = replace(grade, verdict=Verdict.WARN)
        grade = grade or limit.grade(fact.value, reference.value if reference else None)
        if (
            limit.beyond
            and not peers.outside(fact.value, limit.beyond)
            and grade.verdict is not Verdict.ERROR
        ):
            grade = Grade(Verdict.PASS, reference=grade.reference)
        provisional = limit.provisional or bool(reference and reference.note == "provisional")
        reason = f"{seen.metric} {grade.reason}" if grade.reason else ""
        if fact.note and grade.verdict is not Verdict.PASS:
            reason = f"{reason} — {fact.note}"
        return Row(
            seen.subject.where,
            seen.subject.node,
            seen.metric,
            grade.verdict,
            reason,
            fact.value,
            reference=grade.reference,
            evidence=fact.evidence,
            at=seen.at,
            caps_at_gold=grade.caps_at_gold,
            provisional=provisional and grade.verdict is not Verdict.ERROR,
            note=fact.note if fact.spread is not None else "",
            spread=fact.spread,
        )

    def _unread(self, seen: Observation, fact: Unread) -> Row:
        reason = f"{seen.metric} {fact.kind.replace('_', ' ')}: {fact.why}"
        if fact.kind == "unsupported":
            product = self._bench.accelerator(seen.subject.models)
            if not isinstance(product, Unread) and product.lacks_metric(self._check.id, seen.metric):
                why = f"N/A, and {product.name} has none ([accelerator.{product.name}] lacks)"
                return _row(seen, Verdict.SKIP, why)
            reason = f"{seen.metric} is N/A, and this product is not known to lack it: {fact.why}"
        return _row(seen, ABSENT[fact.kind], reason)

    def _reference(
        self, seen: Observation, limit: Limit, peers: _Peers
    ) -> tuple[Fact[Scalar] | None, Grade | None]:
        """Resolve what a limit refers to; a grade instead where that alone decides."""
        if limit.same:
            return peers.majority
        if limit.unique_to:
            return Read(self._others(seen, limit)), None
        if limit.of is None:
            return None, None
        return self._resolve(seen, limit.of, limit.otherwise, peers)

    def _resolve(
        self, seen: Observation, of: Reference, otherwise: Reference | None, peers: _Peers
    ) -> tuple[Fact[Scalar] | None, Grade | None]:
        """Resolve one reference; ``otherwise`` stands in where the contract says nothing."""
        root, name = of.root, of.name
        if root == "run":
            return Read(self._bench.site.day.isoformat()), None
        if root == "pool":
            return peers.median
        if root == "contract":
            pool = self._bench.site.pool_of(seen.subject.node)
            declared = pool.contracted_value(name) if pool else None
            if declared is None and otherwise is not None:
                return self._resolve(seen, otherwise, None, peers)
            if declared is None:
                return None, Grade(Verdict.SKIP, f"is not compared: contract.{name} is undeclared")
            return Read(declared), None
        if root == "subject":
            return as_fact(getattr(seen.subject, name, None)), None
        return self._figure(seen.subject, name), None

    def _others(self, seen: Observation, limit: Limit) -> str:
        """Name those that have the same value and must not: other subjects, or those of other nodes."""
        value = seen.value.value if isinstance(seen.value, Read) else None
        subject = seen.subject
        holders = self._holders[seen.metric, value]
        if limit.unique_to == "node":
            return first_of([where for where, node in holders.items() if node != subject.node])
        return first_of([where for where in holders if where != subject.where])

    def _figure(self, subject: Subject, name: str) -> Fact[Scalar]:
        product = self._bench.accelerator(subject.models)
        if isinstance(product, Unread):
            return product
        figure = product.figures.get(name)
        if figure is None:
            return Unread("not_found", f"[accelerator.{product.name}] has no {name}")
        return Read(figure.value, note="provisional" if figure.provisional else "")

    def _waive(self, row: Row) -> Row:
        """Soften a fail that was agreed to; where the profile decides what is required, nobody can agree."""
        if row.verdict is not Verdict.FAIL or self._bench.required:
            return row
        waiver = self._bench.site.waiver_for(self._check.id, row.where)
        if waiver is None:
            past = self._bench.site.expired_waiver_for(self._check.id, row.where)
            expired = f" (its waiver expired on {past.until}: {past.reason})" if past else ""
            return replace(row, reason=row.reason + expired)
        return replace(
            row,
            verdict=Verdict.WARN,
            caps_at_gold=True,
            waived=waiver,
            reason=f"{row.reason} (waived until {waiver.until}: {waiver.reason})",
        )


def _compares(limit: Limit) -> bool:
    return limit.same or (limit.of is not None and limit.of.root == "pool")


def _row(seen: Observation, verdict: Verdict | None, reason: str) -> Row:
    value = seen.value.value if isinstance(seen.value, Read) else None
    subject, evidence = seen.subject, seen.value.evidence
    return Row(
        subject.where, subject.node, seen.metric, verdict, reason, value, evidence=evidence, at=seen.at
    )


def _is_finite(value: Scalar) -> bool:
    try:
        return isinstance(value, str) or math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


def _number(value: Scalar) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


class _Peers:
    """The values that one may be compared with; what they come to is the same for each of them."""

    def __init__(self, values: Collection[Scalar]) -> None:
        self._values = values

    @cached_property
    def majority(self) -> tuple[Read[Scalar] | None, Grade | None]:
        """The value that more than half have, or why there is none."""
        if len(self._values) <= 1:
            return None, Grade(Verdict.SKIP, "is not compared: it is the only one of its pool")
        # 1, 1.0 and True are equal to Python and different to us.
        groups = Counter((type(value).__name__, value) for value in self._values)
        falling = sorted(groups.items(), key=lambda group: (-group[1], str(group[0])))
        (_, value), count = falling[0]
        if 2 * count > len(self._values):
            return Read(value), None
        named = ", ".join(f"{value} ({count})" for (_, value), count in falling[:_NAMED])
        return None, Grade(Verdict.FAIL, f"differs across the pool, and no value has a majority: {named}")

    def outside(self, value: Scalar, beyond: float) -> bool:
        """Tell whether a number lies that many robust deviations away from the median of these."""
        numbers, number = self._numbers, _number(value)
        if len(numbers) < robust.LEAST or number is None:
            return False
        return abs(number - statistics.median(numbers)) > beyond * self._deviation

    @cached_property
    def _deviation(self) -> float:
        return robust.deviation(self._numbers)

    @cached_property
    def _numbers(self) -> list[float]:
        return [number for number in map(_number, self._values) if number is not None]

    @cached_property
    def median(self) -> tuple[Read[Scalar] | None, Grade | None]:
        """The median of the numbers among them, or why there is none."""
        numbers = self._numbers
        if len(numbers) < robust.LEAST:
            return None, Grade(
                Verdict.SKIP, f"is not compared: a median needs {robust.LEAST}, its pool has {len(numbers)}"
            )
        return Read(statistics.median(numbers)), None
