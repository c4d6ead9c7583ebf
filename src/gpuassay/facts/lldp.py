"""What the switches say of themselves by LLDP: which switch and port each interface leads to."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpuassay.facts.source import text
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

ITEM: Final = "lldp"
_NAME = re.compile(r"[A-Za-z0-9][\w.:/@-]{0,63}", re.ASCII)
_FRAME = re.compile(r"[0-9]{3,5}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The other end of an interface; ``frame`` is the largest that it takes, 0 where it is not told."""

    switch: str
    port: str
    frame: int


def neighbours(evidence: Evidence) -> Fact[Mapping[str, Neighbour]]:
    """Read lldpd's answer (``json0``: lists at every level), by interface.

    A daemon that is not there, or that this user may not ask, leaves the switches unseen.
    """
    answer = text(evidence, ITEM)
    if isinstance(answer, Unread):
        hidden = answer.kind in ("not_found", "denied", "failed")
        return Unread("denied", f"no LLDP: {answer.why}", answer.evidence) if hidden else answer
    try:
        told = json.loads(answer.value)
    except (ValueError, RecursionError):
        return Unread("garbled", f"{ITEM} is no JSON document", answer.evidence)
    return Read(dict(_each(told)), answer.evidence)


def _each(told: Any) -> Iterator[tuple[str, Neighbour]]:
    for interface in (one for top in _list(told, "lldp") for one in _list(top, "interface")):
        name = interface.get("name") if isinstance(interface, dict) else None
        if not isinstance(name, str):
            continue
        for chassis in _list(interface, "chassis"):
            switch = _value(chassis, "name", _NAME) or _value(chassis, "id", _NAME)
            ports = _list(interface, "port")
            port = next(filter(None, (_value(one, "id", _NAME) for one in ports)), "")
            frame = next(filter(None, (_value(one, "mfs", _FRAME) for one in ports)), "0")
            if switch:
                yield name, Neighbour(switch, port, int(frame))


def _list(told: Any, key: str) -> list[Any]:
    found = told.get(key) if isinstance(told, dict) else None
    return found if isinstance(found, list) else []


def _value(told: Any, key: str, form: re.Pattern[str]) -> str:
    """Take the first value of a name that has the form; anything else is nothing."""
    values = (one.get("value") for one in _list(told, key) if isinstance(one, dict))
    return next((one for one in values if isinstance(one, str) and form.fullmatch(one)), "")
