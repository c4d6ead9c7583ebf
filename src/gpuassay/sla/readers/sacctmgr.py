"""What Slurm's accounting has kept of its nodes: ``sacctmgr --parsable2 show event Start=… End=…``.

Slurm writes a line whenever a node goes down, is drained, or its reason or user changes; the lines of one
outage follow one another without a gap. A node that it never mentions was in service. Its times are those
of the machine it ran on, without a zone; with ``SLURM_TIME_FORMAT=%s`` they are seconds since 1970.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay.facts.slurm_state import Standing, read_state
from gpuassay.facts.text import brief
from gpuassay.sla import moments
from gpuassay.sla.outages import Actor, History, Outage
from gpuassay.sla.readers import Doubts, ReadError
from gpuassay.sla.spans import ALWAYS, union

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.sla.readers import Reading

_COLUMNS = ("NodeName", "TimeStart", "TimeEnd", "State", "Reason", "User")
_OPEN = ("Unknown", "None", "")
_OUT = (Standing.OUT, Standing.GONE)


def is_it(text: str) -> bool:
    """Tell whether a text is of this kind, from its header."""
    header = text.partition("\n")[0].split("|")
    return {"NodeName", "TimeStart"} <= set(header)


def read(text: str, name: str, how: Reading) -> History:
    """Read it. Raises ReadError."""
    head, *lines = text.splitlines()
    header = head.rstrip("|").split("|")
    missing = [column for column in _COLUMNS if column not in header]
    if missing:
        raise ReadError(f"{name}:1: no column {missing[0]}; expected format={','.join(_COLUMNS)}")
    doubts, clusters, since = Doubts(), set[str](), ALWAYS[1]
    outages: list[Outage] = []
    notes: list[str] = []
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            continue
        place = f"{name}:{number}"
        row = _cells(line, header, place)
        clusters.add(row.get("Cluster", ""))
        if row["NodeName"]:
            outages += _outage(row, place, how, doubts, notes)
        elif row["TimeStart"]:  # of the cluster: its accounting has begun, or its resources have changed
            since = min(since, _moment(row["TimeStart"], place, how).late)
    if len(clusters) > 1:
        raise ReadError(f"{name}: of several clusters ({', '.join(sorted(clusters))}); ask for one of them")
    if since == ALWAYS[1]:
        notes.append(f"{name}: has no line of the cluster, so it is not seen since when Slurm keeps account")
        since = ALWAYS[0]
    return History(
        outages=tuple(outages),
        throughout=((since, ALWAYS[1]),),
        doubts={node: union(spans) for node, spans in doubts.spans.items()},
        notes=tuple(notes),
    )


def _cells(line: str, header: Sequence[str], place: str) -> Mapping[str, str]:
    """Part a line; a reason may hold the separator itself, and no other column does."""
    cells = line.split("|")
    extra = len(cells) - len(header)
    if extra > 0 and line.endswith("|") and not cells[-1]:  # --parsable ends lines with one more
        cells, extra = cells[:-1], extra - 1
    if extra < 0:
        raise ReadError(f"{place}: {len(cells)} columns; expected {len(header)}")
    reason = header.index("Reason")
    joined = "|".join(cells[reason : reason + extra + 1])
    return dict(zip(header, [*cells[:reason], joined, *cells[reason + extra + 1 :]], strict=True))


def _outage(
    row: Mapping[str, str], place: str, how: Reading, doubts: Doubts, notes: list[str]
) -> Iterator[Outage]:
    state = read_state(row["State"])
    if state is None:
        raise ReadError(f"{place}: {brief(row['State'])!r} is no state of a node")
    if state.standing not in _OUT:
        notes.append(f"{place}: {row['NodeName']} was {state}, which is no outage")
        return
    begin = _moment(row["TimeStart"], place, how)
    lasts = row["TimeEnd"] in _OPEN
    end = None if lasts else _moment(row["TimeEnd"], place, how)
    if end is not None and end.late < begin.early:
        raise ReadError(f"{place}: it ends before it begins")
    doubts.note(row["NodeName"], begin)
    if end is not None:
        doubts.note(row["NodeName"], end)
    yield Outage(
        node=row["NodeName"],
        state="down",
        begin=begin.late,
        until=None if end is None else end.early,
        by=_actor(row, how),
        reason=brief(row["Reason"]) or str(state),
        source=place,
    )


def _moment(text: str, place: str, how: Reading) -> moments.Moment:
    try:
        return moments.read(text, how.zone)
    except ValueError as error:
        raise ReadError(f"{place}: {error}") from error


def _actor(row: Mapping[str, str], how: Reading) -> Actor:
    """Say who it was: a user of the tenant's, ourselves by our reason, or else the provider."""
    if row["Reason"].startswith("gpuassay"):
        return Actor.OURS
    return Actor.TENANT if row["User"].partition("(")[0] in how.tenants else Actor.PROVIDER
