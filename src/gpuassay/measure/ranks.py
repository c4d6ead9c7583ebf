"""What the ranks of a node printed, joined to the node's GPUs by PCI address."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from gpuassay.facts.record import Record
from gpuassay.facts.text import brief, pci_address
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.figures import Case

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.evidence.item import Item
    from gpuassay.facts import Gpu, Node
    from gpuassay.judge.fact import Absence, Fact, Scalar

Line: TypeAlias = tuple[tuple[float, float], ...]
"""A figure over time: pairs of seconds and values."""

_ABSENCES: Mapping[str, Absence] = {
    "not_found": "not_found",
    "denied": "denied",
    "timed_out": "timed_out",
}


@dataclass(frozen=True)
class Measured:
    """A GPU, or the processor that stands in where there is none, and what its rank printed.

    ``first`` is what it printed before it was measured again, if it was.
    """

    node: str
    where: str
    models: tuple[str, ...]
    told: Record
    expected: Sequence[Mapping[str, Any]]
    args: Mapping[str, Scalar]
    gpu: Gpu | None = None
    beside: Sequence[Measured] = field(default=(), repr=False, compare=False)  # all of its node, itself too
    first: Record | None = None

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """All cases that were ordered; one that the rank does not report is unread.

        Of two measurements the second counts, unless nothing came of it.
        """
        once = self._cases(self.first or self.told)
        if self.first is None:
            return once
        second = self._cases(self.told)
        return tuple(
            replace(new, first=old) if new.pace else old for old, new in zip(once, second, strict=True)
        )

    def _cases(self, told: Record) -> tuple[Case, ...]:
        listed = told.listed("rows")
        noise = float(self.args["noise"]) if self.gpu else math.inf  # what is only shown may be noisy
        if isinstance(listed, Unread):
            return tuple(Case(case, Record(listed), noise) for case in self.expected)
        rows = {_key(row.look("case")): row for row in listed.value}
        lost = Unread("failed", "its rank did not report this case", told.evidence)
        return tuple(
            Case(case, rows.get(_key(Read(dict(case))), Record(lost)), noise) for case in self.expected
        )

    @property
    def samples(self) -> list[Mapping[str, Any]]:
        """All that the device said of itself under load, second by second, in each of its runs."""
        return [sample for run in self._sampled for sample in run]

    def over_time(self, name: str) -> Fact[Line]:
        """Give what the device said of one figure, by seconds of all runs, one after the other."""
        points: list[tuple[float, float]] = []
        begin = 0.0
        for run in self._sampled:
            own = [(sample.get("at"), sample.get(name)) for sample in run]
            points += [(begin + at, value) for at, value in own if _is_number(at) and _is_number(value)]
            begin = points[-1][0] if points else begin
        if not points:
            return Unread("unsupported", f"nothing tells its {name}", self.told.evidence)
        return Read(tuple(points), self.told.evidence)

    @property
    def _sampled(self) -> list[list[Mapping[str, Any]]]:
        runs = [one for case in self.cases for one in (case.first, case) if one]
        found = (case.row.look("samples") for case in runs)
        lists = [fact.value for fact in found if isinstance(fact, Read) and isinstance(fact.value, list)]
        return [[sample for sample in samples if isinstance(sample, dict)] for samples in lists]


def _key(fact: Any) -> str:
    value = fact.value if isinstance(fact, Read) else None
    return json.dumps(value, sort_keys=True, default=str)


def tell(item: Item, ref: str) -> Record:
    """Read the document that a rank printed last; or why there is none."""
    for line in reversed(item.out.decode("utf-8", "replace").splitlines()):
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict) and "rows" in document:
            return Record(document, ref)
        if isinstance(document, dict) and "failed" in document:
            return Record(Unread("failed", f"the workload ended: {brief(str(document['failed']))}", ref), ref)
    why = item.why or "the rank printed no result"
    last = item.err.strip().splitlines()[-1:]
    why += f": {brief(last[0])}" if last and item.status != "ok" else ""
    return Record(Unread(_ABSENCES.get(item.status, "failed"), why, ref), ref)


def join(node: Node, told: Sequence[Record]) -> list[tuple[Gpu | None, Record]]:
    """Give each GPU its rank: by address, and what is left over in order.

    A node without GPUs gets the processor of its first rank, as None.
    """
    silent = Record(Unread("failed", "no rank worked on this GPU"))
    if not node.gpus:
        return [(None, told[0] if told else Record(Unread("failed", "no rank gave a result")))]
    by_address = {_address(one): one for one in told if _address(one)}
    left = [one for one in told if not _address(one)]
    joined: list[tuple[Gpu | None, Record]] = []
    for gpu in node.gpus:
        bdf = gpu.bdf
        found = by_address.get(bdf.value) if isinstance(bdf, Read) else None
        if found is None and left:
            found = left.pop(0) if len(left) > 1 else left[0]
        joined.append((gpu, on_gpu(found or silent)))
    return joined


def _address(told: Record) -> str:
    """Name where the rank's device sits; empty for a processor, and for a rank without a result."""
    address = told.record("device").text("address")
    return pci_address(address.value) or "" if isinstance(address, Read) else ""


def on_gpu(told: Record) -> Record:
    """Refuse what a processor gave in place of a GPU."""
    kind = told.record("device").text("kind")
    if isinstance(kind, Read) and kind.value == "cpu":
        torch = told.record("versions").text("torch")
        named = f" (torch {torch.value})" if isinstance(torch, Read) else ""
        return Record(Unread("failed", f"torch saw no GPU there{named}", told.evidence), told.evidence)
    return told


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
