"""What a numbered message of NVIDIA's drivers means and how bad it is: xid.toml and the lines around it."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

Kind: TypeAlias = Literal["Xid", "SXid"]
Severity: TypeAlias = Literal["serious", "application", "log", "unknown"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)

_FATAL = re.compile(r"\bfatal\b", re.IGNORECASE)
_NONFATAL = re.compile(r"\bnon-?fatal\b", re.IGNORECASE)
_RECOVERY = re.compile(r"\bto 0x([0-9a-f]{1,8})\b", re.IGNORECASE)
_RECOVERY_CODE = 154


@dataclass(frozen=True, slots=True)
class Event:
    """One message: its number (None where it could not be read), the device, and the driver's words after it.

    ``device`` is domain:bus:device in lower case, empty where the line names none; ``seconds`` is since boot.
    """

    kind: Kind
    code: int | None
    device: str
    text: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Entry:
    """What the catalogue says of a code. ``rule`` is a severity, "follow" or "by_text"; see xid.toml."""

    name: str
    meaning: str
    action: str
    rule: str
    source: str
    follows: frozenset[int] = frozenset()
    alone: Severity = "unknown"


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The catalogue of xid.toml; ``actions`` are sentences by name."""

    date: str
    xids: Mapping[int, Entry]
    actions: Mapping[str, str]
    recovery: Mapping[int, Severity]
    sxid_fatal: frozenset[int]
    sxid_corrected: frozenset[int]

    def judge(self, events: Iterable[Event]) -> list[tuple[Event, Severity]]:
        """Tell how bad each event of a log is; a side effect counts only where it stands alone."""
        own = [(event, self._own(event)) for event in events]
        leaders = defaultdict(set)
        for event, severity in own:
            if severity not in {None, "log"}:
                leaders[event.device].add(event.code)
        return [(event, severity or self._beside(event, leaders[event.device])) for event, severity in own]

    def _own(self, event: Event) -> Severity | None:
        """Tell how bad an event is by itself; None where that hangs on the others."""
        if event.kind == "SXid":
            return self._of_switch(event)
        rule = self.entry(event.code).rule
        if rule == "by_text":
            return self._by_text(event)
        return next((severity for severity in SEVERITIES if severity == rule), None)

    def _beside(self, event: Event, leaders: AbstractSet[int | None]) -> Severity:
        entry = self.entry(event.code)
        return "log" if leaders & (entry.follows or leaders) else entry.alone

    def entry(self, code: int | None) -> Entry:
        """Look a code up; one that is not listed has an entry that says so."""
        if code is not None and code in self.xids:
            return self.xids[code]
        what = "a line that could not be read" if code is None else f"not in the catalogue of {self.date}"
        return Entry("", what, "not_published", "unknown", "")

    def _by_text(self, event: Event) -> Severity:
        if event.code == _RECOVERY_CODE:
            to = _RECOVERY.search(event.text)
            return self.recovery.get(int(to[1], 16), "unknown") if to else "unknown"
        if _NONFATAL.search(event.text):
            return "log"
        return "serious" if _FATAL.search(event.text) else "unknown"

    def _of_switch(self, event: Event) -> Severity:
        if _NONFATAL.search(event.text):
            return "log" if event.code in self.sxid_corrected else "unknown"
        if _FATAL.search(event.text) or event.code in self.sxid_fatal:
            return "serious"
        return "log" if event.code in self.sxid_corrected else "unknown"

    def tell(self, event: Event) -> str:
        """Name an event in words: number, meaning, and the line itself where that decides."""
        number = event.kind if event.code is None else f"{event.kind} {event.code}"
        entry = self.entry(event.code)
        if event.kind == "SXid":
            return f"{number} “{_short(event.text)}”"
        quoted = f", “{_short(event.text)}”" if entry.rule == "by_text" or event.code is None else ""
        return f"{number} {entry.meaning}{quoted}"

    def action(self, event: Event) -> str:
        """Say what to do about an event."""
        if event.kind == "Xid":
            return self.actions[self.entry(event.code).action]
        return self.actions["reset_switch" if self._of_switch(event) == "serious" else "watch"]


@cache
def catalogue() -> Catalogue:
    """Read xid.toml, once."""
    data = tomllib.loads(files("gpuassay.facts").joinpath("xid.toml").read_text(encoding="utf-8"))
    return Catalogue(
        date=data["date"],
        xids=dict(_entries(data)),
        actions=data["action"],
        recovery={int(number): severity for number, severity in data["recovery_action"].items()},
        sxid_fatal=frozenset(data["sxid"]["fatal"]),
        sxid_corrected=frozenset(data["sxid"]["corrected"]),
    )


def _entries(data: Mapping[str, Any]) -> Iterator[tuple[int, Entry]]:
    sources = data["source"]
    for rule, actions in data["xid"].items():
        for action, group in actions.items():
            for codes, said in group.items():
                source = sources.get(action, sources["catalogue"])
                follows = frozenset(said.get("follows", ()))
                alone = said.get("alone", "unknown")
                entry = Entry(said["name"], said["meaning"], action, rule, source, follows, alone)
                yield from ((int(code), entry) for code in codes.split())


def _short(text: str, longest: int = 80) -> str:
    """Keep the words of a line, without the register values at its end."""
    words = " ".join(text.split(" (0x", maxsplit=1)[0].split()).rstrip(".")
    return words if len(words) <= longest else f"{words[:longest]}…"
