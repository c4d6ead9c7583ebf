"""The normal form of every history: which node was out, from when until when, by whom, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from gpuassay.sla.spans import ALWAYS, NOTHING, Spans, minus, union

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

State: TypeAlias = Literal["down", "degraded"]


AGREED: Final = ALWAYS[0]
"""The announcement of a window to which both agreed, however late: before all time."""

Step: TypeAlias = Literal["swapped", "passed", "failed"]
STEPS: Final[tuple[Step, ...]] = ("swapped", "passed", "failed")
"""In the order in which they count where they are of one second."""


class Actor(Enum):
    """Who took a node out. ``UNSAID``: the source does not say, so whose time it is stays unknown."""

    PROVIDER = "provider"
    TENANT = "tenant"
    OURS = "ours"
    UNSAID = "unsaid"


@dataclass(frozen=True, slots=True)
class Outage:
    """One node out of service, in seconds since 1970; ``until`` is None while it lasts.

    ``down``: no new work can go there. ``degraded``: it can, and less is there than was sold. ``source``
    is the file and the place in it.
    """

    node: str
    state: State
    begin: int
    until: int | None
    by: Actor
    reason: str
    source: str


@dataclass(frozen=True, slots=True)
class Window:
    """A time in which nodes may be out without it being held against the provider; no ``nodes``: all of them.

    Maintenance is what was ``announced`` early enough (None: nobody says when) or agreed by both, never what
    a provider calls so afterwards; ours is the time in which we had broken something ourselves.
    """

    begin: int
    until: int
    ours: bool = False
    nodes: frozenset[str] = frozenset()
    announced: int | None = AGREED

    def covers(self, node: str) -> bool:
        """Tell whether it is for a node."""
        return not self.nodes or node in self.nodes


@dataclass(frozen=True, slots=True)
class Proof:
    """What became of a node in the acceptance test: another machine took its place, or it was tested."""

    node: str
    at: int
    step: Step
    source: str


@dataclass(frozen=True, slots=True)
class Pool:
    """How many healthy nodes waited to take another's place, from then until the next one says otherwise."""

    at: int
    healthy: int
    source: str


@dataclass(frozen=True, slots=True)
class Timed:
    """How fast a provider was when something was broken on purpose.

    ``seconds`` holds what is known of detect, isolate and replace; ``why`` says of the others why it is not.
    """

    node: str
    what: str
    seconds: Mapping[str, float]
    why: Mapping[str, str]
    source: str


@dataclass(frozen=True, slots=True)
class History:
    """What sources say of nodes.

    ``throughout`` are the times of which a source writes down every change of every node: what it does not
    mention was in order. ``known`` are those of which it tells of one node only. Outside both nothing is
    known. ``doubts`` are times that cannot be told, such as the hour that a clock shows twice. ``notes``
    say what of a source could not be used.
    """

    outages: tuple[Outage, ...] = ()
    windows: tuple[Window, ...] = ()
    throughout: Spans = NOTHING
    known: Mapping[str, Spans] = field(default_factory=dict)
    doubts: Mapping[str, Spans] = field(default_factory=dict)
    times: tuple[Timed, ...] = ()
    tests: tuple[Proof, ...] = ()
    pools: tuple[Pool, ...] = ()
    notes: tuple[str, ...] = ()

    def known_of(self, node: str) -> Spans:
        """Give the times of which it is known how a node was."""
        return minus(union(self.throughout, self.known.get(node, NOTHING)), self.doubts.get(node, NOTHING))


def joined(histories: Iterable[History]) -> History:
    """Join what several sources say; what one knows fills the gaps of another."""
    found = tuple(histories)
    return History(
        outages=tuple(outage for one in found for outage in one.outages),
        windows=tuple(window for one in found for window in one.windows),
        throughout=union(*(one.throughout for one in found)),
        known=_together(one.known for one in found),
        doubts=_together(one.doubts for one in found),
        times=tuple(timed for one in found for timed in one.times),
        tests=tuple(test for one in found for test in one.tests),
        pools=tuple(pool for one in found for pool in one.pools),
        notes=tuple(note for one in found for note in one.notes),
    )


def _together(maps: Iterable[Mapping[str, Spans]]) -> Mapping[str, Spans]:
    merged: dict[str, Spans] = {}
    for one in maps:
        for node, spans in one.items():
            merged[node] = union(merged.get(node, NOTHING), spans)
    return merged
