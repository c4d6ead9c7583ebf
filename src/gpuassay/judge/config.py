"""Reading TOML so that every mistake names its file, table and key, and all of them are told at once.

A `Table` is read key by key. What is missing, of a wrong kind or never asked for is noted with its
place, and reading goes on with a filler; the loader raises all notes together before anything uses one.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from gpuassay.judge.fact import Scalar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
D = TypeVar("D")

# Parts of an address that may hold a secret: what stands before its host, and what comes after its path.
_USER, _QUERY = re.compile(r'(?<=://)[^/@\s"]+@'), re.compile(r'(://[^\s"?#]*)[?#][^\s"]*')
_LONGEST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a TOML file: the header as it is written (``[audit.health.row_remaps]``) and the key."""

    file: str
    table: str = ""
    key: str = ""

    def at(self, key: str) -> Place:
        """Go to a key below this place."""
        return replace(self, key=f"{self.key}.{key}" if self.key else key)

    def __str__(self) -> str:
        inside = " ".join(part for part in (self.table, self.key) if part)
        return f"{self.file}: {inside}" if inside else self.file


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong in a file, and what was expected."""

    place: Place
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


class ConfigError(ValueError):
    """A file cannot be used; ``str`` gives every mistake on a line of its own."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(map(str, self.mistakes)))


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """What a value must be. ``read`` raises ValueError (with more words, if it has any) for another one."""

    expected: str
    read: Callable[[object], T_co]
    filler: T_co

    def fits(self, value: object) -> bool:
        """Tell whether a value is of this kind."""
        try:
            self.read(value)
        except ValueError:
            return False
        return True


def _only(value: object, *types: type) -> Any:
    """Refuse what is not exactly of these types: to TOML, as to us, ``true`` is no number."""
    if type(value) not in types:
        raise ValueError
    return value


def _text(value: object) -> str:
    text: str = _only(value, str)
    if not text.strip():
        raise ValueError
    return text


def _count(value: object) -> int:
    count: int = _only(value, int)
    if count < 0:
        raise ValueError
    return count


def _finite(value: object) -> float:
    number: float = _only(value, int, float)
    try:
        finite = math.isfinite(number)
    except OverflowError:  # a whole number that no float can hold
        finite = False
    if not finite:
        raise ValueError
    return number


def _duration(value: object) -> float:
    """Read seconds, minutes or hours as seconds."""
    found = re.fullmatch(r"([1-9][0-9]*)([smh])", _text(value))
    if found is None:
        raise ValueError
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]]


def _moment(value: object) -> datetime:
    moment: datetime = _only(value, datetime)
    if moment.tzinfo is None:
        raise ValueError("it names no time zone")
    try:
        return moment.astimezone(UTC)
    except OverflowError:  # in UTC it is before the year 1, or after 9999
        raise ValueError from None


def _scalar(value: object) -> Scalar:
    return _finite(value) if isinstance(value, float) else _only(value, bool, int, str)


TEXT = Kind("a text in quotes", _text, "")
FLAG: Kind[bool] = Kind("true or false", lambda value: _only(value, bool), filler=False)
COUNT = Kind("a whole number, 0 or more", _count, 0)
NUMBER = Kind("a finite number", _finite, 0.0)
SCALAR: Kind[Scalar] = Kind("a text, a finite number, true or false", _scalar, 0)
DURATION: Kind[float] = Kind('a time such as "90s", "10m" or "8h"', _duration, 0.0)
DATE: Kind[date] = Kind(
    "a date such as 2027-01-31, without quotes", lambda value: _only(value, date), date.min
)
MOMENT: Kind[datetime] = Kind(
    "a time with its zone such as 2026-11-28T12:00:00+01:00, without quotes",
    _moment,
    datetime.min.replace(tzinfo=UTC),
)


def word(among: Collection[str], what: str = "") -> Kind[str]:
    """Read one word of a closed list; ``what`` says it where the list is too long to be told."""

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in among:
            raise ValueError(suggest(value, among))
        return value

    return Kind(what or f"one of {', '.join(among)}", read, "")


def items(kind: Kind[T], least: int = 0) -> Kind[tuple[T, ...]]:
    """Read a list of at least so many items, each of one kind."""

    def read(value: object) -> tuple[T, ...]:
        if not isinstance(value, list) or len(value) < least:
            raise ValueError
        return tuple(kind.read(item) for item in value)

    return Kind(f"a list{f' of at least {least}' if least else ''}, each {kind.expected}", read, ())


def suggest(value: object, among: Iterable[str]) -> str:
    """Name the word that was probably meant, if there is one."""
    near = difflib.get_close_matches(str(value), list(among), n=1)
    return f'did you mean "{near[0]}"?' if near else ""


class Table:
    """One TOML table at its place; ``mistakes`` is shared by all tables of a file."""

    def __init__(self, data: object, place: Place, mistakes: list[Mistake]) -> None:
        self.place = place
        self.mistakes = mistakes
        self._asked: dict[str, None] = {}
        self.data: Mapping[str, Any] = data if isinstance(data, dict) else {}
        if not isinstance(data, dict):
            self.wrong("", f"expected a table, found {shown(data)}")

    def wrong(self, key: str, message: str) -> None:
        """Note a mistake at a key, or at the table itself where the key is empty."""
        self.mistakes.append(Mistake(self.place.at(key) if key else self.place, message))

    def need(self, key: str, kind: Kind[T]) -> T:
        """Read a key that must be there."""
        if key not in self.data:
            self._asked[key] = None
            self.wrong(key, f"is missing; expected {kind.expected}")
            return kind.filler
        return self.take(key, kind, kind.filler)

    def take(self, key: str, kind: Kind[T], default: D) -> T | D:
        """Read a key that may be there."""
        self._asked[key] = None
        if key not in self.data:
            return default
        try:
            return kind.read(self.data[key])
        except ValueError as error:
            more = f"; {error}" if str(error) else ""
            self.wrong(key, f"expected {kind.expected}; found {shown(self.data[key])}{more}")
            return kind.filler

    def tables(self, *, known: Collection[str] | None = None) -> Iterator[tuple[str, Table]]:
        """Go through the named tables below this one, ``[this.name]``; all that is below must be a table."""
        for name, data in self.data.items():
            if known is not None and name not in known:
                self.wrong(name, f"unknown; expected one of {', '.join(known)}{meant(name, known)}")
            else:
                yield name, self.below(name, data)

    def below(self, name: str, data: object) -> Table:
        """Take a table below this one, under a header of its own."""
        self._asked[name] = None
        plain = name.replace("_", "").replace("-", "").isalnum()
        path = f"{self.place.table[1:-1]}." if self.place.table else ""
        header = f"[{path}{name if plain else json.dumps(name)}]"
        return Table(data, Place(self.place.file, header), self.mistakes)

    def section(self, name: str) -> Table:
        """Take the table below this one that has this name; an empty one if there is none."""
        return self.below(name, self.data.get(name, {}))

    def inline(self, key: str) -> Table:
        """Take an inline table; it stands under this table's header."""
        self._asked[key] = None
        return Table(self.data[key], self.place.at(key), self.mistakes)

    def array(self, name: str) -> list[Table]:
        """Take the tables of ``[[name]]`` (or of a list of inline tables), numbered from 1."""
        self._asked[name] = None
        found = self.data.get(name, [])
        if not isinstance(found, list):
            self.wrong(name, f"expected a list of tables, found {shown(found)}")
            return []
        top = not self.place.table
        places = [
            replace(self.place, table=f"[[{name}]] {number}") if top else self.place.at(f"{name}[{number}]")
            for number in range(1, len(found) + 1)
        ]
        return [Table(data, place, self.mistakes) for data, place in zip(found, places, strict=True)]

    @property
    def asked(self) -> list[str]:
        """Name the keys that were asked for so far: those that this table may have."""
        return list(self._asked)

    def rest(self) -> list[str]:
        """Name the keys that nobody asked for; from here on they count as asked for."""
        names = [key for key in self.data if key not in self._asked]
        self._asked.update(dict.fromkeys(names))
        return names

    def close(self) -> None:
        """Note every key that nobody asked for."""
        known = self.asked
        for key in self.rest():
            self.wrong(key, f"unknown; expected one of {', '.join(known)}{meant(key, known)}")


def meant(name: str, known: Iterable[str]) -> str:
    """End a sentence with the word that was probably meant, if there is one."""
    hint = suggest(name, known)
    return f"; {hint}" if hint else ""


def shown(value: object) -> str:
    """Write a TOML value much as it stood in the file: one short line, without the secrets of an address."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    text = _QUERY.sub(r"\1…", _USER.sub("…@", text))
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"
