"""Decide, node by node, whether a check applies: by declaration, by what it shows, or by its peers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.services import SCHEDULERS, SERVICES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.judge.fact import Fact, NodeSight
    from gpuassay.judge.site import Site


@dataclass(frozen=True, slots=True)
class Applicability:
    """Whether a check applies to a node, with its ground; ``unread`` is set where that could not be told.

    ``lacks`` is the need that the node surely has not.
    """

    applies: bool
    reason: str = ""
    unread: Unread | None = None
    lacks: str = ""


EARLIER = "earlier"
"""The need that is met by the run and not by a machine: no declaration and no peer can stand in for it."""


class Needs:
    """What each node of a fleet has, of the closed vocabulary ``[needs]``."""

    def __init__(self, site: Site, nodes: Sequence[NodeSight]) -> None:
        """Take the nodes in service; the site file says which pools they were declared in."""
        self._site = site
        self._nodes = nodes
        self._known: dict[tuple[str, str], Fact[bool]] = {}
        self._common: dict[tuple[str, str], bool] = {}

    def of(self, node: NodeSight, needs: tuple[str, ...]) -> Applicability:
        """Tell whether a node has all of ``needs``; one that it surely lacks outweighs one that is unread."""
        answers = {need: self._has(node, need) for need in needs}
        for need, has in answers.items():
            if isinstance(has, Read) and not has.value:
                return Applicability(applies=False, reason=f"{need}: {has.note}", lacks=need)
        for need, has in answers.items():
            if isinstance(has, Unread):
                reason = f"whether it has {need} could not be told: {has.why}"
                return Applicability(applies=False, reason=reason, unread=has)
        return Applicability(applies=True)

    def anywhere(self, need: str) -> bool:
        """Tell whether any node in service is known to have a need."""
        return any(
            isinstance(has, Read) and has.value for has in (self._has(node, need) for node in self._nodes)
        )

    def _has(self, node: NodeSight, need: str) -> Fact[bool]:
        key = (node.name, need)
        if key not in self._known:
            self._known[key] = self._decide(node, need)
        return self._known[key]

    def _decide(self, node: NodeSight, need: str) -> Fact[bool]:
        if need in SERVICES:
            has = self._site.services.has(need)
            return Read(has, note=f"{'' if has else 'not '}declared in the site file")
        if need == EARLIER:
            return node.shows(need)  # asked of a silent node too: what it was is known
        pool = self._site.pool_of(node.name)
        if pool is not None and need in pool.has:
            return Read(value=True, note=f"declared for pool {pool.name}")
        if need in SCHEDULERS:  # the scheduler tells of a node, also of one that is silent
            return node.shows(need)
        shown: Fact[bool] = node.silence or node.shows(need)
        if isinstance(shown, Read) and shown.value:
            return shown
        # A node that shows no GPU beside peers that do has lost them: it must not excuse itself.
        if self._most_peers_show(pool.name if pool else "", need):
            return Read(value=True, note="most nodes of its pool have it")
        if isinstance(shown, Unread):
            if pool is not None and node.silence:
                return Read(value=False, note=f"not declared for pool {pool.name}, and the node is silent")
            return shown
        declared = f"not declared for pool {pool.name}" if pool else "not declared"
        return Read(value=False, evidence=shown.evidence, note=f"{declared}, and the node shows none")

    def _most_peers_show(self, pool: str, need: str) -> bool:
        """Half is enough: a false alarm on a mixed pair is mended by declaring it, a false pass is not."""
        key = (pool, need)
        if key not in self._common:
            shows = [node.shows(need) for node in self._peers.get(pool, ())]
            count = sum(isinstance(has, Read) and has.value for has in shows)
            self._common[key] = count > 0 and 2 * count >= len(shows)
        return self._common[key]

    @cached_property
    def _peers(self) -> Mapping[str, Sequence[NodeSight]]:
        """Nodes that answered, by pool."""
        peers = defaultdict(list)
        for node in self._nodes:
            if node.silence is None:
                pool = self._site.pool_of(node.name)
                peers[pool.name if pool else ""].append(node)
        return peers
