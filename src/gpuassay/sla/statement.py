"""What a check of histories comes to: one document, and the table that is written from it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypeAlias

from gpuassay.sla.account import CLASSES
from gpuassay.sla.clauses import clauses
from gpuassay.sla.judged import TIMES, percent, rights, timed, together
from gpuassay.sla.moments import lasted, written

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from fractions import Fraction

    from gpuassay.sla.clauses import Clause
    from gpuassay.sla.judged import Contract, Judged
    from gpuassay.sla.outages import History, Timed
    from gpuassay.sla.terms import Terms

Document: TypeAlias = dict[str, Any]

SCHEMA = 1
COLUMNS = ("unit", "month", "availability", "promised", "outcome", "credit", *CLASSES)


def document(contract: Contract, history: History, terms: Terms, judged: Sequence[Judged]) -> Document:
    """Write all of it down: numbers as whole seconds, and shares as exact fractions beside their words."""
    zone = contract.zone
    times = [_timed(one, terms) for one in history.times if one.node in contract.nodes]
    owed = [one.outcome for one in judged if not one.rack]
    held = [_clause(one) for one in clauses(history, contract, terms)]
    return {
        "schema": SCHEMA,
        "sla": {"name": terms.name, "title": terms.title, "digest": terms.digest},
        "from": written(contract.span[0], zone),
        "until": written(contract.span[1], zone),
        "zone": zone.key,
        "outcome": together([*owed, *_known(times), *(one["outcome"] for one in held if one["told"])]),
        "lines": [_line(one, contract) for one in judged],
        "credits": _credits(judged),
        "termination": [
            {"unit": right.unit, "why": right.why} for right in rights(judged, terms.termination)
        ],
        "clauses": held,
        "times": times,
        "outages": [
            {
                "node": one.node,
                "state": one.state,
                "from": one.begin,
                "until": one.until,
                "by": one.by.value,
                "reason": one.reason,
                "source": one.source,
            }
            for one in sorted(history.outages, key=lambda one: (one.begin, one.node, one.source))
            if one.node in contract.nodes
        ],
        "notes": [*history.notes, *_strangers(contract, history)],
    }


def table(found: Mapping[str, Any]) -> Iterator[str]:
    """Write the document for a terminal."""
    span = f"{found['from']} to {found['until']} ({found['zone']})"
    dark = [one["clause"] for one in found["clauses"] if one["outcome"] == "unknown"]
    but = f" (unknown: {', '.join(dark)})" if dark else ""
    yield f"{found['sla']['title']}: {found['outcome']}{but}, {span}"
    yield ""
    rows = [COLUMNS, *(_cells(line) for line in found["lines"])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    yield ""
    for kind, credit in found["credits"].items():
        owed = (
            credit["least"] if credit["least"] == credit["most"] else f"{credit['least']} to {credit['most']}"
        )
        yield f"credits: {owed} of the monthly fee of one {kind}"
    for right in found["termination"]:
        yield f"right to terminate: {right['unit']}: {right['why']}"
    for one in found["clauses"]:
        yield f"{one['clause']}: {one['promised']}: {one['outcome']}: {one['why']}"
    for one in found["times"]:
        said = ", ".join(f"{key} {one[key]['says']} ({one[key]['outcome']})" for key in TIMES)
        yield f"broken on purpose: {one['node']}, {one['what']}: {said}"
    for note in found["notes"]:
        yield f"note: {note}"


def _line(one: Judged, contract: Contract) -> Document:
    line = one.line
    return {
        "unit": line.unit,
        "kind": line.kind,
        "rack": one.rack,
        "month": line.month.name,
        "whole_month": line.month.whole,
        "from": written(line.month.span[0], contract.zone),
        "until": written(line.month.span[1], contract.zone),
        "seconds": line.length,
        "counted_s": _exact(line.counted),
        "unknown_s": _exact(line.unknown),
        "by": dict(line.of),
        "availability": {
            "least": percent(line.worst),
            "most": percent(line.best),
            "exact": [_exact(line.worst), _exact(line.best)],
        },
        "promised": percent(one.promised),
        "outcome": one.outcome,
        "credit_percent": [one.least, one.most],
    }


def _cells(line: Mapping[str, Any]) -> tuple[str, ...]:
    available, (least, most) = line["availability"], line["credit_percent"]
    alike = available["least"] == available["most"]
    credit = f"{least} %" if least == most else f"{least} to {most} %"
    return (
        line["unit"],
        line["month"] + ("" if line["whole_month"] else " (part)"),
        available["most"] if alike else f"{available['least']} to {available['most']}",
        line["promised"],
        line["outcome"],
        f"by {line['rack']}" if line["rack"] else credit,
        *(lasted(line["by"][name]) if line["by"][name] else "-" for name in CLASSES),
    )


def _credits(judged: Sequence[Judged]) -> Mapping[str, Document]:
    """Add up what is owed, in monthly fees of one node and of one rack."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for one in judged:
        if not one.rack:
            sums[one.line.kind][0] += one.least
            sums[one.line.kind][1] += one.most
    return {kind: {"least": f"{least} %", "most": f"{most} %"} for kind, (least, most) in sums.items()}


def _clause(one: Clause) -> Document:
    outcome = together(kept for kept, _ in one.told)
    why = [said for kept, said in one.told if kept == outcome]
    return {
        "clause": one.name,
        "promised": one.promised,
        "outcome": outcome,
        "why": "; ".join(why) or one.silent,
        "told": [{"outcome": kept, "says": said} for kept, said in one.told],
    }


def _timed(one: Timed, terms: Terms) -> Document:
    promised = {
        "detect": terms.times.detect_s,
        "isolate": terms.times.isolate_s,
        "replace": terms.times.replace_s,
    }
    found: Document = {"node": one.node, "what": one.what, "source": one.source}
    for key in TIMES:
        seconds = one.seconds.get(key)
        says = one.why.get(key, "not measured") if seconds is None else f"{seconds:g} s"
        found[key] = {
            "seconds": seconds,
            "promised_s": promised[key],
            "outcome": timed(seconds, promised[key]),
            "says": says,
        }
    return found


def _known(times: Sequence[Document]) -> list[Any]:
    """Give the outcomes of what was timed: a time that was not taken hides no availability."""
    return [one[key]["outcome"] for one in times for key in TIMES if one[key]["seconds"] is not None]


def _strangers(contract: Contract, history: History) -> Iterator[str]:
    strangers = sorted({one.node for one in history.outages} - set(contract.nodes))
    if strangers:
        yield f"histories also speak of {', '.join(strangers)}, which --nodes does not name: not counted"


def _exact(number: Fraction) -> str:
    return str(number)
