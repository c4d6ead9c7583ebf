"""The audit of a node that serves in place of one that was taken out: it is asked what all nodes are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuassay.evidence.item import Item
from gpuassay.facts.fault_audited import ANSWER, AUDIT
from gpuassay.target import TargetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Keep = Callable[[str, Item], None]


@dataclass(frozen=True, slots=True)
class Audit:
    """``ask`` asks a node, and gives each answer with the node's name as it comes. Raises TargetError."""

    ask: Callable[[str, Keep], None]

    def __call__(self, node: str) -> Iterator[Item]:
        """Yield each answer, and at the end whether all was asked."""
        answers: list[Item] = []
        asked = {"node": node}
        try:
            self.ask(node, lambda _node, item: answers.append(item))
        except TargetError as why:
            end = Item(AUDIT, 0, "failed", asked, why=str(why))
        else:
            end = Item(AUDIT, 0, asked=asked)
        for item in answers:
            yield replace(item, id=ANSWER + item.id)
        yield end
