"""The evidence of one node, item by item, as text or as a document; what is not there says why."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from gpuassay.evidence.item import Item
from gpuassay.facts.record import Record
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuassay.judge.fact import Absence, Fact


class Evidence(Protocol):
    """The part of a node's evidence that facts are read from."""

    def item(self, item_id: str, /) -> Item | None:
        """Give the item of this id; None if it was not asked for."""

    def ref(self, item: Item, /) -> str:
        """Give the reference of an item, e.g. ``nodes/gpu017#12``."""

    @property
    def problems(self) -> Sequence[str]:
        """What of this node's evidence could not be read."""


@dataclass(frozen=True, slots=True)
class Silence:
    """The evidence of a node that gave none: it answers every question with why, and so does every fact."""

    reason: Unread
    problems: tuple[str, ...] = ()

    def item(self, item_id: str, /) -> Item:
        """Give an item that did not come."""
        kind = self.reason.kind
        status = "failed" if kind == "garbled" or kind == "not_asked" else kind  # noqa: PLR1714 - for mypy
        return Item(item_id, 0, status=status, why=self.reason.why)

    def ref(self, _item: Item, /) -> str:
        """Refer to nothing: there is no evidence."""
        return ""


@dataclass(frozen=True, slots=True)
class Nothing:
    """The evidence of what was never asked."""

    problems: tuple[str, ...] = ()

    def item(self, _item_id: str, /) -> None:
        """Give no item."""

    def ref(self, _item: Item, /) -> str:
        """Refer to nothing."""
        return ""


def take(evidence: Evidence, item_id: str) -> Fact[Item]:
    """Take an item that came, or the reason why it did not."""
    item = evidence.item(item_id)
    if item is None:
        if evidence.problems:
            why = f"{item_id} is missing, and this node's evidence is damaged: {brief(evidence.problems[0])}"
            return Unread("garbled", why)
        stopped = evidence.item("stopped")  # by whoever asked, for want of time
        return Unread("not_asked", brief(stopped.why) if stopped else f"{item_id} was not asked for")
    if item.status != "ok":
        return Unread(
            item.status, brief(item.why or item.err) or f"{item_id}: {item.status}", evidence.ref(item)
        )
    if item.truncated:
        return Unread("garbled", f"{item_id} was cut off", evidence.ref(item))
    return Read(item, evidence.ref(item))


def text(evidence: Evidence, item_id: str) -> Fact[str]:
    """Read an item as text; bytes that are not UTF-8 become U+FFFD, which no pattern of ours accepts."""
    fact = take(evidence, item_id)
    if isinstance(fact, Unread):
        return fact
    return Read(fact.value.out.decode(errors="replace"), fact.evidence)


def document(evidence: Evidence, item_id: str, missing: Absence = "garbled") -> Record:
    """Read an item as a JSON object; ``missing`` is what the lack of a key means."""
    fact = take(evidence, item_id)
    if isinstance(fact, Unread):
        return Record(fact, fact.evidence, missing)
    return Record(parse(fact.value, fact.evidence), fact.evidence, missing)


def parse(item: Item, ref: str) -> dict[str, object] | Unread:
    """Parse what an item holds, whatever its status, as a JSON object."""
    try:
        values = json.loads(item.out)
    except (ValueError, RecursionError):
        return Unread("garbled", f"{item.id} is no JSON document", ref)
    return values if isinstance(values, dict) else Unread("garbled", f"{item.id} is no JSON object", ref)
