"""Times as sources write them, in whole seconds since 1970, and the calendar months of a time zone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuassay.sla.spans import Span

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DECEMBER = 12


@dataclass(frozen=True, slots=True)
class Moment:
    """A time as it was written; ``late`` is later than ``early`` only in the hour that clocks show twice."""

    early: int
    late: int


def read(text: str, zone: ZoneInfo) -> Moment:
    """Read a time of ISO 8601, or seconds since 1970; ``zone`` is that of a time which names none.

    Raises ValueError for what is no time, and for a time that clocks in this zone skipped.
    """
    if text.isascii() and text.isdecimal():
        return Moment(int(text), int(text))
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no time such as 2026-11-30T22:00:00+01:00") from None
    if found.tzinfo is not None:
        exact = _seconds(found)
        return Moment(exact, exact)
    first, second = (_seconds(found.replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
    if second < first:  # what fold means for a time that does not exist: PEP 495
        raise ValueError(f"{text}: clocks in {zone.key} skipped this time, so it is of another time zone")
    return Moment(first, second)


def zone_of(name: str) -> ZoneInfo:
    """Find a time zone by its IANA name. Raises ValueError."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        expected = "expected one such as Europe/Berlin, and the package tzdata"
        raise ValueError(f"there is no time zone {name!r} on this machine; {expected}") from None


@dataclass(frozen=True, slots=True)
class Month:
    """A calendar month, or the part of it that is accounted for; ``whole`` tells which."""

    name: str
    span: Span
    whole: bool


def months(span: Span, zone: ZoneInfo) -> Iterator[Month]:
    """Cut a time into the months of a zone; one of them may be an hour longer or shorter than its days."""
    begin, end = span
    first = (_EPOCH + timedelta(seconds=begin)).astimezone(zone)
    year, month = first.year, first.month
    while True:
        after = (year + month // _DECEMBER, month % _DECEMBER + 1)
        opens, closes = (_seconds(datetime(*ym, 1, tzinfo=zone)) for ym in ((year, month), after))
        if opens >= end:
            return
        part = (max(opens, begin), min(closes, end))
        yield Month(f"{year:04}-{month:02}", part, part == (opens, closes))
        year, month = after


def written(moment: int, zone: ZoneInfo) -> str:
    """Write a time for people, with its offset."""
    return (_EPOCH + timedelta(seconds=moment)).astimezone(zone).isoformat(" ", "minutes")


def lasted(seconds: int) -> str:
    """Write a length of time: ``3 d 04:05:06``, ``01:00:00``."""
    days, rest = divmod(seconds, 86_400)
    clock = f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"{days} d {clock}" if days else clock


def _seconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(seconds=1)
