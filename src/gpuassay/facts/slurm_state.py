"""The state of a node in Slurm's words, of every version, and what follows for who wants to ask it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# sinfo(1), NODE STATE CODES, "suffix": one character after the state.
_SUFFIXES: Mapping[str, str] = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}
# Words of sinfo, and of older versions, that say what scontrol and newer versions say otherwise.
_SAME: Mapping[str, str] = {
    "ALLOC": "ALLOCATED",
    "BLOCK": "BLOCKED",
    "BOOT": "IDLE+REBOOT_ISSUED",
    "COMP": "IDLE+COMPLETING",
    "DRAINED": "IDLE+DRAIN",
    "DRAINING": "ALLOCATED+DRAIN",
    "DRNG": "ALLOCATED+DRAIN",
    "ERR": "ERROR",
    "FAILG": "ALLOCATED+FAIL",
    "FAILING": "ALLOCATED+FAIL",
    "FUTR": "FUTURE",
    "INVAL": "INVALID_REG",
    "MAINT": "MAINTENANCE",
    "MIX": "MIXED",
    "NO_RESPOND": "NOT_RESPONDING",
    "NPC": "PERFCTRS",
    "PLND": "PLANNED",
    "POW_DN": "POWERING_DOWN",
    "POW_UP": "POWERING_UP",
    "POWER": "POWERED_DOWN",
    "POWER_SAVING": "POWERED_DOWN",
    "POWER_UP": "POWERING_UP",
    "REBOOT": "REBOOT_REQUESTED",
    "RES": "RESERVED",
    "RESV": "RESERVED",
    "UNK": "UNKNOWN",
}
_BASES = frozenset({"ALLOCATED", "DOWN", "ERROR", "FUTURE", "IDLE", "MIXED", "UNKNOWN"})
_WORD = re.compile(r"([A-Za-z][A-Za-z_]*)([*~#!%$@^-]*)")


class Standing(Enum):
    """What a node's state means for who wants to ask it."""

    FREE = "free"
    BUSY = "busy"
    OUT = "out of service"
    GONE = "gone"  # Slurm itself does not reach it, or does not trust it
    ASLEEP = "asleep"  # to save power: asking would start it
    HELD = "held"  # for a reservation


# The first that a node has decides: one that was drained stays out of service, whatever else it does.
_DECIDING: tuple[tuple[frozenset[str], Standing], ...] = (
    (frozenset({"DRAIN", "FAIL"}), Standing.OUT),
    (frozenset({"DOWN", "ERROR", "FUTURE", "INVALID_REG", "REBOOT_ISSUED", "UNKNOWN"}), Standing.GONE),
    (frozenset({"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN"}), Standing.ASLEEP),
    (frozenset({"NOT_RESPONDING"}), Standing.GONE),
    (frozenset({"MAINTENANCE", "RESERVED"}), Standing.HELD),
    (frozenset({"ALLOCATED", "BLOCKED", "MIXED", "PERFCTRS"}), Standing.BUSY),
    (frozenset({"IDLE"}), Standing.FREE),
)


@dataclass(frozen=True, slots=True)
class State:
    """A state as Slurm's words, the base first: ``DOWN+NOT_RESPONDING``; ``words`` holds each on its own."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        return "+".join(self.words)

    @property
    def standing(self) -> Standing:
        """What it means; a state that nobody has heard of is not trusted."""
        held = frozenset(self.words)
        return next((standing for words, standing in _DECIDING if held & words), Standing.GONE)


UNKNOWN = State(("UNKNOWN",))


def read_state(text: str) -> State | None:
    """Read a state as any version writes it: ``IDLE+DRAIN``, ``DOWN*+DRAIN``, ``idle~``; None for noise.

    Every word is looked at as a whole: ``POWERED_DOWN`` is not ``DOWN``.
    """
    words: dict[str, None] = {}
    for part in text.split("+"):
        found = _WORD.fullmatch(part.strip())
        if found is None:
            return None
        word = found[1].upper()
        words.update(dict.fromkeys(_SAME.get(word, word).split("+")))
        words.update(dict.fromkeys(_SUFFIXES[suffix] for suffix in found[2]))
    if not _BASES.intersection(words):  # sinfo names a flag alone: the rest of the node is idle
        words = {"IDLE": None, **words} if _known(words) else words
    return State(tuple(sorted(words, key=lambda word: word not in _BASES)))


def _known(words: Iterable[str]) -> bool:
    """Tell whether one of these is a flag that we know, so that the base alone is missing."""
    known = {*_SUFFIXES.values(), "COMPLETING"}.union(*(deciding for deciding, _ in _DECIDING))
    return not known.isdisjoint(words)
