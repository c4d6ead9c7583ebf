"""Settle one check: grade what was observed, add a row for whatever was not, and join the rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.grading import ABSENT, Grading, Row
from gpuassay.judge.needs import EARLIER
from gpuassay.judge.services import SCHEDULERS, SERVICES
from gpuassay.judge.verdict import Verdict, worst

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from gpuassay.judge.bench import Bench
    from gpuassay.judge.catalog import Check
    from gpuassay.judge.fact import NodeSight
    from gpuassay.judge.observe import Observation

# Domains that do not belong to single nodes: nothing is counted as missing on one.
_SHARED = frozenset({"cluster", "class", "volume", "pair"})
_OF_CLUSTER = {*SERVICES, *SCHEDULERS}
# Why a node was not judged, the gravest last: None is "not run".
_DOUBTS = (None, Verdict.UNSEEN, Verdict.ERROR)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A settled check: its verdict (None: not run) and the rows that it rests on.

    For a component fault, ``sick`` are the nodes with failing rows, and ``doubtful`` those that were
    not judged, with the reason's verdict. ``cells`` are the observations expected and judged,
    ``subjects_judged`` the places that were really judged, and ``warned`` says that one of them warns,
    also where the verdict is a graver one.
    """

    verdict: Verdict | None
    reason: str
    rows: tuple[Row, ...] = ()
    applicable: bool = True
    cells_expected: int = 0
    cells_judged: int = 0
    caps_at_gold: bool = False
    warned: bool = False
    sick: tuple[str, ...] = ()
    doubtful: Mapping[str, Verdict | None] = field(default_factory=dict)
    subjects_judged: frozenset[str] = frozenset()


def settle(bench: Bench, check: Check, observations: Iterable[Observation]) -> CheckResult:
    """Judge a check by all that it observed. Pure: the same facts give the same result."""
    return _Settling(bench, check).result(observations)


def applies_to(bench: Bench, check: Check) -> frozenset[str]:
    """Name the nodes that a check is surely about, silent ones too."""
    if check.profiles and bench.profile not in check.profiles:
        return frozenset()
    return frozenset(node.name for node in bench.nodes if bench.needs.of(node, check.needs).applies)


class _Settling:
    """The settling of one check."""

    def __init__(self, bench: Bench, check: Check) -> None:
        self.bench = bench
        self.check = check
        self.limits = bench.site.effective(check.id)
        self.standing = {node.name: bench.needs.of(node, check.needs) for node in bench.nodes}
        self.applying = [node for node in bench.nodes if self.standing[node.name].applies]

    def result(self, observations: Iterable[Observation]) -> CheckResult:
        asking = self.check.profiles
        if asking and self.bench.profile not in asking:
            return CheckResult(
                Verdict.SKIP, f"asked for by profile {', '.join(asking)} only", applicable=False
            )
        seen = list(observations)
        places = {node.name for node in self.applying if node.silence is None}
        known = set(self.standing)
        if self.check.over in _SHARED:
            known.add("")
            places |= {""} if self.applying else set()
        graded = Grading(self.bench, self.check).rows([one for one in seen if one.subject.node in places])
        strangers = [_stranger(one) for one in seen if one.subject.node not in known]
        missing = [*strangers, *self._untold(), *self._new(), *self._silent(), *self._missing(graded)]
        if not self.applying and not missing:
            excused = self._not_applicable()
            return replace(excused, rows=(*excused.rows, *self._shown(seen)))
        return self._join([*graded, *missing])

    def _shown(self, seen: Iterable[Observation]) -> Iterator[Row]:
        """Give rows of what was measured where the check does not apply: to be seen, not to be judged."""
        none = next((standing.reason for standing in self.standing.values()), "")
        for one in seen if self.check.phase != "audit" else ():
            standing = self.standing.get(one.subject.node)  # none of its own has what is no node's
            reason = f"shown, not judged: {standing.reason if standing else none}"
            value = one.value.value if isinstance(one.value, Read) else None
            note = one.value.note if isinstance(one.value, Read) else one.value.why
            yield Row(
                one.subject.where,
                one.subject.node,
                one.metric,
                Verdict.SKIP,
                f"{one.metric}: {note or 'measured'}; {reason}",
                value,
                evidence=one.value.evidence,
                at=one.at,
            )

    # --- what was not observed -------------------------------------------------------------------

    def _untold(self) -> list[Row]:
        """Give a row for each node of which it cannot be told whether the check applies."""
        return [
            self._blank(node, unread, self.standing[node.name].reason)
            for node in self.bench.nodes
            if (unread := self.standing[node.name].unread) is not None
        ]

    def _new(self) -> list[Row]:
        """Give a row for each node without a past beside nodes that have one: it is told of."""
        found = {name: standing for name, standing in self.standing.items() if standing.lacks == EARLIER}
        rows = [Row(name, name, "", Verdict.SKIP, one.reason, cells=0) for name, one in found.items()]
        return rows if self.applying else []

    def _silent(self) -> list[Row]:
        if self.check.over in _SHARED and self.check.needs and set(self.check.needs) <= _OF_CLUSTER:
            return []  # what a service or a scheduler says does not depend on the nodes
        return [
            self._blank(node, node.silence, f"silent: {node.silence.why}")
            for node in self.applying
            if node.silence is not None
        ]

    def _blank(self, node: NodeSight, unread: Unread, reason: str) -> Row:
        """Give a row that stands for all that a node would have shown."""
        cells = self._expected(node)[0] * len(self.limits)
        verdict = ABSENT[unread.kind]
        return Row(node.name, node.name, "", verdict, reason, evidence=unread.evidence, cells=cells)

    def _missing(self, graded: Sequence[Row]) -> list[Row]:
        if self.check.over in _SHARED:
            observed = {row.metric for row in graded}
            lacking = [metric for metric in self.limits if self.applying and metric not in observed]
            return [Row("", "", one, Verdict.ERROR, f"{one} was not observed") for one in lacking]
        places: dict[tuple[str, str], set[str]] = defaultdict(set)
        for row in graded:
            places[row.node, row.metric].add(row.where)
        rows = []
        for node in self.applying:
            if node.silence is not None:
                continue
            expected, shown, unread = self._expected(node)
            lacking = [metric for metric in self.limits if len(places[node.name, metric]) < expected]
            for metric in lacking:
                seen = len(places[node.name, metric])
                # A mute witness is no excuse for what another one has shown.
                mute = unread if seen >= shown else None
                rows.append(self._lacking(node, metric, seen, expected, mute))
            if unread is not None and not lacking and self._declared(node) is None:
                why = f"how many {self.check.over}s it has could not be told: {unread.why}"
                rows.append(Row(node.name, node.name, "", ABSENT[unread.kind], why, evidence=unread.evidence))
        return rows

    def _lacking(self, node: NodeSight, metric: str, seen: int, expected: int, unread: Unread | None) -> Row:
        """Say that subjects were not observed; the reason is the witness's, if one did not speak."""
        why = f"{metric}: {seen} of {expected} {self.check.over}s observed"
        cells = expected - seen
        if unread is None:
            return Row(node.name, node.name, metric, Verdict.ERROR, why, cells=cells)
        verdict, why = ABSENT[unread.kind], f"{why}: {unread.why}"
        return Row(node.name, node.name, metric, verdict, why, evidence=unread.evidence, cells=cells)

    def _declared(self, node: NodeSight) -> int | None:
        pool = self.bench.site.pool_of(node.name)
        return pool.declared_count(self.check.over) if pool else None

    def _expected(self, node: NodeSight) -> tuple[int, int, Unread | None]:
        """Count what must have been seen (the most of what is declared and shown) and what is shown.

        A witness that is mute is named.
        """
        if self.check.over == "node":
            return 1, 1, None
        sightings = node.sightings(self.check.over, self.check.needs).values()
        seen = [fact.value for fact in sightings if isinstance(fact, Read)]
        unread = next((fact for fact in sightings if isinstance(fact, Unread)), None)
        return max(1, self._declared(node) or 0, *seen), max(seen, default=0), unread

    # --- the verdict -----------------------------------------------------------------------------

    def _not_applicable(self) -> CheckResult:
        for need in self.check.needs:
            if need in self.bench.required and not self.bench.needs.anywhere(need):
                reason = f"the {self.bench.profile} profile requires {need}, and no node has it"
                return CheckResult(Verdict.FAIL, reason, (Row("", "", "", Verdict.FAIL, reason),))
        if not self.standing:
            out = self.bench.site.out_nodes
            why = f": all {len(out)} are out of service" if out else ""
            return CheckResult(Verdict.ERROR, f"there is no node to judge{why}")
        grounds = Counter(standing.reason for standing in self.standing.values())
        reason = "; ".join(
            f"{ground} ({count} nodes)" if count > 1 else ground for ground, count in grounds.items()
        )
        return CheckResult(Verdict.SKIP, reason, applicable=False)

    def _join(self, rows: Sequence[Row]) -> CheckResult:
        binding = [row for row in rows if not row.provisional]
        verdict, reason = _verdict(rows, binding)
        sick, doubtful = self._component(binding)
        short = self._shortfall(sick)
        if sick and short is None:
            binding = [_softened(row, sick) for row in binding]
            verdict, why = _verdict(rows, binding)
            spared = f"{reason}; enough healthy nodes are left for the contract: return the sick ones"
            reason = spared if verdict is Verdict.WARN else f"{why}; and {spared}"
        else:
            reason += short or ""
        judged = [
            row for row in rows if row.metric and row.verdict in (Verdict.PASS, Verdict.WARN, Verdict.FAIL)
        ]
        return CheckResult(
            verdict,
            reason,
            tuple(rows),
            cells_expected=sum(row.cells for row in rows if row.verdict is not Verdict.SKIP),
            cells_judged=len(judged),
            caps_at_gold=any(row.caps_at_gold for row in binding),
            warned=any(row.verdict is Verdict.WARN for row in binding),
            sick=tuple(sick),
            doubtful=doubtful,
            subjects_judged=frozenset(row.where for row in judged),
        )

    def _component(self, rows: Sequence[Row]) -> tuple[dict[str, None], dict[str, Verdict | None]]:
        """Name the nodes that a component fault makes sick, and those of which it cannot be told."""
        if self.check.fault != "component":
            return {}, {}
        sick = dict.fromkeys(row.node for row in rows if row.verdict is Verdict.FAIL and row.node)
        doubtful: dict[str, Verdict | None] = {}
        for row in rows:
            if row.node and row.node not in sick and row.verdict in _DOUBTS:
                doubtful[row.node] = max(row.verdict, doubtful.get(row.node), key=_DOUBTS.index)
        return sick, doubtful

    def _shortfall(self, sick: Collection[str]) -> str | None:
        """Say how far a pool with sick nodes is below its contract; None while all contracts are honoured.

        A broken part only warns while enough healthy nodes are left; without a contract, each one fails.
        """
        pools = {node: self.bench.site.pool_of(node) for node in sick}
        for pool in {pool.name if pool else "": pool for pool in pools.values()}.values():
            if pool is None or pool.contracted is None:
                return ""
            healthy = sum(node.name in pool.nodes and node.name not in pools for node in self.bench.nodes)
            if healthy < pool.contracted:
                return f"; {healthy} healthy nodes left of {pool.contracted} contracted"
        return None


def _softened(row: Row, sick: Collection[str]) -> Row:
    return replace(row, verdict=Verdict.WARN) if row.verdict is Verdict.FAIL and row.node in sick else row


def _stranger(seen: Observation) -> Row:
    subject = seen.subject
    reason = f"{seen.metric} was observed on {subject.node or 'the cluster'}, which is no node in service"
    return Row(subject.where, "", seen.metric, Verdict.ERROR, reason, at=seen.at)


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
        blind = len({row.where for row in binding if row.verdict in _DOUBTS})
        reason += f"; not judged on {blind}" if blind else ""
    return verdict, reason
