"""Strict reading of JSON documents: every look gives a fact, and nothing that is odd passes for a value."""

from __future__ import annotations

import re
import reprlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from gpuassay.facts.text import brief, no_value
from gpuassay.judge.fact import Absence, Read, Unread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gpuassay.judge.fact import Fact

A = TypeVar("A")
B = TypeVar("B")

_KINDS: frozenset[str] = frozenset(get_args(Absence))
_LARGEST = 2**63 - 1  # what a counter of a driver or kernel can hold


def mapped(fact: Fact[A], turn: Callable[[A], B]) -> Fact[B]:
    """Turn the value of a fact into another; the reason of an unread one stays."""
    return fact if isinstance(fact, Unread) else Read(turn(fact.value), fact.evidence, fact.note)


@dataclass(frozen=True, slots=True)
class Record:
    """An object of a JSON document, or the reason why there is none, which each of its values then gives.

    ``missing`` is what the lack of a key means: ``not_found`` in a tree of files, where the kernel has no
    such file; ``garbled`` in an answer that has had this key since the first schema.
    """

    values: Mapping[str, Any] | Unread
    evidence: str = ""
    missing: Absence = "garbled"

    @property
    def unread(self) -> Unread | None:
        """Why there is no such object; None if there is one."""
        return self.values if isinstance(self.values, Unread) else None

    def look(self, key: str) -> Fact[Any]:
        """Take a value as it is; ``{"unread": kind, "why": …}`` is the reason why there is none."""
        if isinstance(self.values, Unread):
            return self.values
        if key not in self.values:
            return Unread(self.missing, f"no {brief(key)} was recorded", self.evidence)
        value = self.values[key]
        if isinstance(value, dict) and "unread" in value:
            return self._marked(key, value)
        return Read(value, self.evidence)

    def _marked(self, key: str, mark: Mapping[str, Any]) -> Unread:
        kind, why = mark["unread"], mark.get("why")
        if not isinstance(kind, str) or kind not in _KINDS:
            return Unread("garbled", f"{brief(key)} is unread in an unknown way", self.evidence)
        reason = brief(why) if isinstance(why, str) else ""
        return Unread(kind, reason or f"{brief(key)} could not be read", self.evidence)  # type: ignore[arg-type]

    def garbled(self, key: str, value: object, wanted: str) -> Unread:
        """Say that a value is not what it should be."""
        return Unread("garbled", f"{brief(key)} is {brief(reprlib.repr(value))}, not {wanted}", self.evidence)

    def flag(self, key: str) -> Fact[bool]:
        """Read true or false."""
        fact = self.look(key)
        if isinstance(fact, Unread) or isinstance(fact.value, bool):
            return fact
        return self.garbled(key, fact.value, "true or false")

    def count(self, key: str, most: int = _LARGEST) -> Fact[int]:
        """Read a whole number from 0 to ``most``; a bool is none."""
        fact = self.look(key)
        if isinstance(fact, Unread) or (type(fact.value) is int and 0 <= fact.value <= most):
            return fact
        return self.garbled(key, fact.value, f"a whole number up to {most}")

    def text(self, key: str, pattern: str = "", wanted: str = "a printable text") -> Fact[str]:
        """Read a text that is ``pattern`` from end to end, blanks around it dropped; ``[N/A]`` is no text."""
        fact = self.look(key)
        if isinstance(fact, Unread):
            return fact
        if not isinstance(fact.value, str):
            return self.garbled(key, fact.value, wanted)
        text = fact.value.strip()
        absent = no_value(text)
        if absent is not None:
            return Unread(absent, f"{brief(key)} is {text}", self.evidence)
        fits = re.fullmatch(pattern, text) if pattern else text
        if fits and text.isprintable() and "\ufffd" not in text:
            return Read(text, self.evidence)
        return self.garbled(key, fact.value, wanted)

    def record(self, key: str) -> Record:
        """Read an object inside this one."""
        return self._inner(key, self.look(key))

    def items(self) -> Iterator[tuple[str, Record]]:
        """Walk through an object whose values are objects; there are none in one that is unread."""
        keys = () if isinstance(self.values, Unread) else self.values
        return ((key, self.record(key)) for key in keys)

    def listed(self, key: str) -> Fact[tuple[Record, ...]]:
        """Read a list of objects."""
        fact = self.look(key)
        if isinstance(fact, Unread):
            return fact
        if not isinstance(fact.value, list):
            return self.garbled(key, fact.value, "a list")
        return Read(tuple(self._inner(key, self._entry(key, entry)) for entry in fact.value), self.evidence)

    def _entry(self, key: str, entry: object) -> Fact[Any]:
        # A whole entry may be unread and yet name itself: {"index": 6, "unread": "failed", …}.
        if isinstance(entry, dict) and "unread" in entry:
            return self._marked(key, entry)
        return Read(entry, self.evidence)

    def _inner(self, key: str, fact: Fact[Any]) -> Record:
        if isinstance(fact, Unread):
            return Record(fact, self.evidence, self.missing)
        values = fact.value if isinstance(fact.value, dict) else self.garbled(key, fact.value, "an object")
        return Record(values, self.evidence, self.missing)
