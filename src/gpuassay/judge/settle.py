"""Settle one check: grade what was observed, and add a row for whatever was not."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.limits import Grade
from gpuassay.judge.verdict import Verdict, worst

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpuassay.judge.catalog import Accelerator, Catalog, Check
    from gpuassay.judge.fact import Absence, Fact, NodeSight, Scalar, Subject
    from gpuassay.judge.limits import Limit
    from gpuassay.judge.needs import Needs
    from gpuassay.judge.observe import Observation
    from gpuassay.judge.site import Site, Waiver

# What an unread value means for a verdict. `None` is "not run"; `unsupported` depends on the product.
_ABSENT: Mapping[Absence, Verdict | None] = {
    "not_asked": None,
    "denied": Verdict.UNSEEN,
    "not_found": Verdict.ERROR,
    "timed_out": Verdict.ERROR,
    "failed": Verdict.ERROR,
    "garbled": Verdict.ERROR,
    "unsupported": Verdict.ERROR,
}
# Domains that do not belong to single nodes: nothing is counted as missing on one.
_SHARED = frozenset({"cluster", "class", "volume", "pair"})
_MEDIAN_OF = 4  # docs/decisions.md: fewer values have no meaningful median


@dataclass(frozen=True, slots=True)
class Row:
    """One graded observation, or one that is missing. ``verdict`` None is "not run"."""

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
    waived: str = ""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A settled check: its verdict (None: not run) and the rows that it rests on.

    For a component fault, ``sick`` are the nodes with failing rows, and ``doubtful`` those that were
    not judged, with the reason's verdict. ``cells`` are the observations expected and judged, and
    ``subjects_judged`` the places that were really judged.
    """

    verdict: Verdict | None
    reason: str
    rows: tuple[Row, ...] = ()
    applicable: bool = True
    cells_expected: int = 0
    cells_judged: int = 0
    caps_at_gold: bool = False
    sick: tuple[str, ...] = ()
    doubtful: Mapping[str, Verdict] = field(default_factory=dict)
    subjects_judged: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Bench:
    """What all checks of a run are judged by: the tables, the site, the nodes in service, the profile."""

    catalog: Catalog
    site: Site
    nodes: Sequence[NodeSight]
    needs: Needs
    profile: str = "acceptance"
    _accelerators: dict[tuple[str, ...], Accelerator | Unread] = field(default_factory=dict)

    @cached_property
    def required(self) -> tuple[str, ...]:
        """What the profile demands of every cluster, whatever its site file says."""
        profile = self.catalog.profiles.get(self.profile)
        return profile.requires if profile else ()

    def accelerator(self, models: tuple[str, ...]) -> Accelerator | Unread:
        """Find the product table of a subject; an unknown or contradictory product is Unread."""
        if models not in self._accelerators:
            try:
                found = self.catalog.accelerator_of(models)
            except LookupError as error:
                self._accelerators[models] = Unread("garbled", str(error))
            else:
                name = " / ".join(models) or "no product name read"
                self._accelerators[models] = found or Unread(
                    "garbled", f"unknown product {name}: no [accelerator] table matches"
                )
        return self._accelerators[models]

    def settle(self, check: Check, observations: Iterable[Observation]) -> CheckResult:
        """Judge a check by all that it observed. Pure: the same facts give the same result."""
        return _Settling(self, check).result(observations)


class _Settling:
    """The settling of one check."""

    def __init__(self, bench: Bench, check: Check) -> None:
        self.bench = bench
        self.check = check
        self.limits = bench.site.effective(check.id)
        self.standing = {node.name: bench.needs.of(node, check.needs) for node in bench.nodes}
        self.applying = [node for node in bench.nodes if self.standing[node.name].applies]

    def result(self, observations: Iterable[Observation]) -> CheckResult:
        here = {node.name for node in self.applying if node.silence is None} | {""}
        kept = [seen for seen in observations if seen.subject.node in here]
        graded = [self._waive(row) for row in self._grade_all(kept)]
        missing = [*self._untold(), *self._silent(), *self._missing(graded)]
        if not self.applying and not missing and not any(row.node == "" for row in graded):
            return self._not_applicable()
        return self._join([*graded, *missing])

    # --- grading ---------------------------------------------------------------------------------

    def _grade_all(self, kept: Sequence[Observation]) -> list[Row]:
        values: dict[tuple[object, ...], list[Scalar]] = defaultdict(list)
        compared = {metric for metric, limit in self.limits.items() if _compares(limit)}
        for seen in kept:
            if isinstance(seen.value, Read) and seen.metric in compared:
                values[self._like(seen)].append(seen.value.value)
        return [
            self._grade(seen, values[self._like(seen)] if seen.metric in compared else ()) for seen in kept
        ]

    def _like(self, seen: Observation) -> tuple[object, ...]:
        """Key of what a value is compared with: its pool was bought as alike; else its product is."""
        pool = self.bench.site.pool_of(seen.subject.node)
        return (pool.name if pool else seen.subject.models, seen.metric, seen.at)

    def _grade(self, seen: Observation, peers: Sequence[Scalar]) -> Row:
        limit = self.limits.get(seen.metric)
        fact = seen.value
        if limit is None:
            return self._row(seen, Verdict.ERROR, f"{self.check.id} has no limit for {seen.metric}")
        if isinstance(fact, Unread):
            return replace(self._unread(seen, fact), provisional=limit.provisional)
        if self.check.over == "gpu":
            product = self.bench.accelerator(seen.subject.models)
            if isinstance(product, Unread):
                return self._row(seen, Verdict.ERROR, product.why, fact)
        reference, grade = self._reference(seen, limit, peers)
        grade = grade or limit.grade(fact.value, reference.value if reference else None)
        reason = f"{seen.metric} {grade.reason}"
        if fact.note and grade.verdict is not Verdict.PASS:
            reason = f"{reason} — {fact.note}"
        return replace(
            self._row(seen, grade.verdict, reason, fact),
            reference=grade.reference,
            caps_at_gold=grade.caps_at_gold,
            provisional=limit.provisional or bool(reference and reference.note == "provisional"),
        )

    def _row(
        self, seen: Observation, verdict: Verdict | None, reason: str, fact: Fact[Scalar] | None = None
    ) -> Row:
        fact = fact or seen.value
        value = fact.value if isinstance(fact, Read) else None
        subject = seen.subject
        return Row(
            subject.where,
            subject.node,
            seen.metric,
            verdict,
            reason,
            value,
            evidence=fact.evidence,
            at=seen.at,
        )

    def _unread(self, seen: Observation, fact: Unread) -> Row:
        verdict = _ABSENT[fact.kind]
        reason = f"{seen.metric} {fact.kind.replace('_', ' ')}: {fact.why}"
        if fact.kind == "unsupported":
            product = self.bench.accelerator(seen.subject.models)
            if not isinstance(product, Unread) and product.lacks_metric(self.check.id, seen.metric):
                return self._row(
                    seen, Verdict.SKIP, f"{product.name} has none ([accelerator.{product.name}] lacks)"
                )
            reason = f"{seen.metric} is N/A, and this product is not known to lack it: {fact.why}"
        return self._row(seen, verdict, reason)

    def _reference(
        self, seen: Observation, limit: Limit, peers: Sequence[Scalar]
    ) -> tuple[Read[Scalar] | None, Grade | None]:
        """Resolve what a limit refers to; a grade instead where that alone decides."""
        if limit.same:
            return _majority(peers)
        if limit.of is None:
            return None, None
        root, name = limit.of.root, limit.of.name
        if root == "pool":
            return _median(peers)
        if root == "contract":
            pool = self.bench.site.pool_of(seen.subject.node)
            declared = pool.contracted_value(name) if pool else None
            if declared is None:
                return None, Grade(Verdict.SKIP, f"is not compared: contract.{name} is undeclared")
            return Read(declared), None
        fact = self._figure(seen.subject, name) if root == "accelerator" else getattr(seen.subject, name)
        if isinstance(fact, Unread):
            verdict = Verdict.UNSEEN if fact.kind == "denied" else Verdict.ERROR
            return None, Grade(verdict, f"cannot be compared with {root}.{name}: {fact.why}")
        return fact, None

    def _figure(self, subject: Subject, name: str) -> Fact[Scalar]:
        product = self.bench.accelerator(subject.models)
        if isinstance(product, Unread):
            return product
        figure = product.figures.get(name)
        if figure is None:
            return Unread("not_found", f"[accelerator.{product.name}] has no {name}")
        return Read(figure.value, note="provisional" if figure.provisional else "")

    def _waive(self, row: Row) -> Row:
        waiver = self.bench.site.waiver_for(self.check.id, row.where) if row.verdict is Verdict.FAIL else None
        if waiver is None or self.bench.required:
            return row
        return replace(
            row,
            verdict=Verdict.WARN,
            caps_at_gold=True,
            waived=waiver.reason,
            reason=f"{row.reason} (waived until {waiver.until}: {waiver.reason})",
        )

    # --- what was not observed -------------------------------------------------------------------

    def _untold(self) -> list[Row]:
        rows = []
        for name, standing in self.standing.items():
            if standing.unread is not None:
                verdict = _ABSENT[standing.unread.kind]
                rows.append(Row(name, name, "", verdict, standing.reason, evidence=standing.unread.evidence))
        return rows

    def _silent(self) -> list[Row]:
        return [
            Row(node.name, node.name, "", _ABSENT[node.silence.kind], f"silent: {node.silence.why}")
            for node in self.applying
            if node.silence is not None
        ]

    def _missing(self, graded: Sequence[Row]) -> list[Row]:
        if self.check.over in _SHARED:
            return []
        places: dict[tuple[str, str], set[str]] = defaultdict(set)
        for row in graded:
            places[row.node, row.metric].add(row.where)
        rows = []
        for node in self.applying:
            if node.silence is not None:
                continue
            expected, unknown = self._expected(node)
            if unknown is not None:
                why = f"how many {self.check.over}s it has could not be told: {unknown.why}"
                rows.append(
                    Row(node.name, node.name, "", _ABSENT[unknown.kind], why, evidence=unknown.evidence)
                )
            for metric in self.limits:
                seen = len(places[node.name, metric])
                if seen < expected:
                    why = f"{metric}: {seen} of {expected} {self.check.over}s observed"
                    rows.append(Row(node.name, node.name, metric, Verdict.ERROR, why))
        return rows

    def _expected(self, node: NodeSight) -> tuple[int, Unread | None]:
        """Count what must have been seen: the most of what is declared and what any witness shows."""
        if self.check.over == "node":
            return 1, None
        pool = self.bench.site.pool_of(node.name)
        declared = pool.declared_count(self.check.over) if pool else None
        sightings = node.sightings(self.check.over, self.check.needs)
        seen = [fact.value for fact in sightings.values() if isinstance(fact, Read)]
        unread = next((fact for fact in sightings.values() if isinstance(fact, Unread)), None)
        # One witness that cannot be read leaves the count open, unless the contract says it.
        return max(1, declared or 0, *seen), None if declared is not None else unread

    # --- the verdict -----------------------------------------------------------------------------

    def _not_applicable(self) -> CheckResult:
        for need in self.check.needs:
            if need in self.bench.required and not self.bench.needs.anywhere(need):
                reason = f"the {self.bench.profile} profile requires {need}, and no node has it"
                return CheckResult(Verdict.FAIL, reason, (Row("", "", "", Verdict.FAIL, reason),))
        if not self.standing:
            return CheckResult(Verdict.ERROR, "there is no node to judge")
        grounds = Counter(standing.reason for standing in self.standing.values())
        reason = "; ".join(
            f"{ground} ({count} nodes)" if count > 1 else ground for ground, count in grounds.items()
        )
        return CheckResult(Verdict.SKIP, reason, applicable=False)

    def _join(self, rows: Sequence[Row]) -> CheckResult:
        binding = [row for row in rows if not row.provisional]
        verdict, reason = _verdict(rows, binding)
        sick, doubtful = self._component(binding)
        if verdict is Verdict.FAIL and sick:
            verdict, reason = self._spared(sick, binding, reason)
        per_node = len(self.limits)
        absent = sum(per_node for row in rows if row.metric == "")
        judged = [
            row for row in rows if row.verdict in (Verdict.PASS, Verdict.WARN, Verdict.FAIL) and row.metric
        ]
        return CheckResult(
            verdict,
            reason,
            tuple(rows),
            cells_expected=sum(1 for row in rows if row.metric and row.verdict is not Verdict.SKIP) + absent,
            cells_judged=len(judged),
            caps_at_gold=any(row.caps_at_gold for row in binding),
            sick=sick,
            doubtful=doubtful,
            subjects_judged=frozenset(row.where for row in judged),
        )

    def _component(self, rows: Sequence[Row]) -> tuple[tuple[str, ...], dict[str, Verdict]]:
        """Name the nodes that a component fault makes sick, and those of which it cannot be told."""
        if self.check.fault != "component":
            return (), {}
        sick = dict.fromkeys(row.node for row in rows if row.verdict is Verdict.FAIL and row.node)
        doubtful: dict[str, Verdict] = {}
        for row in rows:
            if row.verdict in (Verdict.UNSEEN, Verdict.ERROR) and row.node not in sick:
                doubtful[row.node] = max(row.verdict, doubtful.get(row.node, Verdict.UNSEEN))
        return tuple(sick), doubtful

    def _spared(self, sick: Sequence[str], rows: Sequence[Row], reason: str) -> tuple[Verdict, str]:
        """Let a broken part only warn while enough healthy nodes are left for the contract of every pool."""
        pools = {node: self.bench.site.pool_of(node) for node in sick}
        in_service = [node.name for node in self.bench.nodes]
        for pool in pools.values():
            if pool is None or pool.contracted is None:
                return Verdict.FAIL, reason
            healthy = [name for name in in_service if name in pool.nodes and name not in pools]
            if len(healthy) < pool.contracted:
                return (
                    Verdict.FAIL,
                    f"{reason}; {len(healthy)} healthy nodes left of {pool.contracted} contracted",
                )
        others = [row.verdict for row in rows if row.verdict not in (None, Verdict.FAIL)]
        return (
            worst([Verdict.WARN, *(verdict for verdict in others if verdict is not None)]),
            f"{reason}; enough healthy nodes are left for the contract: return the sick ones",
        )


def unused_waivers(site: Site, results: Mapping[str, CheckResult]) -> list[Waiver]:
    """List the waivers in force that matched no failing row."""
    used = {(check, row.waived) for check, result in results.items() for row in result.rows if row.waived}
    return [waiver for waiver in site.waivers if (waiver.check, waiver.reason) not in used]


def _compares(limit: Limit) -> bool:
    return limit.same or (limit.of is not None and limit.of.root == "pool")


def _majority(peers: Sequence[Scalar]) -> tuple[Read[Scalar] | None, Grade | None]:
    if len(peers) == 1:
        return None, Grade(Verdict.SKIP, "is not compared: it is the only one of its pool")
    # 1, 1.0 and True are equal to Python and different to us.
    groups = Counter((type(value).__name__, value) for value in peers)
    (_, value), count = groups.most_common(1)[0]
    if 2 * count > len(peers):
        return Read(value), None
    named = ", ".join(f"{value} ({count})" for (_, value), count in groups.most_common(5))
    return None, Grade(Verdict.FAIL, f"differs across the pool, and no value has a majority: {named}")


def _median(peers: Sequence[Scalar]) -> tuple[Read[Scalar] | None, Grade | None]:
    numbers = [value for value in peers if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if len(numbers) < _MEDIAN_OF:
        return None, Grade(
            Verdict.SKIP, f"is not compared: a median needs {_MEDIAN_OF}, its pool has {len(numbers)}"
        )
    return Read(statistics.median(numbers)), None


def _verdict(rows: Sequence[Row], binding: Sequence[Row]) -> tuple[Verdict | None, str]:
    """Join rows; a row that was not run lets nothing below `unseen` stand."""
    if not rows:
        return Verdict.ERROR, "the check observed nothing"
    if not binding:
        return Verdict.SKIP, "every limit of this check is provisional: judged and shown, not counted"
    judged = [row.verdict for row in binding if row.verdict is not None]
    verdict: Verdict | None = worst(judged)
    if not judged or (len(judged) < len(binding) and worst(judged) < Verdict.UNSEEN):
        verdict = None
    first = next(row for row in binding if row.verdict is verdict)
    counts = Counter(row.verdict for row in binding)
    alike = len({row.where for row in binding if row.verdict is verdict})
    if verdict is Verdict.PASS:
        return verdict, f"{counts[verdict]} observations"
    reason = f"{first.where or 'cluster'}: {first.reason}"
    if alike > 1:
        reason += f" (and {alike - 1} more)"
    if verdict is Verdict.FAIL:
        blind = len({row.where for row in binding if row.verdict in (None, Verdict.UNSEEN, Verdict.ERROR)})
        reason += f"; not judged on {blind}" if blind else ""
    return verdict, reason
