"""What a recording has of nodes that were rebooted."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuassay import facts
from gpuassay.evidence.recording import read_measurement, read_recording, read_survey
from gpuassay.facts import reboot as story
from gpuassay.facts.fault_trial import END, PLAN, said
from gpuassay.facts.reboot import METHOD, Reboot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from gpuassay.evidence.item import Item
    from gpuassay.judge.catalog import Measurement
    from gpuassay.judge.site import Site

REBOOT = "reboot"
"""The tool that reboots nodes, and the only measurement that uses it."""

AFTER = "_after"
"""Of the name under which lies what nodes and scheduler said when all was over."""


class NotAsIsError(Exception):
    """What is recorded was made in another way; says so."""


def read(recording: Path, measurement: Measurement, site: Site) -> list[Reboot]:
    """Read the stories of all nodes that a recording has. Raises NotAsIsError."""
    before = read_recording(recording)
    names = list(dict.fromkeys([*site.nodes, *before.nodes]))
    kept = {
        name: own
        for name, own in read_measurement(recording, measurement.name, names).items()
        if own.answered
    }
    if not kept:
        return []
    name = measurement.name + AFTER
    later = {node: own for node, own in read_measurement(recording, name, names).items() if own.answered}
    then = {node.name: node for node in facts.fleet(before, site).nodes}
    after = replace(before, nodes=later, cluster=read_survey(recording, name))
    now_ = {node.name: node for node in facts.fleet(after, site).nodes}
    found = [
        Reboot(
            node, [(item, own.ref(item)) for item in own.items], then[node], now_[node], site.services.mounts
        )
        for node, own in kept.items()
        if node in then and node in now_
    ]
    asked = {"args": dict(measurement.args), "method": METHOD}
    if any({**one.asked(story.BEGIN), **asked} != one.asked(story.BEGIN) for one in found):
        raise NotAsIsError(f"{measurement.name} was done in another way in this recording")
    return found


@dataclass(frozen=True, slots=True)
class Left:
    """A wave that was cut, or of which no node came back: its nodes, and where its files may lie.

    ``open`` are its nodes whose story has no end, each with the last thing that was done to it.
    """

    mark: str
    nodes: tuple[str, ...]
    mounts: tuple[str, ...]
    open: Mapping[str, str]


def left(recording: Path) -> Iterator[Left]:
    """Give the waves of which a recording does not say that all is over and cleared away."""
    waves: dict[str, dict[str, Mapping[str, Item]]] = defaultdict(dict)
    for place in sorted((recording / "measure").glob(f"{REBOOT}/*.jsonl")):
        own = read_measurement(recording, REBOOT, [place.stem])[place.stem]
        items = {item.id: item for item in own.items}
        if mark := items[story.BEGIN].asked.get("mark") if story.BEGIN in items else "":
            waves[str(mark)][place.stem] = items
    for mark, nodes in waves.items():
        mounts = {path for items in nodes.values() for path in _marked(items)}
        swept = any(story.SWEPT in items for items in nodes.values())
        cut = {node: list(items)[-1] for node, items in nodes.items() if END not in items}
        if cut or (mounts and not swept):
            yield Left(mark, tuple(nodes), () if swept else tuple(sorted(mounts)), cut)


def _marked(items: Mapping[str, Item]) -> list[str]:
    listed = said(items[PLAN]).get("marks", []) if PLAN in items else []
    return [str(one["mount"]) for one in listed if "sha256" in one]
