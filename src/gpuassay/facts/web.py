"""What services answered over HTTP: documents, and whether they answer without a login."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpuassay.facts.record import Record
from gpuassay.facts.source import document, take
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

_LOGIN = (401, 403, *range(300, 400))  # a redirect leads to a page where one logs in


def success(evidence: Evidence, item_id: str) -> Record:
    """Read what Prometheus gives under ``data`` of an answer that it calls a success."""
    answer = document(evidence, item_id)
    status = answer.text("status")
    if isinstance(status, Unread) or status.value == "success":
        return answer.record("data")
    return Record(Unread("failed", f"Prometheus calls it {status.value}", answer.evidence), answer.evidence)


def listed(evidence: Evidence, item_id: str) -> Fact[list[Any]]:
    """Read an answer that is a list."""
    fact = take(evidence, item_id)
    if isinstance(fact, Unread):
        return fact
    try:
        values = json.loads(fact.value.out)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, list):
        return Unread("garbled", f"{item_id} is no JSON list", fact.evidence)
    return Read(values, fact.evidence)


def answers_anyone(evidence: Evidence, item_id: str) -> Fact[bool]:
    """Tell whether a question without a token was answered, with a JSON document as the service gives it."""
    item = evidence.item(item_id)
    if item is None:
        return Unread("not_asked", f"{item_id} was not asked for")
    ref = evidence.ref(item)
    if item.status != "ok" and item.exit in _LOGIN:
        return Read(value=False, evidence=ref)
    fact = take(evidence, item_id)
    if isinstance(fact, Unread):
        return fact
    try:
        json.loads(item.out)
    except (ValueError, RecursionError):
        return Unread("garbled", f"{item_id} is no JSON document", ref)
    note = "from where the suite runs; whether others reach it is not seen from here"
    return Read(value=True, evidence=ref, note=note)
