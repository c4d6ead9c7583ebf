"""Findings that one cause makes, told once: a silent node keeps eighty checks from being judged."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from gpuassay.report import view, words
from gpuassay.report.fold import fold
from gpuassay.report.places import nodes

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from gpuassay.report.view import Check, Results, Row

Named: TypeAlias = "tuple[str, Check]"

_APART = frozenset({"cluster", "class", "volume", "pair"})  # their places are no nodes
_UNJUDGED = frozenset({"error", "unseen"})


@dataclass(frozen=True, slots=True)
class Finding:
    """One check that is not in order, and the others that most likely speak of the same thing."""

    id: str
    check: Check
    others: Sequence[Named]

    @property
    def all(self) -> Sequence[Named]:
        """All of them, the first at the head."""
        return [(self.id, self.check), *self.others]

    @property
    def unjudged(self) -> bool:
        """Whether these checks were kept from being judged: by one cause, in the same words."""
        return self.check["verdict"] in _UNJUDGED


def findings(results: Results, verdicts: Iterable[str] = words.FINDINGS) -> list[Finding]:
    """List what is not in order, each cause once, in the order of the first check that tells of it."""
    groups: dict[Hashable, list[Named]] = defaultdict(list)
    for check_id, check in view.with_verdict(results, verdicts):
        groups[_cause(check_id, check)].append((check_id, check))
    return [_finding(alike) for alike in groups.values()]


def _finding(alike: list[Named]) -> Finding:
    """Lead with the check that names a part and not only its node: it is nearest to the cause."""
    lead = alike[0]
    if lead[1]["verdict"] not in _UNJUDGED:
        lead = next((one for one in alike if _names_a_part(one[1])), lead)
    return Finding(*lead, [one for one in alike if one is not lead])


def _names_a_part(check: Check) -> bool:
    return any("/" in row["where"] for row in view.offenders(check))


def _cause(check_id: str, check: Check) -> Hashable:
    """Give what checks of one cause have in common; a check that shares with none has its own name."""
    rows = view.offenders(check)
    if not rows:
        return check_id
    if all(row["verdict"] in _UNJUDGED for row in rows):
        said = frozenset((_places(check, row), view.cause(row)) for row in rows)
        seat = check["seat"] if check["verdict"] == "unseen" else ""
        return check["verdict"], seat, said
    evidence = frozenset(row["evidence"] for row in rows)
    if check["fault"] != "component" or not all(evidence):
        return check_id
    return check["verdict"], evidence, fold(node for row in rows for node in nodes(row["where"]))


def _places(check: Check, row: Row) -> str:
    """Give the place of what was not judged: its nodes, for a check over nodes and what is in them."""
    return row["where"] if check["over"] in _APART else fold(nodes(row["where"]))
