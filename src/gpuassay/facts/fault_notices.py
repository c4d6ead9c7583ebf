"""What was seen of messages about a node: alerts, what came to a receiver of ours, and a ticket."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpuassay.facts.fault_sights import Sight, times
from gpuassay.facts.text import brief

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuassay.evidence.item import Item

_NAMED = 3  # in a sentence


def alert_sight(item: Item, ref: str) -> Sight:
    """Read which alerts name the node."""
    return _sight(item, ref, item.id.rpartition("/")[2], [_alert(one) for one in _list(item)])


def hook_sight(item: Item, ref: str) -> Sight:
    """Read what was sent to our receiver and names the node."""
    return _sight(item, ref, "webhook", [str(one) for one in _list(item)])


def ticket_sight(item: Item, ref: str) -> Sight:
    """Read whether the ticket names the node; each of its lines that does is a message."""
    lines = item.out.decode(errors="replace").splitlines()
    return _sight(item, ref, "ticket", [line for line in lines if line.strip()])


def _sight(item: Item, ref: str, source: str, messages: list[str]) -> Sight:
    at_s, since_s = times(item)
    if item.status != "ok":
        return Sight(at_s, since_s, source, f"it did not say: {brief(item.why)}", ref)
    named = "; ".join(brief(one) for one in messages[:_NAMED])
    more = f" and {len(messages) - _NAMED} more" if len(messages) > _NAMED else ""
    words = f"{named}{more}" if messages else "no message names the node"
    return Sight(at_s, since_s, source, words, ref, notified=bool(messages))


def _list(item: Item) -> Iterator[Any]:
    try:
        found = json.loads(item.out or b"[]")
    except ValueError:
        return
    yield from found if isinstance(found, list) else ()


def _alert(labels: object) -> str:
    if not isinstance(labels, dict):
        return "an alert without labels"
    return f"alert {labels.get('alertname', 'without a name')}"
