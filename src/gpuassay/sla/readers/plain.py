"""Histories in the normal form, one JSON object a line, where no scheduler keeps account of the machines.

``node``, ``state`` (down, degraded), ``from``, ``until`` (null: it lasts), ``by`` and ``reason``; beside them
what no scheduler knows, each with ``event`` and ``at``: a node was ``swapped`` or ``tested``, and how many
``spares`` are ready.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpuassay.facts.text import brief
from gpuassay.sla.outages import Actor, History, Outage, joined
from gpuassay.sla.readers import Doubts, ReadError
from gpuassay.sla.readers.events import event, moment, text_of
from gpuassay.sla.spans import ALWAYS, NOTHING, union

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.sla.outages import State
    from gpuassay.sla.readers import Reading

_STATES: tuple[State, ...] = ("down", "degraded")
_KEYS = ("node", "state", "from", "until", "by", "reason")


def is_it(text: str) -> bool:
    """Tell whether a text is of this kind, from its first line."""
    try:
        first = json.loads(text.partition("\n")[0])
    except ValueError:
        return False
    return isinstance(first, dict) and ("node" in first or "event" in first)


def read(text: str, name: str, how: Reading) -> History:
    """Read it. Whoever keeps a history of outages writes down every one. Raises ReadError."""
    doubts = Doubts()
    lines = [
        (_parsed(line, place), place)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and (place := f"{name}:{number}")
    ]
    outages = [_outage(found, place, how, doubts) for found, place in lines if "event" not in found]
    events = [event(found, place, how) for found, place in lines if "event" in found]
    own = History(
        outages=tuple(outages),
        throughout=(ALWAYS,)
        if outages
        else NOTHING,  # a file of events alone may be kept beside another source
        doubts={node: union(spans) for node, spans in doubts.spans.items()},
    )
    return joined([own, *events])


def _parsed(line: str, place: str) -> Mapping[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise ReadError(f"{place}: not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ReadError(f"{place}: expected one object with the keys {', '.join(_KEYS)}")
    return found


def _outage(found: Mapping[str, Any], place: str, how: Reading, doubts: Doubts) -> Outage:
    if set(found) != set(_KEYS):
        raise ReadError(f"{place}: expected one object with the keys {', '.join(_KEYS)}")
    begin = moment(found, "from", place, how)
    end = None if found["until"] is None else moment(found, "until", place, how)
    if end is not None and end.late < begin.early:
        raise ReadError(f"{place}: it ends before it begins")
    node = text_of(found, "node", place)
    for one in (begin, end):
        if one is not None:
            doubts.note(node, one)
    return Outage(
        node,
        _state(found, place),
        begin.late,
        None if end is None else end.early,
        _actor(found, place),
        brief(text_of(found, "reason", place)),
        place,
    )


def _state(found: Mapping[str, Any], place: str) -> State:
    for state in _STATES:
        if found["state"] == state:
            return state
    raise ReadError(f"{place}: state: expected down or degraded, found {brief(str(found['state']))!r}")


def _actor(found: Mapping[str, Any], place: str) -> Actor:
    try:
        return Actor(found["by"])
    except ValueError:
        known = ", ".join(actor.value for actor in Actor)
        raise ReadError(f"{place}: by: expected one of {known}, found {brief(str(found['by']))!r}") from None
