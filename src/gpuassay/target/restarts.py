"""How nodes are restarted on purpose, where a scheduler keeps everybody else away meanwhile."""

from __future__ import annotations

import json
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from gpuassay.fault import errand
from gpuassay.target import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from gpuassay.evidence.item import Item
    from gpuassay.target import Progress, Results, Runs
    from gpuassay.watch import Eye

REASON = "gpuassay: a reboot on purpose"
"""Begins with our name: a change with this reason is ours."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """What came of the order on each node; ``by_scheduler``: it is carried out once the nodes are let go."""

    items: Mapping[str, Item]
    by_scheduler: bool


@runtime_checkable
class Restarts(Protocol):
    """A target whose nodes can be held together, and restarted."""

    def hold_all(self, nodes: Sequence[str], seconds: float) -> AbstractContextManager[Runs]:
        """Keep several whole nodes for ourselves, all or none. Raises TargetError."""

    def restart(self, nodes: Sequence[str], run: Callable[[Job], Results]) -> Ordered:
        """Have nodes that are held restarted; ``run`` acts there. Raises TargetError."""

    def eyes(self, node: str) -> Sequence[Eye]:
        """Give what can look at a node."""


@contextmanager
def together(
    hold: Callable[[str, float], AbstractContextManager[Runs]], nodes: Sequence[str], seconds: float
) -> Iterator[Runs]:
    """Hold several nodes that can only be held each on its own."""
    with ExitStack() as ours:
        runs = {node: ours.enter_context(hold(node, seconds)) for node in nodes}

        def run(job: Job, progress: Progress) -> Results:
            found: dict[tuple[str, int], Item] = {}
            for node in job.nodes:
                found |= runs[node](replace(job, nodes=(node,)), progress)
            return found

        yield run


def by_themselves(nodes: Sequence[str], run: Callable[[Job], Results]) -> Ordered:
    """Have each node's own systemd restart it; where that is not permitted, its item says so."""
    feed = errand.pack({"verb": "restart"}, "restart")
    told = run(Job("reboot order", errand.ARGV, tuple(nodes), feed=feed, leaves=True))
    return Ordered({node: _judged(told[node, 0]) for node in nodes}, by_scheduler=False)


def _judged(item: Item) -> Item:
    """Take a refusal for what it is: the act ended well, and nothing was done."""
    try:
        document = json.loads(item.out)
    except ValueError:
        return item if item.status != "ok" else replace(item, status="failed", why="it gave no answer")
    why = document.get("refused") or document.get("failed")
    return replace(item, status="denied", why=str(why)) if why else item
