"""Reboots as results tell them: one story a wave, with a lane for each of its nodes."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from gpuassay.facts import fault_sights as sights_of
from gpuassay.facts.fault_trial import END, LOOK, PLAN, said
from gpuassay.facts.reboot import ORDER, RETURNED, Reboot
from gpuassay.judge.names import folded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpuassay.evidence.item import Item

_ACTS = {
    PLAN: "looked at before",
    ORDER: "a reboot is ordered",
    END: "its reboot is over for us",
    LOOK: "looked at again",
}


def waves(reboots: Iterable[Reboot]) -> list[dict[str, Any]]:
    """Write down the waves of some reboots, each once, in the order of their nodes."""
    found: dict[str, list[Reboot]] = defaultdict(list)
    for one in dict.fromkeys(reboots):
        found[one.mark].append(one)
    return [_wave(nodes) for nodes in found.values()]


def _wave(nodes: Sequence[Reboot]) -> dict[str, Any]:
    """Write one down; all times are seconds after the order."""
    back = [one.node for one in nodes if one.back]
    others = [f"{one.node}: {' '.join(filter(None, one.end))}" for one in nodes if one.end[0] != RETURNED]
    return {
        "fault": "reboot",
        "node": folded([one.node for one in nodes]),
        "ticket": nodes[0].ticket,
        "end": "",
        "why": "; ".join([f"{len(back)} of {len(nodes)} nodes are back", *others]),
        "moments": [moment for name in ("down", "back") for moment in _last(name, nodes)],
        "events": sorted((event for one in nodes for event in _events(one)), key=lambda event: event["s"]),
    }


def _last(name: str, nodes: Sequence[Reboot]) -> Iterator[dict[str, Any]]:
    """Yield the slowest moment of a kind, if all nodes had it."""
    found = [(moment, one) for one in nodes if (moment := getattr(one, name))]
    if len(found) == len(nodes):
        moment, node = max(found, key=lambda pair: pair[0].s)
        told = {"what": name, "s": moment.s, "since_s": moment.since_s, "by": sights_of.OURS}
        yield {**told, "words": f"{node.node}: {moment.sight.words}", "evidence": moment.sight.evidence}


def _events(one: Reboot) -> Iterator[dict[str, Any]]:
    if one.ordered_s is None:
        return
    for sight in one.sights:
        told = _event(one, (sight.at_s, sight.since_s), sight.by, sight.words, sight.evidence)
        yield told | ({} if sight.out is None else {"out": sight.out})
    for item, ref in one.items:
        if item.id in _ACTS:
            at_s, since_s = sights_of.times(item)
            at_s = at_s or sights_of.number(item.asked.get("watched_until_s"))
            yield _event(one, (at_s, since_s or at_s), sights_of.OURS, _words(item), ref)


def _event(one: Reboot, times: tuple[float, float], by: str, words: str, evidence: str) -> dict[str, Any]:
    at_s, since_s = (round(seen_s - (one.ordered_s or 0.0), 1) for seen_s in times)
    return {"s": at_s, "since_s": since_s, "source": one.node, "by": by, "words": words, "evidence": evidence}


def _words(item: Item) -> str:
    document = said(item)
    told = document.get("refused") or document.get("failed") or item.asked.get("state") or item.why
    return _ACTS[item.id] + (f": {told}" if told else "")
