"""A trial as results tell it: what was done, when each thing was seen first, and all that was seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuassay.facts import fault_sights as sights_of
from gpuassay.facts import fault_trial as facts
from gpuassay.facts.fault_audited import AUDIT
from gpuassay.facts.fault_smoke import SMOKE, rank
from gpuassay.facts.reboot import Reboot
from gpuassay.facts.reboot_story import waves
from gpuassay.judge.fact import Read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpuassay.evidence.item import Item
    from gpuassay.facts.fault_sights import Moment, Sight
    from gpuassay.facts.fault_trial import FaultTrial

_ACTS = {
    facts.ARM: "a dead-man is left on the node",
    facts.INJECT: "the fault has taken hold",
    facts.STAND_DOWN: "the dead-man is told that the provider has the node",
    facts.UNDO: "the fault is undone",
    facts.LOOK: "the node that serves now is looked at",
    AUDIT: "the node that serves now is asked what all nodes are",
    SMOKE: "a load is put on the node that serves now",
    facts.END: "the fault is over for us",
    facts.OVER: "watching ends",
}
OURS = "us"


def stories(subjects: Iterable[object]) -> list[dict[str, Any]]:
    """Write down the trials and the reboots among what a check has observed, each once."""
    seen = list(dict.fromkeys(one for one in subjects if isinstance(one, facts.FaultTrial | Reboot)))
    told = [story(one) for one in seen if isinstance(one, facts.FaultTrial)]
    return [*told, *waves(one for one in seen if isinstance(one, Reboot))]


def story(trial: FaultTrial) -> dict[str, Any]:
    """Write a trial down; all times are seconds after the fault had taken hold, which may be negative."""
    end = trial.end
    return {
        "fault": trial.fault,
        "node": trial.node,
        "ticket": trial.ticket,
        "end": end.value if isinstance(end, Read) else "",
        "why": end.note if isinstance(end, Read) else end.why,
        "moments": [_first(name, moment) for name, moment in _moments(trial) if moment],
        "events": list(_events(trial)) if trial.injected_s is not None else [],
    }


def _moments(trial: FaultTrial) -> Iterator[tuple[str, Moment | None]]:
    yield "detected", trial.moment(sights_of.detected)
    yield "isolated", trial.moment(sights_of.isolated)
    yield "notified", trial.moment(sights_of.notified)
    yield "replaced", trial.returned.moment if trial.returned else None
    yield "restored", trial.restored


def _first(name: str, moment: Moment) -> dict[str, Any]:
    sight = moment.sight
    told = {"what": name, "s": moment.s, "since_s": moment.since_s, "by": sight.by}
    return {**told, "words": sight.words, "evidence": sight.evidence}


def _events(trial: FaultTrial) -> Iterator[dict[str, Any]]:
    begin = trial.injected_s or 0.0
    told = [_seen(sight, begin) for sight in trial.sights]
    told += [_act(item, ref, begin) for item, ref in trial.items if item.id in _ACTS]
    yield from sorted(told, key=lambda event: float(event["s"]))


def _seen(sight: Sight, begin: float) -> dict[str, Any]:
    at = {"s": round(sight.at_s - begin, 1), "since_s": round(sight.since_s - begin, 1)}
    state = {"out": sight.out, "lets_in": sight.lets_in, "notified": sight.notified}
    known = {key: value for key, value in state.items() if value is not None}
    serving = {} if sight.in_service is None else {"in_service": len(sight.in_service)}
    who = {"source": sight.source, "by": sight.by, "words": sight.words, "evidence": sight.evidence}
    return {**at, **who, **known, **serving}


def _act(item: Item, ref: str, begin: float) -> dict[str, Any]:
    at_s, since_s = sights_of.times(item)
    at_s = at_s or sights_of.number(item.asked.get("watched_until_s"))
    document = facts.said(item)
    told = (document.get(word) for word in ("proof", "by", "not_restored", "refused", "blocked", "failed"))
    said = _loaded(item, ref) if item.id == SMOKE else next((str(text) for text in told if text), "")
    said = said or str(item.asked.get("state", "")) or item.why
    words = _ACTS[item.id] + (f": {said}" if said else "")
    at = {"s": round(at_s - begin, 1), "since_s": round((since_s or at_s) - begin, 1)}
    return {**at, "source": OURS, "by": sights_of.OURS, "words": words, "evidence": ref}


def _loaded(item: Item, ref: str) -> str:
    found = rank(item, ref)
    return found.note if isinstance(found, Read) else found.why
