"""What each node and each rack was worth in a month: every second is counted once, as somebody's.

For a node the provider's outages, and the time in which it had not passed its test again, are joined where
it was in order for less than `settled` in between, and count from `shortest` on. What falls into a window
that was agreed or announced in time, or into a fault of our own, is taken out; what is left lowers the
availability. All other seconds are told by who took the node out, and lower nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from gpuassay.sla.clauses import announced, unproven
from gpuassay.sla.outages import Actor
from gpuassay.sla.spans import ALWAYS, NOTHING, Spans, both, closed, lasting, minus, seconds, union

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpuassay.sla.moments import Month
    from gpuassay.sla.outages import History, Outage, State, Window
    from gpuassay.sla.spans import Span
    from gpuassay.sla.terms import Terms

CLASSES = ("down", "degraded", "maintenance", "doubtful", "unknown", "ours", "tenant", "brief")
"""As what a second that was not in order can count: the first of these that it is.

Doubtful is what fell into a window of which nobody says when it was announced. Unknown comes before ours and
the tenant's: while the tenant has drained a node, nobody may know whether it would have worked.
"""


@dataclass(frozen=True, slots=True)
class Standing:
    """One node over all time: the classes, which share no second.

    ``lighter`` is the part of each class that would be down in which the node was no more than degraded.
    """

    of: Mapping[str, Spans]
    lighter: Mapping[str, Spans]

    def within(self, span: Span) -> Mapping[str, int]:
        """Count the seconds of each class in a time."""
        return {name: seconds(both(spans, (span,))) for name, spans in self.of.items()}

    def weighted(self, name: str, span: Span, share: Fraction) -> Fraction:
        """Count a class as if it were held against the provider: degraded time by its share."""
        lighter = seconds(both(self.lighter.get(name, NOTHING), (span,)))
        return seconds(both(self.of[name], (span,))) - (1 - share) * lighter


@dataclass(frozen=True, slots=True)
class Line:
    """A node or a rack in a month.

    ``counted`` is the time held against the provider; ``unknown`` may be more of it: time of which nothing is
    known, or not whether it was excused. ``of`` tells every second that was not in order by its class.
    """

    unit: str
    kind: str
    month: Month
    length: int
    counted: Fraction
    unknown: Fraction
    of: Mapping[str, int]

    @property
    def best(self) -> Fraction:
        """The availability if all that is unknown was in order."""
        return 1 - self.counted / self.length

    @property
    def worst(self) -> Fraction:
        """The availability if nothing that is unknown was."""
        return max(Fraction(0), 1 - (self.counted + self.unknown) / self.length)


def standing(node: str, history: History, terms: Terms) -> Standing:
    """Sort all of a node's time into classes."""
    own = [outage for outage in history.outages if outage.node == node]
    raw_down = union(_when(own, Actor.PROVIDER, "down"), unproven(node, history.tests, terms.acceptance))
    raw = union(raw_down, _when(own, Actor.PROVIDER, "degraded"))
    down = lasting(closed(raw_down, terms.down.settled_s), terms.down.shortest_s)
    out = union(down, lasting(closed(raw, terms.down.settled_s), terms.down.shortest_s))
    ours, agreed, doubtful = _excuses([one for one in history.windows if one.covers(node)], terms)
    excused = union(ours, agreed, doubtful)
    dark = union(minus((ALWAYS,), history.known_of(node)), _when(own, Actor.UNSAID))
    found = {"down": minus(down, excused), "degraded": minus(minus(out, down), excused)}
    layers = {
        "maintenance": both(out, agreed),
        "doubtful": both(out, doubtful),
        "unknown": minus(dark, union(ours, agreed)),
        "ours": union(both(out, ours), _when(own, Actor.OURS)),
        "tenant": _when(own, Actor.TENANT),
        "brief": raw,
    }
    for name, spans in layers.items():
        found[name] = minus(spans, union(*found.values()))
    lighter = {name: minus(found[name], down) for name in ("maintenance", "doubtful")}
    return Standing(found, {**lighter, "degraded": found["degraded"]})


def _excuses(windows: Sequence[Window], terms: Terms) -> tuple[Spans, Spans, Spans]:
    """Give the time of our own faults, of maintenance announced in time, and of that which may have been."""
    ours = union((one.begin, one.until) for one in windows if one.ours)
    met, unknown = (
        union((one.begin, one.until) for one in windows if not one.ours and announced(one, terms) == kept)
        for kept in ("met", "unknown")
    )
    return ours, minus(met, ours), minus(unknown, union(ours, met))


def node_line(node: str, month: Month, stands: Standing, terms: Terms) -> Line:
    """Account for a node in a month: with all that is doubtful excused, and with nothing of it."""
    share, span = terms.down.degraded_counts, month.span
    certain = sum((stands.weighted(name, span, share) for name in ("down", "degraded")), Fraction(0))
    excused, doubtful = (stands.weighted(name, span, share) for name in ("maintenance", "doubtful"))
    of = stands.within(span)
    best = certain + _beyond(excused + doubtful, terms)
    worst = certain + _beyond(excused, terms) + doubtful + of["unknown"]
    return Line(node, "node", month, _length(month), best, worst - best, of)


def rack_line(rack: str, month: Month, nodes: Sequence[Standing], terms: Terms) -> Line:
    """Account for a rack in a month: it is down while so many of its nodes are, whoever's each class is.

    Each class is what it adds to those before it: a rack is down by maintenance when it would not be by the
    provider's outages alone.
    """

    def lost(*classes: str) -> Spans:
        weighted = (pair for stands in nodes for name in classes for pair in _weights(stands, name, terms))
        return _at_least(weighted, month.span, terms.rack.down_at)

    shown = [("down", "degraded"), *((name,) for name in CLASSES[2:-1])]
    layers = [
        lost(*(name for names in shown[: number + 1] for name in names)) for number in range(len(shown))
    ]
    sums = [0, *map(seconds, layers)]
    of = dict.fromkeys(CLASSES, 0)
    of |= {names[0]: sums[number + 1] - sums[number] for number, names in enumerate(shown)}
    best = _with_excuse(layers[0], lost("down", "degraded", "maintenance", "doubtful"), terms)
    held = ("down", "degraded", "doubtful", "unknown")
    worst = _with_excuse(lost(*held), lost(*held, "maintenance"), terms)
    return Line(rack, "rack", month, _length(month), best, worst - best, of)


def _weights(stands: Standing, name: str, terms: Terms) -> Iterator[tuple[Spans, Fraction]]:
    """Give how much of a node is lost in a class: all of it, or its share while it was but degraded."""
    yield stands.of[name], Fraction(1)
    yield stands.lighter.get(name, NOTHING), terms.down.degraded_counts - 1


def _with_excuse(down: Spans, also: Spans, terms: Terms) -> Fraction:
    """Count what is down, and of what would be down with the excused time beside it, all beyond the most."""
    return seconds(down) + _beyond(Fraction(seconds(also) - seconds(down)), terms)


def _at_least(weighted: Iterable[tuple[Spans, Fraction]], span: Span, limit: int) -> Spans:
    """Find when the weights of all spans of a time come to a limit."""
    steps: dict[int, Fraction] = {}
    for spans, weight in weighted:
        for begin, end in both(spans, (span,)) if weight else NOTHING:
            steps[begin] = steps.get(begin, Fraction(0)) + weight
            steps[end] = steps.get(end, Fraction(0)) - weight
    found: list[Span] = []
    total, since = Fraction(0), 0
    for moment in sorted(steps):
        if total >= limit:
            found.append((since, moment))
        total, since = total + steps[moment], moment
    return union(found)


def _when(outages: Iterable[Outage], by: Actor, state: State | None = None) -> Spans:
    return union(
        (outage.begin, ALWAYS[1] if outage.until is None else outage.until)
        for outage in outages
        if outage.by is by and state in (None, outage.state)
    )


def _beyond(excused: Fraction, terms: Terms) -> Fraction:
    """Give what of the excused time is more maintenance than a month may have."""
    return max(Fraction(0), excused - terms.maintenance.most_s)


def _length(month: Month) -> int:
    return month.span[1] - month.span[0]
