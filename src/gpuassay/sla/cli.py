"""``gpuassay sla``: show terms as text, and hold node histories to them."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gpuassay import options as words
from gpuassay.judge.names import expand
from gpuassay.sla import moments
from gpuassay.sla.judged import Contract, judge
from gpuassay.sla.outages import AGREED, Actor, History, Window, joined
from gpuassay.sla.readers import ReadError, Reading
from gpuassay.sla.readers.any import read
from gpuassay.sla.statement import document, table
from gpuassay.sla.template import TEMPLATES, load
from gpuassay.sla.text import render

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from zoneinfo import ZoneInfo

    from gpuassay.sla.terms import Terms

MISSED = 1
_TERMS = f"{', '.join(TEMPLATES)}, or the path of a file of yours"
_BOUNDS = (("--from", "begin"), ("--until", "until"))
CORDONS: Mapping[str, Actor | None] = {
    "unknown": None,
    "provider": Actor.PROVIDER,
    "tenant": Actor.TENANT,
}


def answer(arguments: Sequence[str], suite: Path | None = None) -> tuple[list[str], int]:
    """Give the lines to print and the exit status. Raises ReadError and ConfigError.

    ``suite`` is the folder whose tables a recording is read by.
    """
    options = _parser().parse_args(arguments, argparse.Namespace(suite=suite))
    lines, status = options.answer(options)
    return lines, status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpuassay sla", description="What was promised, and what was kept.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    show = commands.add_parser("show", help="write terms as text, to be read and signed")
    show.add_argument("terms", help=_TERMS)
    show.set_defaults(answer=_show)
    check = commands.add_parser(
        "check", help="availability, downtime by who caused it, and credits, by month"
    )
    check.add_argument("events", nargs="+", type=Path, metavar="EVENTS", help="files, or recordings of ours")
    check.add_argument("--sla", required=True, metavar="TERMS", help=_TERMS)
    check.add_argument(
        "--from", dest="begin", required=True, metavar="TIME", help="what is accounted for: from"
    )
    check.add_argument(
        "--until", required=True, metavar="TIME", help="… until, when the histories were taken"
    )
    check.add_argument("--zone", type=_zone, default="UTC", help="of months, and of times without one (UTC)")
    check.add_argument("--nodes", type=words.nodes, default=(), metavar="NODES", help="what was sold")
    check.add_argument("--rack", action="append", type=_rack, default=[], metavar="NAME=NODES")
    check.add_argument(
        "--maintenance",
        action="append",
        default=[],
        metavar="[ANNOUNCED/]BEGIN/END[=NODES]",
        help="a window, and when it was announced; agreed/BEGIN/END for one that both agreed to",
    )
    check.add_argument(
        "--tenant", action="append", default=[], metavar="USER", help="of Slurm, not the provider's"
    )
    check.add_argument("--cordons", choices=CORDONS, default="unknown", help="whose those of Kubernetes are")
    check.add_argument("--json", action="store_true", help="write the document, not the table")
    check.set_defaults(answer=_check)
    return parser


def _show(options: argparse.Namespace) -> tuple[list[str], int]:
    return render(load(options.terms)).splitlines(), 0


def _check(options: argparse.Namespace) -> tuple[list[str], int]:
    terms = load(options.sla)
    contract = _contract(options, terms)
    how = Reading(
        options.zone,
        frozenset(options.tenant),
        CORDONS[options.cordons],
        grace_s=terms.times.replace_s,
        suite=options.suite,
    )
    windows = tuple(_maintenance(text, options.zone) for text in options.maintenance)
    history = joined([*(read(path, how) for path in options.events), History(windows=windows)])
    found = document(contract, history, terms, judge(contract, history, terms))
    shown = (
        json.dumps(found, ensure_ascii=False, indent=1).splitlines() if options.json else list(table(found))
    )
    return shown, MISSED if found["outcome"] == "missed" else 0


def _contract(options: argparse.Namespace, terms: Terms) -> Contract:
    racks = dict(options.rack)
    for name, nodes in racks.items():
        if len(nodes) != terms.rack.nodes:
            raise ReadError(
                f"--rack={name}: {len(nodes)} nodes; a rack of {terms.name} has {terms.rack.nodes}"
            )
    in_racks = [node for nodes in racks.values() for node in nodes]
    twice = sorted({node for node in in_racks if in_racks.count(node) > 1})
    if twice or len(racks) != len(options.rack):
        raise ReadError(f"--rack: named twice: {', '.join(twice) or 'a rack'}")
    nodes = tuple(dict.fromkeys([*options.nodes, *in_racks]))
    if not nodes:
        raise ReadError(
            "--nodes or --rack: expected the nodes that were sold; histories name only those that failed"
        )
    begin, end = (_moment(name, getattr(options, key), options.zone) for name, key in _BOUNDS)
    if begin >= end:
        raise ReadError("--until: it does not come after --from")
    if end > datetime.now(UTC).timestamp():
        raise ReadError("--until: it lies in the future, of which no history tells")
    return Contract(nodes, racks, (begin, end), options.zone)


def _moment(name: str, text: str, zone: ZoneInfo) -> int:
    try:
        found = moments.read(text, zone)
    except ValueError as error:
        raise ReadError(f"{name}: {error}") from error
    if found.late > found.early:
        raise ReadError(f"{name}: clocks in {zone.key} show {text} twice: write its offset, such as +01:00")
    return found.early


def _maintenance(text: str, zone: ZoneInfo) -> Window:
    """Read a window, with the nodes that it is for; of all of them without."""
    span, _, named = text.partition("=")
    match span.split("/"):
        case [begin, end]:
            told = None
        case ["agreed", begin, end]:
            told = AGREED
        case [told_at, begin, end]:
            told = _moment("--maintenance", told_at, zone)
        case _:
            raise ReadError(
                f"--maintenance={text}: expected BEGIN/END, ANNOUNCED/BEGIN/END or agreed/BEGIN/END"
            )
    first, last = (_moment("--maintenance", moment, zone) for moment in (begin, end))
    if first >= last:
        raise ReadError(f"--maintenance={text}: it ends before it begins")
    try:
        nodes = frozenset(expand(named)) if named else frozenset[str]()
    except ValueError as error:
        raise ReadError(f"--maintenance={text}: {error}") from error
    return Window(first, last, nodes=nodes, announced=told)


def _rack(text: str) -> tuple[str, tuple[str, ...]]:
    name, found, nodes = text.partition("=")
    if not name or not found:
        raise argparse.ArgumentTypeError(f"expected NAME=NODES, found {text}")
    return name, words.nodes(nodes)


def _zone(text: str) -> ZoneInfo:
    try:
        return moments.zone_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
