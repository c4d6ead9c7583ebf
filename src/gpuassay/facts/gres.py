"""Slurm's generic resources, as it writes them: ``gpu:h200:8(S:0-1)``, ``gres/gpu=2``, ``(null)``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

# A count may have a suffix in units of 1024: gres.conf(5). What is in brackets says where they are, or which.
_ONE = re.compile(
    r"(?:gres[/:])?(?P<name>[A-Za-z_][\w-]*)(?P<rest>(?:[:=/][\w.+-]+)*)(?:\([^()]*\))?", re.ASCII
)
_COUNT = re.compile(r"([0-9]{1,12})([KMGTP]?)", re.IGNORECASE | re.ASCII)
_NONE = frozenset({"", "(null)", "n/a", "none"})
_UNITS = " KMGTP"


@dataclass(frozen=True, slots=True)
class Gres:
    """So many of a generic resource, of one type if Slurm was told one."""

    name: str
    type: str
    count: int


def read_gres(text: str, evidence: str = "") -> Read[tuple[Gres, ...]] | Unread:
    """Read a list of generic resources."""
    text = text.strip()
    if text.lower() in _NONE:
        return Read((), evidence)
    found = []
    for part in re.split(r",(?![^()]*\))", text):  # a comma in brackets belongs to them
        one = _read_one(part.strip())
        if one is None:
            return Unread("garbled", f"{brief(part)} is no generic resource", evidence)
        found.append(one)
    return Read(tuple(found), evidence)


def gpus(listed: Read[tuple[Gres, ...]] | Unread) -> Read[int] | Unread:
    """Count the GPUs, of all types together."""
    if isinstance(listed, Unread):
        return listed
    return Read(sum(one.count for one in listed.value if one.name == "gpu"), listed.evidence)


def _read_one(text: str) -> Gres | None:
    found = _ONE.fullmatch(text)
    if found is None:
        return None
    words = [word for word in re.split("[:=/]", found["rest"]) if word and word != "no_consume"]
    number = _COUNT.fullmatch(words[-1]) if words else None
    count = 1  # gres.conf(5): where none is said
    if number is not None:
        words.pop()
        count = int(number[1]) * 1024 ** _UNITS.index(number[2].upper() or " ")
    return Gres(found["name"], ":".join(words), count)
