"""From bulletins to a new ``advisories.toml``, comments kept: shown as a difference, written when asked."""

from __future__ import annotations

import difflib
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomlkit

from gpuassay.bulletins.feeds import read

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuassay.bulletins.feeds import Bulletin

_DEADLINE_S = 60


def fetch(place: str) -> str:
    """Read a feed from a file or an https address. Raises OSError."""
    if not place.startswith("https://"):
        return Path(place).read_text(encoding="utf-8")
    with urllib.request.urlopen(place, timeout=_DEADLINE_S) as answer:  # noqa: S310 - https only, see above
        text: str = answer.read().decode()
        return text


def merge(text: str, bulletins: Iterable[Bulletin]) -> str:
    """Put bulletins into the table: new ones at its end, known ones with new ranges; nothing is taken out."""
    document = tomlkit.parse(text)
    tables: Any = document["advisory"]
    for bulletin in bulletins:
        if bulletin.id in tables:
            known = tables[bulletin.id]
            if _ranges(known) != list(bulletin.ranges):
                known["affected"] = _affected(bulletin)
        elif not _named_elsewhere(tables, bulletin):
            tables[bulletin.id] = _table(bulletin)
    return tomlkit.dumps(document)


def difference(old: str, new: str) -> str:
    """Show what would change, for a person to review."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    return "".join(difflib.unified_diff(before, after, "advisories.toml", "updated"))


def propose(text: str, feeds: Iterable[str]) -> tuple[str, list[str]]:
    """Give the new text, and notes on what a person has to put in. Raises FeedError and OSError."""
    notes: list[str] = []
    for feed in feeds:
        found = read(fetch(feed))
        text = merge(text, found.bulletins)
        notes += found.notes
    return text, notes


def _named_elsewhere(tables: Any, bulletin: Bulletin) -> bool:
    """Tell whether a table of the same bulletin by a longer or shorter name has these very ranges."""
    stem = bulletin.id.removesuffix(f"-{bulletin.component}")
    return any(
        name.startswith(stem)
        and table.get("component") == bulletin.component
        and _ranges(table) == list(bulletin.ranges)
        for name, table in tables.items()
    )


def _ranges(table: Any) -> list[tuple[str, str | None, str]]:
    listed = [
        (str(package), one.get("from"), str(one["before"]))
        for one in table["affected"]
        for package in one.get("packages", [""])
    ]
    return sorted(listed, key=lambda one: (one[0], one[1] or "", one[2]))


def _affected(bulletin: Bulletin) -> Any:
    array = tomlkit.array()
    for package, first, before in bulletin.ranges:
        line = tomlkit.inline_table()
        line["packages"] = [package]
        if first:
            line["from"] = first
        line["before"] = before
        array.append(line)
    return array.multiline(multiline=True)


def _table(bulletin: Bulletin) -> Any:
    table = tomlkit.table()
    table["product"] = bulletin.product
    table["component"] = bulletin.component
    table["scheme"] = bulletin.scheme
    table["affected"] = _affected(bulletin)
    if bulletin.severity:
        table["severity"] = bulletin.severity
    table["source"] = bulletin.source
    table["date"] = bulletin.day
    return table
