"""What came of each fault over time: a lane for each source, on a scale for seconds and hours alike."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from gpuassay.judge.names import natural
from gpuassay.report.curves import Label

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.report.view import Results

WIDTH, LEFT, RIGHT, TOP, STEP, BOTTOM = 760.0, 110.0, 16.0, 30.0, 30.0, 22.0
_TICKS = (0, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200)
_APART = 44.0  # two labels need so much room
MOMENTS = {
    "detected": "first change by the provider's side",
    "isolated": "a job pinned to the node is refused",
    "notified": "an alert, ticket or message is there",
    "replaced": "a node serves in its place",
    "restored": "as many nodes in service as before",
    "down": "all nodes of the wave are out of service",
    "back": "all of them are in service again",
}
"""The stopwatch's times, in words."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a lane in one state; ``kind`` is its class, ``words`` what was seen at its begin."""

    x: float
    width: float
    kind: str
    text: str
    words: str


@dataclass(frozen=True, slots=True)
class Point:
    """An event on a lane."""

    x: float
    words: str


@dataclass(frozen=True, slots=True)
class Lane:
    """What one source said."""

    name: str
    y: float
    spans: Sequence[Span]
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class Timeline:
    """One trial: the picture, and what stands in the tables beneath it."""

    check: str
    told: Mapping[str, Any]
    height: float
    lanes: Sequence[Lane]
    across: Sequence[Label]
    marks: Sequence[Label]
    summary: str


def timelines(results: Results) -> list[Timeline]:
    """Draw each trial once, at the first check that it was done for."""
    found: list[Timeline] = []
    for check_id, check in sorted(results["checks"].items(), key=lambda pair: natural(pair[0])):
        known = [one.told for one in found]
        found += [_timeline(check_id, told) for told in check.get("trials", []) if told not in known]
    return found


def _timeline(check: str, told: Mapping[str, Any]) -> Timeline:
    events = told["events"]
    last = max([1.0, *(event["s"] for event in events)])

    def across(seconds: float) -> float:
        share = math.log10(1 + max(0.0, seconds)) / math.log10(1 + last)
        return round(LEFT + (WIDTH - LEFT - RIGHT) * min(1.0, share), 1)

    sources = list(dict.fromkeys(event["source"] for event in events))
    lanes = []
    for number, source in enumerate(sources):
        own = [event for event in events if event["source"] == source]
        spans = [
            Span(across(begin), round(across(end) - across(begin), 1), kind, text, words)
            for begin, end, kind, text, words in _spans(own, last)
        ]
        points = [Point(across(event["s"]), f"{event['s']:g} s: {event['words']}") for event in own]
        lanes.append(Lane(source, TOP + STEP * number, spans, points))
    ticks = [Label(across(tick), _clock(tick)) for tick in _TICKS if tick <= last]
    marks = [Label(across(one["s"]), one["what"]) for one in told["moments"]]
    height = TOP + STEP * len(sources) + BOTTOM
    return Timeline(check, told, height, lanes, _spaced(ticks), marks, _summary(told))


def _spans(events: Sequence[Mapping[str, Any]], last: float) -> Iterator[tuple[float, float, str, str, str]]:
    """Yield the stretches between changes of state; the state before the fault begins the first."""
    most = max((event["in_service"] for event in events if "in_service" in event), default=0)
    states = [(event, state) for event in events if (state := _state(event, most))]
    ends = [*(event["s"] for event, _ in states[1:]), last]
    for (event, (kind, text)), end in zip(states, ends, strict=True) if states else ():
        if end > 0:
            yield max(0.0, event["s"]), end, kind, text, event["words"]


def _state(event: Mapping[str, Any], most: int) -> tuple[str, str] | None:
    if "out" in event:
        return ("unseen", "out of service") if event["out"] else ("pass", "in service")
    if "lets_in" in event:
        return ("pass", "let in") if event["lets_in"] else ("unseen", "refused")
    if "notified" in event:
        return ("unseen", "told") if event["notified"] else ("skip", "nothing")
    if "in_service" in event:
        count = event["in_service"]
        return ("pass" if count >= most else "unseen"), f"{count} nodes"
    return None


def _spaced(labels: Sequence[Label]) -> list[Label]:
    kept = list(labels[:1])
    for _, label in pairwise(labels):
        if label.place - kept[-1].place >= _APART:
            kept.append(label)
    return kept


def _clock(seconds: int) -> str:
    if seconds >= 3600:  # noqa: PLR2004 - an hour
        return f"{seconds // 3600} h"
    return f"{seconds // 60} min" if seconds >= 60 else f"{seconds} s"  # noqa: PLR2004 - a minute


def _summary(told: Mapping[str, Any]) -> str:
    """Say in words what the picture shows, also to those who cannot see it."""
    times = [f"{one['what']} after {one['s']:g} s" for one in told["moments"]]
    ended = told["end"] or told["why"] or "how it ended is not known"
    return f"{told['fault']} on {told['node']}: {', '.join(times) or 'nothing came of it'}; {ended}"
