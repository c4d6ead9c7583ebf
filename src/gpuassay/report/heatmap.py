"""Node by check, on one page: nodes on which every check came out alike share a column."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

from gpuassay.judge.names import natural
from gpuassay.report import words
from gpuassay.report.fold import fold
from gpuassay.report.places import nodes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.report.view import Check, Results

MOST_COLUMNS = 24
"""More columns than this are no picture any more: all but the worst and the largest share one."""

# Domains whose places are no nodes: they are judged once, and shown in the column of the whole check.
_SHARED = frozenset({"cluster", "class", "volume", "pair"})

Vector: TypeAlias = "tuple[str, ...]"


@dataclass(frozen=True, slots=True)
class Column:
    """Nodes with the same verdicts, folded; ``mixed`` where the last column joins what is left."""

    nodes: str
    count: int
    cells: Vector
    mixed: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One check, and its verdict in each column; an empty cell is a node on which it observed nothing."""

    id: str
    check: Check
    cells: Vector


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Columns, worst first, and lines by category."""

    columns: Sequence[Column]
    blocks: Sequence[tuple[str, Sequence[Line]]]

    @property
    def troubled(self) -> Sequence[tuple[str, Sequence[Line]]]:
        """The lines of checks that found something: what passed everywhere shows no difference."""
        kept = ((name, [line for line in block if _tells(line)]) for name, block in self.blocks)
        return [(name, lines) for name, lines in kept if lines]


def heat_map(results: Results) -> HeatMap:
    """Lay the checks of a results document out over its nodes; those that do not apply are no part of it."""
    applying = [item for item in results["checks"].items() if item[1]["verdict"] != "skip"]
    listed = sorted(applying, key=lambda item: (item[1]["category"], natural(item[0])))
    columns = _columns([_by_node(check) for _, check in listed])
    lines = [
        Line(check_id, check, tuple(column.cells[index] for column in columns))
        for index, (check_id, check) in enumerate(listed)
    ]
    blocks = [(name, list(block)) for name, block in groupby(lines, key=lambda line: line.check["category"])]
    return HeatMap(columns, blocks)


def _tells(line: Line) -> bool:
    return line.check["verdict"] in words.FINDINGS


def _by_node(check: Check) -> Mapping[str, str]:
    """Join the rows of a check per node. Provisional rows bind nothing, so they colour nothing."""
    found: dict[str, str] = {}
    if check["over"] in _SHARED:
        return found
    for row in check["observations"]:
        if row.get("provisional"):
            continue
        for node in nodes(row["where"]):
            found[node] = _worse(found.get(node, ""), row["verdict"])
    return found


def _worse(one: str, other: str) -> str:
    return min(one, other, key=lambda verdict: words.ORDER.get(verdict, len(words.ORDER)))


def _columns(checks: Sequence[Mapping[str, str]]) -> list[Column]:
    alike: dict[Vector, list[str]] = defaultdict(list)
    for node in sorted({node for check in checks for node in check}, key=natural):
        alike[tuple(check.get(node, "") for check in checks)].append(node)
    groups = sorted(alike.items(), key=lambda group: _badness(group[0]))
    columns = [Column(fold(names), len(names), cells) for cells, names in groups]
    if len(columns) <= MOST_COLUMNS:
        return columns
    # The largest group is how most of the cluster is, mostly well: joined with others it would look sick.
    largest = max(columns, key=lambda column: column.count)
    worst = [column for column in columns if column is not largest]
    shown, rest = worst[: MOST_COLUMNS - 2], worst[MOST_COLUMNS - 2 :]
    return [*shown, _rest(rest), largest]


def _rest(columns: Sequence[Column]) -> Column:
    """Join columns into one that shows the worst of each check."""
    cells = columns[0].cells
    for other in columns[1:]:
        cells = tuple(map(_worse, cells, other.cells))
    names = fold(name for column in columns for name in nodes(column.nodes))
    return Column(names, sum(column.count for column in columns), cells, mixed=True)


def _badness(cells: Vector) -> tuple[int, ...]:
    """Order columns by how many cells are failed, then errors, and so on: more of the worse comes first."""
    return tuple(-cells.count(verdict) for verdict in words.VERDICTS)
