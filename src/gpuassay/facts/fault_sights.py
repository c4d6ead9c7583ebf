"""What eyes saw, in one form whatever the scheduler; and the stopwatch that reads times from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuassay.evidence.item import Item


OURS, TENANT = "ours", "tenant"
NOT_THEIRS = frozenset({OURS, TENANT})
"""Whose changes are none of the provider's."""

_BOOT_S = 5.0  # schedulers count a node's boot from its uptime, which jitters by a second or two


@dataclass(frozen=True, slots=True)
class Sight:
    """One change, seen ``at_s`` seconds after the trial began; it happened after ``since_s``.

    ``out``: whether the node is kept out of service; ``lets_in``: whether a pinned job finds a place there;
    ``in_service``: the nodes that work can go to; ``identity``: what changes with a boot or another machine;
    ``booted_s``: when it booted, by its own clock, for schedulers that say it no better than to some seconds;
    ``whole``: whether all GPUs that it had can be given out there;
    ``notified``: whether an alert, ticket or message about the node is there. None is not told by this sight.
    ``by`` is who did it, as far as the source says: ``ours`` for ourselves, ``tenant`` for who started us.
    """

    at_s: float
    since_s: float
    source: str
    words: str
    evidence: str
    out: bool | None = None
    lets_in: bool | None = None
    in_service: frozenset[str] | None = None
    identity: str | None = None
    booted_s: float | None = None
    whole: bool | None = None
    notified: bool | None = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class Moment:
    """When something was first seen, in seconds after the fault: at the latest ``s``, after ``since_s``."""

    s: float
    since_s: float
    sight: Sight


def times(item: Item) -> tuple[float, float]:
    """Give when a change was seen and when the look before began, in seconds of the trial's clock."""
    at_s = number(item.asked.get("at_s"))
    return at_s, min(at_s, number(item.asked.get("since_s", at_s)))


class Injected(NamedTuple):
    """When a fault was begun to be made, and when it was proven; tooling may be quicker than the proof."""

    began_s: float
    proven_s: float


def first(
    sights: Sequence[Sight], fault: Injected, is_it: Callable[[Sight, Sight | None], bool]
) -> Moment | None:
    """Find the first sight after the fault for which ``is_it`` (it, and what that source said before) holds.

    Sights of a source before the fault are its baseline.
    """
    before: dict[str, Sight] = {}
    for sight in sorted(sights, key=lambda one: one.at_s):
        if sight.at_s > fault.began_s and is_it(sight, before.get(sight.source)):
            return _moment(sight, fault)
        before[sight.source] = sight
    return None


def detected(sight: Sight, before: Sight | None) -> bool:
    """Tell whether the provider's side has made a change: the node's state, or a message about it."""
    if notified(sight, before):
        return True
    if sight.by in NOT_THEIRS or before is None or sight.out is None:
        return False
    return (sight.out, sight.by, sight.words) != (before.out, before.by, before.words)


def taken_out(sight: Sight, before: Sight | None) -> bool:
    """Tell whether the node was taken out of service by somebody else."""
    newly = before is None or before.out is not True or before.by in NOT_THEIRS
    return sight.out is True and sight.by not in NOT_THEIRS and newly


def isolated(sight: Sight, _before: Sight | None) -> bool:
    """Tell whether a job pinned to the node is refused."""
    return sight.lets_in is False


def notified(sight: Sight, before: Sight | None) -> bool:
    """Tell whether an alert, a ticket or a message about the node is there that was not before."""
    known = before is not None and before.notified is True and before.words == sight.words
    return sight.notified is True and not known


@dataclass(frozen=True, slots=True)
class Return:
    """How work can go to a node again after one was taken out; ``node`` is empty for the same name.

    ``other``: it is another machine, or has booted since. Else the very same one was let in again.
    """

    moment: Moment
    other: bool
    node: str = ""


def returned(sights: Sequence[Sight], fault: Injected) -> Return | None:
    """Find the first time after the node was taken out that it, or a node that was not there, serves."""
    was: dict[str, Sight] = {}
    fleet: frozenset[str] | None = None
    out = False
    for sight in sorted(sights, key=lambda one: one.at_s):
        if sight.at_s <= fault.began_s:
            was[sight.source] = sight
            fleet = fleet if sight.in_service is None else sight.in_service
            continue
        out = out or (sight.out is True and sight.by not in NOT_THEIRS)
        if out and sight.out is False and sight.whole is not False:
            return Return(_moment(sight, fault), another(sight, was.get(sight.source)))
        new = sorted((sight.in_service or frozenset()) - fleet) if out and fleet is not None else []
        if new:
            return Return(_moment(sight, fault), other=True, node=new[0])
    return None


def restored(sights: Sequence[Sight], fault: Injected) -> Moment | None:
    """Find when as many nodes were in service again as before the fault, after there were fewer."""
    whole, fewer = None, False
    for sight in sorted(sights, key=lambda one: one.at_s):
        if sight.in_service is None:
            continue
        count = len(sight.in_service)
        if sight.at_s <= fault.began_s:
            whole = count
        elif whole is not None and count < whole:
            fewer = True
        elif whole is not None and fewer:
            return _moment(sight, fault)
    return None


def another(sight: Sight, before: Sight | None) -> bool:
    """Tell whether a node is another machine, or has booted, since it was seen before."""
    if before is None:
        return False
    if sight.identity and before.identity and sight.identity != before.identity:
        return True
    if sight.booted_s is None or before.booted_s is None:
        return False
    return abs(sight.booted_s - before.booted_s) > _BOOT_S


def _moment(sight: Sight, fault: Injected) -> Moment:
    at_s, since_s = (max(0.0, round(seen_s - fault.proven_s, 1)) for seen_s in (sight.at_s, sight.since_s))
    return Moment(at_s, since_s, sight)


def number(value: object) -> float:
    """Read a number; 0 for what is none."""
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known else 0.0  # type: ignore[arg-type]
