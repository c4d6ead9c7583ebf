"""Render docs/reference.md from the code: commands, options, keys of a site file, what is asked of a node."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from gpuassay import cli, plugin
from gpuassay.judge.config import Table
from gpuassay.judge.site import load_site
from gpuassay.probe.items import describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpuassay.judge.catalog import Catalog
    from gpuassay.judge.config import Kind
    from gpuassay.suite import Suite

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "docs" / "site.toml"
HEAD = """# Reference

Written by `.ci/docs.py` from the code; do not edit. The checks have [a page of their own](checks.md).
"""
OPTIONS_HEAD = """
## Options of a run

Of `pytest` in a clone and of `gpuassay run`; pytest's own work as ever.
"""
SITE_HEAD = """
## Keys of a site file

All that a site file may say; [site.toml](site.toml) is an example with a comment for each. A key that is not
here is a mistake, and so is a value of another kind: all of them are told at once, each with its place.
"""
LIMITS = """
### `[limits."ID"]`

Other limits for the check of that id, a metric each, written as in `thresholds.toml`:
`max_error = { fail_above = 100 }`. What is looser than the suite's own is printed as *relaxed* in every
report.
"""
MEASUREMENTS_HEAD = """
## What is run, with consent

Nothing of this runs without `--allow`. The arguments of each are in `thresholds.toml`, and stand beside every
figure.
"""
PROBE_HEAD = """
## What is asked of a node

All that the probe reads, in its order; `gpuassay probe --list` says of each what it is for.
"""


def page(suite: Suite) -> str:
    """Render the page."""
    parts = [
        HEAD,
        *_commands(),
        OPTIONS_HEAD,
        *_options(),
        SITE_HEAD,
        *_site(suite.catalog),
        LIMITS,
        MEASUREMENTS_HEAD,
        *_measurements(suite.catalog),
        PROBE_HEAD,
        *_table(("item", "asks", "privilege", "at most"), map(_question, describe())),
    ]
    return "".join(parts)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Render a table; a bar within a cell is escaped."""
    names = list(head)
    yield "\n" + _row(names) + "|---" * len(names) + "|\n"
    yield from map(_row, rows)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


# --- commands and options ------------------------------------------------------------------------


def _commands() -> Iterator[str]:
    """Render each command with its arguments, and those of its own commands."""
    yield "\n## Commands\n"
    yield from _of(cli._parser(), "gpuassay", "")  # noqa: SLF001 - of this project, and asked for nowhere else


def _of(parser: argparse.ArgumentParser, name: str, about: str) -> Iterator[str]:
    # argparse has no other way to look into a parser than these.
    plain = [action for action in parser._actions if not isinstance(action, _SKIPPED)]  # noqa: SLF001
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]  # noqa: SLF001
    if about:
        yield f"\n### `{name}`\n\n{_sentence(about)}\n"
    if plain:
        yield from _table(("argument", "what it does"), ((_argument(one), one.help or "") for one in plain))
    for action in below:
        helps = {choice.dest: choice.help or "" for choice in action._choices_actions}  # noqa: SLF001
        for word, one in action.choices.items():
            yield from _of(one, f"{name} {word}", helps.get(word, ""))


_SKIPPED = (argparse._HelpAction, argparse._SubParsersAction)  # noqa: SLF001


def _argument(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"`{action.metavar or action.dest}`"
    return f"`{_option(action.option_strings[-1], vars(action))}`"


def _option(name: str, how: dict[str, Any]) -> str:
    if how.get("action") == "store_true" or how.get("nargs") == 0:
        return name
    choices = how.get("choices")
    value = how.get("metavar") or ("|".join(choices) if choices else name.strip("-").upper())
    return f"{name}={value}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


class _Options:
    """Takes the options that a plugin adds, as pytest's own parser does, and only keeps them."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str]] = []

    def getgroup(self, _name: str, _about: str = "") -> _Options:
        """Give the group, which is this."""
        return self

    def addoption(self, name: str, **how: Any) -> None:
        """Keep an option."""
        choices = f" ({', '.join(how['choices'])})" if how.get("choices") and how.get("metavar") else ""
        self.rows.append((f"`{_option(name, how)}`", f"{how.get('help', '')}{choices}"))


def _options() -> Iterator[str]:
    options = _Options()
    plugin.pytest_addoption(options)  # type: ignore[arg-type]
    return _table(("option", "what it does"), options.rows)


# --- the site file -------------------------------------------------------------------------------


def _site(catalog: Catalog) -> Iterator[str]:
    """Render what is asked of each table while the example is read, which has one of each."""
    for header, rows in _asked(catalog).items():
        yield f"\n### `{header}`\n"
        yield from _table(("key", "what it is", ""), rows)


def _asked(catalog: Catalog) -> dict[str, list[tuple[str, str, str]]]:
    found: dict[str, dict[str, tuple[str, str, str]]] = {}
    take, need = Table.take, Table.need

    def note(table: Table, key: str, kind: Kind[Any], word: str) -> None:
        header = table.place.table.partition(" ")[0]
        if not header.startswith("[limits"):
            name = f"{table.place.key}.{key}" if table.place.key else key
            found.setdefault(header, {}).setdefault(name, (f"`{name}`", kind.expected, word))

    def taken(table: Table, key: str, kind: Kind[Any], default: Any) -> Any:
        note(table, key, kind, "")
        return take(table, key, kind, default)

    def needed(table: Table, key: str, kind: Kind[Any]) -> Any:
        note(table, key, kind, "needed")
        return need(table, key, kind)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(Table, "take", taken))
        stack.enter_context(mock.patch.object(Table, "need", needed))
        load_site(EXAMPLE, catalog)
    return {header: list(rows.values()) for header, rows in found.items()}


# --- what is asked, and what is run --------------------------------------------------------------


def _measurements(catalog: Catalog) -> Iterator[str]:
    rows = (
        (f"`{one.name}`", one.tool or one.workload or one.fault, f"`{one.level}`", f"{one.deadline_s:g} s")
        for one in sorted(catalog.measurements.values(), key=lambda one: one.name)
    )
    return _table(("measurement", "runs", "consent", "at most"), rows)


def _question(row: dict[str, str]) -> tuple[str, ...]:
    return f"`{row['id']}`", f"`{row['asks']}`", row["privilege"], f"{row['deadline']}, {row['cap']}"
