"""Racks, as far as machines can tell: which nodes share a multi-node NVLink domain, and which do not."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuassay.facts.text import graver
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import folded, natural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpuassay.facts.gpu import Gpu
    from gpuassay.facts.node import Node
    from gpuassay.judge.fact import Fact


@dataclass(frozen=True, slots=True)
class Membership:
    """The NVLink domain of a node: that of all its GPUs, if they agree."""

    gpus: Sequence[Gpu]

    @property
    def domains(self) -> Fact[int]:
        """In how many domains its GPUs are; the note tells them apart."""
        found = self._found
        if isinstance(found, Unread):
            return found
        note = "; ".join(f"{', '.join(gpus)} in {domain or 'none'}" for domain, gpus in found.value.items())
        return Read(len(found.value), found.evidence, note)

    @property
    def outside(self) -> Fact[int]:
        """How many of its GPUs are in no domain; the note names them."""
        found = self._found
        if isinstance(found, Unread):
            return found
        gpus = found.value.get("", [])
        return Read(len(gpus), found.evidence, f"{', '.join(gpus)}: cluster UUID all zeros" if gpus else "")

    @property
    def domain(self) -> Fact[str]:
        """The domain that the node is in, empty for none; where its GPUs differ, that of most of them."""
        found = self._found
        if isinstance(found, Unread):
            return found
        return Read(max(found.value, key=lambda domain: len(found.value[domain])), found.evidence)

    @property
    def _found(self) -> Fact[dict[str, list[str]]]:
        """Sort the GPUs by domain; one that is unread leaves all unread, unless the others differ already."""
        found: dict[str, list[str]] = defaultdict(list)
        doubts: list[Unread] = []
        evidence = ""
        for gpu in self.gpus:
            domain, place = gpu.fabric.domain, gpu.where.partition("/")[2]
            if isinstance(domain, Unread):
                doubts.append(Unread(domain.kind, f"{place}: {domain.why}", domain.evidence))
            else:
                found[domain.value].append(place)
                evidence = domain.evidence
        if not doubts and found:
            return Read(dict(found), evidence)
        doubt = Unread("failed", "no GPU tells which domain it is in")
        for one in doubts:
            doubt = graver(one, doubt) if doubt.evidence else one
        return Read(dict(found), evidence) if len(found) > 1 else doubt


@dataclass(frozen=True)
class RackPool:
    """The nodes of a pool that are of racks: a subject of its own, for no single node knows of the others."""

    where: str
    members: Sequence[Node]
    node: str = ""
    models: tuple[str, ...] = ()

    @property
    def domains(self) -> Fact[int]:
        """Over how many NVLink domains the pool is spread; the note says which nodes are where."""
        found, doubt = self._found
        if doubt is not None and len(found) <= 1:
            return doubt
        places = [f"{folded(nodes)} in {domain}" for domain, nodes in found.items()]
        return Read(len(found), self._evidence, "; ".join(places) if len(found) > 1 else "")

    @property
    def alone(self) -> Fact[int]:
        """How many nodes share a domain with no other node of the pool; the note names them."""
        found, doubt = self._found
        if doubt is not None:
            return doubt
        alone = [nodes[0] for nodes in found.values() if len(nodes) == 1 and len(self.members) > 1]
        note = f"no other node shares a domain with {folded(alone)}" if alone else ""
        return Read(len(alone), self._evidence, note)

    @property
    def _evidence(self) -> str:
        domains = (member.rack.domain for member in self.members)
        return next((domain.evidence for domain in domains if isinstance(domain, Read)), "")

    @property
    def _found(self) -> tuple[Mapping[str, list[str]], Unread | None]:
        """Sort the nodes by domain, the largest first, and say why one of them could not be.

        A node that is in no domain belongs to none here: that it is outside is said of itself.
        """
        found: dict[str, list[str]] = defaultdict(list)
        doubt: Unread | None = None
        for member in self.members:
            domain = member.rack.domain
            if isinstance(domain, Unread):
                doubt = doubt or Unread(domain.kind, f"{member.name}: {domain.why}", domain.evidence)
            elif domain.value:
                found[domain.value].append(member.name)
        if not found and doubt is None:
            doubt = Unread("failed", "none of its nodes is in an NVLink domain")
        return dict(sorted(found.items(), key=lambda item: (-len(item[1]), natural(item[1][0])))), doubt


def rack_pools(nodes: Iterable[Node]) -> tuple[RackPool, ...]:
    """Give the pools that have nodes of racks; silent nodes are said by the check itself."""
    pools: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        shown = node.shows("nvl72") if node.silence is None else None
        if isinstance(shown, Read) and shown.value:
            pools[node.pool].append(node)
    return tuple(RackPool(name or "cluster", members) for name, members in pools.items())
