"""The closing section on a terminal: plain, short, and whole without colour."""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gpuassay.report import causes, view, words
from gpuassay.report.fold import fold
from gpuassay.report.places import shorten
from gpuassay.sla.run import summary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from gpuassay.report.view import Check, Results

WIDTH = 80
HELD = 3
"""How many of the things that hold a tier are named here; the page names more."""


class Line(NamedTuple):
    """One line, and how pytest's writer marks it up: ``bold``, a colour, or nothing."""

    text: str
    markup: str = ""


class Writer(Protocol):
    """The part of pytest's terminal reporter that is needed here."""

    def write_sep(self, sep: str, title: str) -> None:
        """Write a heading across the width."""

    def write_line(self, line: str, **markup: bool) -> None:
        """Write one line."""


def write(to: Writer, results: Results, folder: Path) -> None:
    """Close a run on pytest's terminal; ``folder`` is where its files are."""
    to.write_sep("=", "GPUassay")
    for line in lines(results):
        to.write_line(line.text, **{line.markup: True} if line.markup else {})
    to.write_line(f"report: {folder / 'report.html'}")


def lines(results: Results, width: int = WIDTH) -> list[Line]:
    """Lay out tier, ceiling, coverage, findings and what was not judged."""
    return [
        Line(piece, line.markup)
        for line in _section(results)
        for piece in _wrap(_printable(line.text), width)
    ]


def _section(results: Results) -> Iterator[Line]:
    tier = results["tier"]
    ceiling = words.TIERS[tier["ceiling"]] if tier["ceiling"] else "none"
    won = "tier won: " if tier["won"] else ""
    yield Line(f"{won}{words.headline(tier)} (ceiling: {ceiling})", "bold")
    yield Line(tier["why"])
    yield from _held("not", results, tier["held_by"]["won"])
    yield from _held("out of reach:", results, tier["held_by"]["ceiling"])
    if "sla" in results:
        yield from map(Line, summary(results["sla"]))
    for stamp in results["stamps"]:
        yield Line(f"{stamp['stamp'].upper()}: {stamp['why']}", "bold")
    if results["earlier"]:
        yield Line(f"compared with {words.compared(results['earlier'])}")
    yield Line(_coverage(results))
    if results["placement"]:
        yield Line(f"placement: {results['placement']['says']}")
    yield from map(Line, view.repeats(results))
    for found in causes.findings(results):
        yield from _finding(found.id, found.check)
        yield from _others(found)
    yield from _left_to_do(results)
    yield Line("")
    yield Line(words.STATEMENT)


def _held(state: str, results: Results, entries: Sequence[Mapping[str, str]]) -> Iterator[Line]:
    """Name what holds a tier; a check gives its reason below, among the findings."""
    for entry in entries[:HELD]:
        verdict = words.VERDICTS[entry["verdict"]].label.lower()
        reason = "" if entry["check"] in results["checks"] else f": {entry['reason']}"
        yield Line(f"  {state} {words.TIERS[entry['tier']]}: {entry['check']}, {verdict}{reason}")
    if len(entries) > HELD:
        yield Line(f"  and for {words.plural(len(entries) - HELD, 'more reason')}, all in the report")


def _coverage(results: Results) -> str:
    nodes, checks, cells = (results["coverage"][part] for part in ("nodes", "checks", "cells"))
    out = f", {nodes['out']} out of service" if nodes["out"] else ""
    counts = ", ".join(f"{n} {words.VERDICTS[key].label.lower()}" for key, n in view.tally(results))
    return (
        f"{nodes['answered']} of {nodes['declared']} nodes answered{out}; "
        f"{checks['judged']} of {checks['applicable']} checks that apply were judged, "
        f"{cells['judged']} of {cells['expected']} values ({counts})"
    )


def _finding(check_id: str, check: Check) -> Iterator[Line]:
    verdict = check["verdict"]
    yield Line("")
    yield Line(f"{verdict.upper():<6} {check_id}", words.VERDICTS[verdict].colour)
    yield Line(f"       {check['title']}")
    if "placement" in check:
        yield Line(f"       {check['placement']}")
    yield from (Line(f"       {text}") for text in view.row_lines(check))
    if not check["observations"]:
        yield Line(f"       {check['reason']}")
    yield Line(f"       {': '.join(view.advice(check))}")


def _others(found: causes.Finding) -> Iterator[Line]:
    if not found.others:
        return
    why = "for the same cause not judged" if found.unjudged else "most likely of the same cause"
    yield Line(f"       {why}: {_ids(found.others)}")


def _left_to_do(results: Results) -> Iterator[Line]:
    groups = [f"not run, {reason}: {_folded(results, checks)}" for reason, checks in view.reasons(results)]
    groups += [f"needs {words.SEATS[seat]}: {_ids(checks)}" for seat, checks in view.seats(results)]
    if results["return_list"]:
        returned = shorten(fold(entry["where"] for entry in results["return_list"]))
        groups.insert(0, f"to return for repair: {returned}")
    if groups:
        yield Line("")
    yield from map(Line, groups)


def _folded(results: Results, checks: Sequence[tuple[str, Check]]) -> str:
    """Name checks; a phase of which all that apply are among them is named as one."""
    of_phase = Counter(check["phase"] for check in results["checks"].values() if check["verdict"] != "skip")
    here = Counter(check["phase"] for _, check in checks)
    whole = [phase for phase, count in here.items() if count == of_phase[phase] > 1]
    named = [f"all {here[phase]} checks of {phase} that apply" for phase in whole]
    rest = [pair for pair in checks if pair[1]["phase"] not in whole]
    return ", ".join([*named, *([_ids(rest)] if rest else [])])


def _ids(checks: Sequence[tuple[str, Check]]) -> str:
    return ", ".join(check_id for check_id, _ in checks)


def _wrap(text: str, width: int) -> list[str]:
    indent = text[: len(text) - len(text.lstrip())]
    return textwrap.wrap(
        text, width, subsequent_indent=f"{indent}  ", break_on_hyphens=False, break_long_words=False
    ) or [""]


def _printable(text: str) -> str:
    """Replace what could move a terminal's cursor or hide a line: evidence is not trusted."""
    return "".join(char if char.isprintable() else " " for char in text)
