"""What Slurm knows of the network: which nodes are below which switch, or in which block."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts.slurm import TOPOLOGY
from gpuassay.facts.source import text
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import expand, first_of, folded, natural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpuassay.facts.node import Node
    from gpuassay.facts.slurm import Slurm
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

# Plugins that know no network: the default of each age, and what the older ones called it.
_BLIND = frozenset({"", "topology/default", "topology/flat", "topology/none"})
_BLOCK = "topology/block"
_PLACE = re.compile(r"\s*(SwitchName|BlockName)=(\S+)(.*)")
_LEVEL = re.compile(r"\bLevel=([0-9]{1,3})\b", re.ASCII)
_NODES = re.compile(r"\bNodes=(\S+)")


@dataclass(frozen=True, slots=True)
class Place:
    """A switch or a block, and all nodes below it; only a switch at level 0 is a leaf."""

    kind: str
    name: str
    level: int
    nodes: tuple[str, ...]


class Topology:
    """The network as Slurm sees it, for some nodes."""

    def __init__(self, slurm: Slurm, evidence: Evidence, nodes: Sequence[Node]) -> None:
        """Take what Slurm said, and the nodes that should be in it."""
        self._slurm = slurm
        self._evidence = evidence
        self._nodes = nodes

    @property
    def known(self) -> Fact[bool]:
        """Whether Slurm is told of the network at all."""
        plugin = self._slurm.setting("TopologyPlugin")
        if isinstance(plugin, Unread):
            return plugin
        return Read(
            plugin.value not in _BLIND, plugin.evidence, f"TopologyPlugin = {plugin.value or '(null)'}"
        )

    @property
    def unplaced(self) -> Fact[int]:
        """How many GPU nodes are below no leaf switch and in no block, where Slurm is told of the network."""
        known = self.known
        if isinstance(known, Unread) or not known.value:
            return known if isinstance(known, Unread) else Read(0, known.evidence, known.note)
        places = self._places
        if isinstance(places, Unread):
            return places
        placed = {node for place in places.value if place.level == 0 for node in place.nodes}
        gpu_nodes = [node for node in self._nodes if not self._is_without_gpus(node)]
        lost = [node.name for node in gpu_nodes if self._name(node) not in placed]
        return Read(len(lost), places.evidence, f"of no leaf: {first_of(lost)}" if lost else "")

    def _is_without_gpus(self, node: Node) -> bool:
        """Tell whether a node surely has no GPUs: by its own bus, and by what Slurm was told of it."""
        known, on_bus = self._slurm.find(node.name), node.gpus_on_bus
        given = known.gpus if known is not None else None
        return all(isinstance(count, Read) and count.value == 0 for count in (on_bus, given))

    @property
    def leaves(self) -> Fact[int]:
        """Over how many leaf switches the nodes are spread, where Slurm is told of switches."""
        places = self._places
        if isinstance(places, Unread):
            return places
        ours = {self._name(node) for node in self._nodes}
        switches = [place for place in places.value if place.kind == "SwitchName" and place.level == 0]
        if not switches:
            why = "Slurm is told of no switches: over how many its nodes are spread is not known"
            return Unread("denied", why, places.evidence)
        return Read(sum(not ours.isdisjoint(place.nodes) for place in switches), places.evidence)

    @property
    def switches(self) -> tuple[dict[str, str], dict[str, str]]:
        """Below which leaf each of the nodes is, and below which switches above; empty where none is told."""
        places = self._places
        leaves: dict[str, str] = {}
        above: dict[str, str] = {}
        if isinstance(places, Unread):
            return leaves, above
        ours = {self._name(node): node.name for node in self._nodes}
        for place in places.value:
            named = [ours[node] for node in place.nodes if node in ours and place.kind == "SwitchName"]
            for node in named:
                known = leaves if place.level == 0 else above
                known[node] = f"{known[node]}, {place.name}" if node in known else place.name
        return leaves, above

    def above(self, node: str) -> Fact[frozenset[str]]:
        """Name all switches and blocks that a node, by its name in Slurm, is below."""
        places = self._places
        if isinstance(places, Unread):
            return places
        return Read(frozenset(one.name for one in places.value if node in one.nodes), places.evidence)

    @property
    def by_blocks(self) -> Fact[bool]:
        """Whether Slurm places jobs by blocks, which is how it knows of racks that NVLink joins."""
        places = self._places
        if isinstance(places, Read) and any(place.kind == "BlockName" for place in places.value):
            return Read(value=True, evidence=places.evidence)
        plugin = self._slurm.setting("TopologyPlugin")
        if isinstance(plugin, Unread):
            return plugin
        return Read(plugin.value == _BLOCK, plugin.evidence, f"TopologyPlugin = {plugin.value or '(null)'}")

    @property
    def blocks_over_racks(self) -> Fact[int]:
        """How many blocks hold nodes of several NVLink domains; the note names them.

        A domain may rightly be cut into several blocks: a job that fits one of them stays within it.
        """
        by_blocks = self.by_blocks
        if isinstance(by_blocks, Unread) or not by_blocks.value:
            return by_blocks if isinstance(by_blocks, Unread) else Read(0, by_blocks.evidence)
        places = self._places
        if isinstance(places, Unread):
            return places
        domains = self._domains
        if isinstance(domains, Unread):
            return domains
        wide = [
            f"{place.name} ({folded(sorted(place.nodes, key=natural))})"
            for place in places.value
            if place.kind == "BlockName"
            and len({domains.value.get(node) for node in place.nodes} - {None, ""}) > 1
        ]
        return Read(len(wide), places.evidence, "; ".join(wide))

    @cached_property
    def _places(self) -> Fact[tuple[Place, ...]]:
        shown = text(self._evidence, TOPOLOGY)
        if isinstance(shown, Unread):
            return shown
        found = tuple(_places(shown.value.splitlines()))
        if not found:
            # scontrol(1) of 22.05 ends well where it could not ask, and prints nothing to its output.
            return Unread("garbled", f"{TOPOLOGY} names no switch and no block", shown.evidence)
        return Read(found, shown.evidence)

    @property
    def _domains(self) -> Fact[Mapping[str, str]]:
        """The NVLink domain of each node of a rack that answered."""
        found = {}
        for node in self._nodes:
            domain = node.rack.domain
            if isinstance(domain, Unread):
                return Unread(domain.kind, f"{node.name}: {domain.why}", domain.evidence)
            found[self._name(node)] = domain.value
        return Read(found)

    def _name(self, node: Node) -> str:
        known = self._slurm.find(node.name)
        return known.name if known else node.name


def _places(lines: Iterable[str]) -> list[Place]:
    found = defaultdict(list)
    for line in lines:
        one = _PLACE.match(line)
        if one is None:
            continue
        level, listed = _LEVEL.search(one[3]), _NODES.search(one[3])
        found[one[1], one[2], int(level[1]) if level else 0].append(listed[1] if listed else "")
    return [Place(*key, nodes=_expanded(",".join(filter(None, parts)))) for key, parts in found.items()]


def _expanded(nodes: str) -> tuple[str, ...]:
    try:
        return expand(nodes) if nodes else ()
    except ValueError:
        return ()
