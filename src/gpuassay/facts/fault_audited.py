"""What the audit of a node that serves in place of one that was taken out has found.

Its answers are kept under the trial. They are compared with what the failed node had when the run began,
which a trial by itself does not know: who reads it tells.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpuassay.evidence.item import Item
    from gpuassay.facts.fault_sights import Return
    from gpuassay.judge.fact import Fact

AUDIT = "audit"
"""The item that ends the answers: whether all was asked."""
ANSWER = "audited/"
"""Begins the id of each answer."""

NOT_COMPARED = Unread("failed", "what serves was audited, and compared with nothing")


class Answers:
    """The answers of one node, as facts are read from evidence."""

    problems: tuple[str, ...] = ()

    def __init__(self, node: str, items: Sequence[tuple[Item, str]]) -> None:
        """Take those among all items of a trial, each with its reference."""
        self.node = node
        own = [(item, ref) for item, ref in items if item.id.startswith(ANSWER)]
        self._items: Mapping[str, Item] = {
            item.id.removeprefix(ANSWER): replace(item, id=item.id.removeprefix(ANSWER)) for item, _ in own
        }
        self._refs = {item.seq: ref for item, ref in own}

    @property
    def answered(self) -> bool:
        """Whether anything at all came from it."""
        return bool(self._items)

    @property
    def came(self) -> bool:
        """Whether at least one answer came as it was asked for."""
        return any(item.status == "ok" for item in self._items.values())

    def item(self, item_id: str, /) -> Item | None:
        """Give the answer of this id; None if it was not asked for."""
        return self._items.get(item_id)

    def ref(self, item: Item, /) -> str:
        """Give the reference of an answer."""
        return self._refs.get(item.seq, "")


def passed(end: tuple[Item, str] | None, lacks: Fact[int]) -> Fact[bool]:
    """Tell whether the node that serves lacks nothing; ``end`` ended its answers, if they came to an end."""
    if end is None:
        return Unread("failed", "the node that serves was not audited")
    item, ref = end
    if item.status != "ok":
        return Unread(item.status, f"the node that serves was not audited: {item.why}", ref)
    if isinstance(lacks, Unread):
        return replace(lacks, why=f"not all of its audit is known: {lacks.why}")
    note = f"its audit found less than before: {lacks.note}" if lacks.value else lacks.note
    return Read(not lacks.value, lacks.evidence or ref, note)


def unproven(found: Return, proofs: Iterable[Fact[bool]]) -> Read[bool] | Unread | None:
    """Say why a node that serves is none in place of the other, or not known to be; None if it is.

    What was not asked proves nothing either way; what is bad decides over what is not known.
    """
    let_in = f"let in after {found.moment.s:g} s"
    asked = [one for one in proofs if not (isinstance(one, Unread) and one.kind == "not_asked")]
    bad = next((one for one in asked if isinstance(one, Read) and not one.value), None)
    if bad:
        return replace(bad, note=f"{let_in}, but {bad.note}")
    unknown = next((one for one in asked if isinstance(one, Unread)), None)
    return replace(unknown, why=f"{let_in}, but {unknown.why}") if unknown else None
