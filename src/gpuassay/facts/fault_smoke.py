"""What came of the load on a node that serves in place of one that was taken out.

It passed where every rank has computed what is right. What says nothing of the node, such as a torch that
is not there, leaves it unknown.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gpuassay.facts.record import Record
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuassay.evidence.item import Item
    from gpuassay.judge.fact import Fact

SMOKE = "smoke"
_NOT_STARTED = "was not started"  # as all targets say it of a node that gave no place
_NO_TORCH = "No module named 'torch'"


def passed(items: Sequence[tuple[Item, str]]) -> Fact[bool]:
    """Tell whether the load ran on each GPU and was right; one that was not decides, whatever is unknown."""
    if not items:
        return Unread("failed", "no load was run on it")
    found = [rank(item, ref) for item, ref in items]
    bad = next((fact for fact in found if isinstance(fact, Read) and not fact.value), None)
    unknown = next((fact for fact in found if isinstance(fact, Unread)), None)
    if bad:
        return bad
    if unknown:
        return unknown
    ranks = items[0][0].asked.get("ranks")
    if len(items) != ranks:
        return Unread("failed", f"the load on it is known of {len(items)} of {ranks} ranks", items[0][1])
    return Read(
        value=True, evidence=items[0][1], note=f"the load was right, {_where(items[0][0], len(items))}"
    )


def rank(item: Item, ref: str) -> Fact[bool]:
    """Tell whether one rank computed what is right; what says nothing of its node leaves it unknown."""
    where = f"rank {item.asked.get('rank')} of the load"
    if item.status in ("denied", "not_found") or _NOT_STARTED in item.why:
        return Unread("denied", f"{where} was given no place: {brief(item.why)}", ref)
    document = _document(item, ref)
    if failed := _text(document, "failed"):
        if _NO_TORCH in failed:
            return Unread("not_found", "no load was run on it: torch is missing there", ref)
        return _bad(f"{where} did not run: {brief(failed)}", ref)
    if document.unread or (item.status != "ok"):
        last = item.err.strip().splitlines()[-1:]
        said = ": ".join(filter(None, (item.why or "it printed no result", *last)))
        return _bad(f"{where} did not run: {brief(said)}", ref)
    return _blind(document, item, ref) or _computed(document, where, ref)


def _computed(document: Record, where: str, ref: str) -> Fact[bool]:
    """Judge the rows that a rank has reported: a case each, all of which have to be right."""
    rows = document.listed("rows")
    if isinstance(rows, Unread):
        return rows
    if not rows.value:
        return Unread("garbled", f"{where} reports nothing", ref)
    for row in rows.value:
        status, why = _text(row, "status"), _text(row, "why")
        if status == "unsupported":
            return Unread("unsupported", f"{where}: {brief(why)}", ref)
        if status != "ok":
            return _bad(f"{where} did not run: {brief(why)}", ref)
        counts = [row.count(key) for key in ("checked", "wrong", "changed")]
        if unread := next((one for one in counts if isinstance(one, Unread)), None):
            return unread
        checked, wrong, changed = (one.value for one in counts if isinstance(one, Read))
        if not checked:
            return Unread("garbled", f"{where} compared nothing", ref)
        if wrong or changed:
            words = f"{wrong} of {checked} elements were wrong, {changed} changed under it"
            return _bad(f"{where} computed wrong numbers: {words}", ref)
    return Read(value=True, evidence=ref, note=f"{where} was right")


def _blind(document: Record, item: Item, ref: str) -> Unread | None:
    """Say where a processor has worked in place of a GPU, which may be the torch's fault or the node's."""
    if not item.asked.get("gpus") or _text(document.record("device"), "kind") != "cpu":
        return None
    torch = _text(document.record("versions"), "torch")
    return Unread("not_found", f"no load was run on its GPUs: torch {torch} saw none", ref)


def _bad(why: str, ref: str) -> Read[bool]:
    return Read(value=False, evidence=ref, note=why)


def _where(item: Item, ranks: int) -> str:
    on = f"on {ranks} GPUs" if item.asked.get("gpus") else "on its processor, for it has no GPU"
    return f"{item.asked.get('product')} {on}"


def _text(record: Record, key: str) -> str:
    found = record.text(key)
    return found.value if isinstance(found, Read) else ""


def _document(item: Item, ref: str) -> Record:
    try:
        told = json.loads(item.out)
    except (ValueError, RecursionError):
        told = None
    return Record(told if isinstance(told, dict) else Unread("garbled", "it printed no result", ref), ref)
