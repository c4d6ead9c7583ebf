"""How much of what was declared was really seen: honest counts beside every tier."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from gpuassay.judge.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

JUDGED = frozenset({Verdict.PASS, Verdict.WARN, Verdict.FAIL})


@dataclass(frozen=True, slots=True)
class CheckCoverage:
    """What one check covered; ``verdict`` None is not run."""

    verdict: Verdict | None
    applicable: bool = True
    cells_expected: int = 0
    cells_judged: int = 0


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes declared (or, without a declaration, found), those that answered, those out of service."""

    declared: int
    answered: int
    out: int


@dataclass(frozen=True, slots=True)
class Checks:
    """Checks that the tables expect, that apply here, that were judged, and that were not run."""

    expected: int
    applicable: int
    judged: int
    not_run: int


@dataclass(frozen=True, slots=True)
class Cells:
    """Single values: expected from all that applies, and judged. A check that was not run has none."""

    expected: int
    judged: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """Coverage of a run."""

    nodes: Nodes
    checks: Checks
    cells: Cells

    def document(self) -> dict[str, dict[str, int]]:
        """Give it as ``results.json`` has it."""
        return asdict(self)


def cover(nodes: Nodes, checks: Iterable[CheckCoverage]) -> Coverage:
    """Add up what each expected check covered."""
    every = list(checks)
    return Coverage(
        nodes,
        Checks(
            expected=len(every),
            applicable=sum(check.applicable for check in every),
            judged=sum(check.verdict in JUDGED for check in every),
            not_run=sum(check.verdict is None for check in every),
        ),
        Cells(sum(check.cells_expected for check in every), sum(check.cells_judged for check in every)),
    )
