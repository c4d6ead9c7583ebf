"""The clauses beside availability: notice of maintenance, tests of swapped nodes, the pool of spares.

Each is met, missed, or unknown where no history that was given tells of it, and says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Literal, TypeAlias

from gpuassay.sla.moments import lasted, written
from gpuassay.sla.outages import AGREED, STEPS
from gpuassay.sla.spans import ALWAYS, both, minus, seconds, union

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpuassay.sla.judged import Contract
    from gpuassay.sla.outages import History, Pool, Proof, Window
    from gpuassay.sla.spans import Span, Spans
    from gpuassay.sla.terms import Acceptance, Spares, Terms

Told: TypeAlias = tuple[Literal["met", "missed", "unknown"], str]


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause, and what came of each thing that is held to it; ``silent`` says why where there is none."""

    name: Literal["notice", "retest", "spares"]
    promised: str
    told: tuple[Told, ...]
    silent: str = ""


def clauses(history: History, contract: Contract, terms: Terms) -> list[Clause]:
    """Hold a history to all of them that apply: without a window there was nothing to announce."""
    notice = _notice(history, contract, terms)
    asked = [_retests(history, contract, terms.acceptance)] if terms.acceptance.retest_swapped else []
    return [*([notice] if notice.told else []), *asked, _spares(history, contract, terms.spares)]


def announced(window: Window, terms: Terms) -> Literal["met", "missed", "unknown"]:
    """Say whether a window of maintenance was agreed, or announced early enough."""
    if window.announced is None:
        return "unknown"
    return "met" if window.begin - window.announced >= terms.maintenance.notice_s else "missed"


def _notice(history: History, contract: Contract, terms: Terms) -> Clause:
    """Hold each window of maintenance in the time and of the nodes of a contract to the promised notice."""
    own = {
        (one.begin, one.until, *_told_of(one, contract, terms))
        for one in history.windows
        if not one.ours
        and both(((one.begin, one.until),), (contract.span,))
        and any(map(one.covers, contract.nodes))
    }
    told: list[Told] = [(outcome, said) for _, _, outcome, said in sorted(own)]
    promised = f"announced {lasted(terms.maintenance.notice_s)} before it begins"
    return Clause("notice", promised, tuple(told))


def _told_of(window: Window, contract: Contract, terms: Terms) -> Told:
    if window.announced is None:
        said = "nobody says when it was announced"
    elif window.announced == AGREED:
        said = "agreed"
    elif window.announced > window.begin:
        said = f"announced {lasted(window.announced - window.begin)} after it began"
    else:
        said = f"announced {lasted(window.begin - window.announced)} before"
    return announced(window, terms), f"{written(window.begin, contract.zone)}: {said}"


def unproven(node: str, tests: Iterable[Proof], terms: Acceptance) -> Spans:
    """Give the time from when a node was swapped, or failed its test, until it passed.

    Where terms ask for no test of what was swapped, only a failed one takes it out.
    """
    found: list[Span] = []
    since: int | None = None
    for at, step in sorted((one.at, STEPS.index(one.step)) for one in tests if one.node == node):
        if STEPS[step] == "passed":
            found += [] if since is None else [(since, at)]
            since = None
        elif since is None and (terms.retest_swapped or STEPS[step] == "failed"):
            since = at
    return union(found, [] if since is None else [(since, ALWAYS[1])])


def _retests(history: History, contract: Contract, terms: Acceptance) -> Clause:
    """Hold the first test after each swap to the time in which it was promised."""
    begin, end = contract.span
    swaps = {(one.at, one.node) for one in history.tests if one.step == "swapped" and begin <= one.at < end}
    told = [
        _retest(node, at, history.tests, terms, end) for at, node in sorted(swaps) if node in contract.nodes
    ]
    silent = "no history tells of swapped nodes: those of schedulers do not, one that is kept by hand can"
    return Clause("retest", f"tested within {lasted(terms.retest_within_s)} of a swap", tuple(told), silent)


def _retest(node: str, at: int, tests: Iterable[Proof], terms: Acceptance, end: int) -> Told:
    after = [one.at for one in tests if one.node == node and one.step != "swapped" and one.at >= at]
    if after:
        kept = min(after) - at <= terms.retest_within_s
        return "met" if kept else "missed", f"{node}: tested {lasted(min(after) - at)} after its swap"
    if at + terms.retest_within_s <= end:
        return "missed", f"{node}: swapped, and not tested again"
    return "unknown", f"{node}: swapped, and the time for its test is not over"


def needed(sold: int, terms: Spares) -> int:
    """Say how many spares are promised for so many nodes that were sold; a part of a node is a whole one."""
    return max(terms.least, ceil(terms.share * sold))


def _spares(history: History, contract: Contract, terms: Spares) -> Clause:
    """Hold the pool to what was promised; a spare that took another's place is made good within a time."""
    least, span = needed(len(contract.nodes), terms), (contract.span,)
    levels = list(_levels(history.pools))
    low = union((begin, until) for begin, until, healthy in levels if healthy < least)
    short = both(union((begin + terms.refill_s, until) for begin, until in low), span)
    dark = seconds(minus(span, union((begin, until) for begin, until, _ in levels)))
    told: Told = ("met", "never fewer for longer")
    if short:
        told = "missed", f"fewer for {lasted(seconds(short))} beyond that time"
    elif dark:
        told = "unknown", f"for {lasted(dark)} nobody says how many there were"
    promised = f"{least} healthy, used ones made good within {lasted(terms.refill_s)}"
    silent = "no history tells of spares: those of schedulers do not, one that is kept by hand can"
    return Clause("spares", promised, (told,) if levels else (), silent)


def _levels(pools: Iterable[Pool]) -> Iterator[tuple[int, int, int]]:
    """Give each stretch with its number of spares; of two that tell of one moment the smaller counts."""
    at: dict[int, int] = {}
    for pool in pools:
        at[pool.at] = min(pool.healthy, at.get(pool.at, pool.healthy))
    moments = sorted(at)
    for begin, until in zip(moments, [*moments[1:], ALWAYS[1]], strict=bool(moments)):
        yield begin, until, at[begin]
