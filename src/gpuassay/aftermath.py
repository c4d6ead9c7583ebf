"""What nodes say of themselves once more, when a load is over: what they counted since came of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuassay import facts
from gpuassay.evidence.recording import read_measurement, read_recording
from gpuassay.evidence.sums import write_sums
from gpuassay.evidence.writer import add_measurement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from gpuassay.evidence.item import Item
    from gpuassay.facts import Node
    from gpuassay.judge.site import Site

AFTER = "_after"
"""Of the name under which that lies, behind that of the load."""

_HOUR = 3600.0


def look(
    recording: Path,
    measurement: str,
    nodes: Sequence[Node],
    gather: Callable[[Callable[[str, Item], None]], None],
) -> None:
    """Ask the nodes as before the load began, unless they were asked already."""
    name = measurement + AFTER
    found = read_measurement(recording, name, [node.name for node in nodes])
    if any(own.answered for own in found.values()):
        return
    try:
        gather(lambda node, item: add_measurement(recording, name, node, item))
    finally:
        write_sums(recording)


def read(
    recording: Path, measurement: str, nodes: Sequence[Node], site: Site, seconds: float
) -> tuple[Node, ...]:
    """Give the nodes as they were when it was over, each with what it was so many seconds before."""
    found = read_measurement(recording, measurement + AFTER, [node.name for node in nodes])
    answered = {node: own for node, own in found.items() if own.answered}
    if not answered:
        return ()
    now = replace(read_recording(recording), nodes=answered)
    earlier = facts.Earlier(nodes, seconds / _HOUR)
    return tuple(node for node in facts.fleet(now, site, earlier).nodes if node.name in answered)
