"""How a node was while it was watched: an eye keeps every change, so between two of them nothing else was."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from gpuassay.facts.fault_sights import OURS, TENANT
from gpuassay.sla.outages import Actor, History, Outage
from gpuassay.sla.spans import union

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuassay.facts.fault_sights import Sight
    from gpuassay.facts.fault_trial import FaultTrial
    from gpuassay.sla.spans import Span

_BY: Mapping[str, Actor] = {OURS: Actor.OURS, TENANT: Actor.TENANT}


def read(trial: FaultTrial, source: str) -> History:
    """Read what was seen of the node of a trial, as far as an eye saw whether it was in service."""
    if trial.span is None or trial.injected_s is None:
        return History()
    began = trial.span[0] - trial.injected_s
    outages: list[Outage] = []
    known: list[Span] = []
    for sight, after_s in _stretches(trial):
        begin, until = int(began + sight.at_s), int(began + after_s)
        known.append((begin, until))
        if sight.out:
            by = _BY.get(sight.by, Actor.PROVIDER)
            outages.append(Outage(trial.node, "down", begin, until, by, sight.words, source))
    return History(outages=tuple(outages), known={trial.node: union(known)})


def _stretches(trial: FaultTrial) -> Iterator[tuple[Sight, float]]:
    """Give each sight that tells whether the node was in service, and until when that was so."""
    last_s = max(sight.at_s for sight in trial.sights) if trial.sights else 0.0
    for source in {sight.source: None for sight in trial.sights if sight.out is not None}:
        own = [sight for sight in trial.sights if sight.source == source]
        ends = [*(after.at_s for _, after in pairwise(own)), last_s]
        yield from ((sight, end) for sight, end in zip(own, ends, strict=True) if sight.out is not None)
