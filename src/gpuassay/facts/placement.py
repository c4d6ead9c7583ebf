"""Where the nodes are in the network: below which leaf switch, and so what a test between them can reach.

Nodes below one leaf talk to each other through it alone: whatever is measured between them says nothing
of the spine. On a fabric with a leaf for each rail, the leaves of a node are taken together.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import folded, natural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpuassay.facts import Fleet
    from gpuassay.facts.node import Node
    from gpuassay.facts.seats import Seats

Leaves: TypeAlias = "dict[str, str]"
"""What each node is below; a node that is not known is not there."""

SPINE_UNTESTED: Final = "spine not tested"
SPINE_UNKNOWN: Final = "not known whether the spine was tested"

# The lowest level of the network that labels of Kubernetes tell, and the one above, by Topograph and clouds.
_LOWEST = re.compile(
    r"network\.topology\.nvidia\.com/leaf|topology\.k8s\.aws/network-node-layer-3"
    r"|cloud\.google\.com/gce-topology-subblock|oci\.oraclecloud\.com/rdma\.local_block_id|.*/(leaf|leafgroup)"
)
_ABOVE = re.compile(
    r"network\.topology\.nvidia\.com/spine|topology\.k8s\.aws/network-node-layer-2"
    r"|cloud\.google\.com/gce-topology-block|oci\.oraclecloud\.com/rdma\.network_block_id|.*/spine"
)


@dataclass(frozen=True, slots=True)
class Placement:
    """The leaves of the nodes that answered, by one source; without one, nothing is known."""

    nodes: tuple[str, ...]
    leaves: Mapping[str, str]
    above: Mapping[str, str]
    by: str = ""

    @property
    def limits(self) -> str:
        """Say what measurements between these nodes may not be taken for; empty where they cross leaves."""
        if len({*self.leaves.values()}) > 1:
            return ""
        whole = len(self.nodes) <= 1 or len(self.leaves) == len(self.nodes)
        return SPINE_UNTESTED if whole else SPINE_UNKNOWN

    @property
    def says(self) -> str:
        """Say it in one sentence."""
        total, count = len(self.nodes), len({*self.leaves.values()})
        if total <= 1:
            return f"one node: {SPINE_UNTESTED}, and nothing else between nodes"
        if not self.leaves:
            why = "neither Slurm's topology nor LLDP nor labels of Kubernetes tell below which leaf nodes are"
            return f"{SPINE_UNKNOWN}: {why}"
        unplaced = total - len(self.leaves)
        lost = f"; of {unplaced} more it is not known" if unplaced else ""
        places = "one leaf" if count == 1 else f"{count} leaves"
        limits = f": {self.limits}" if self.limits else ""
        return f"{len(self.leaves)} nodes are below {places}, by {self.by}{lost}{limits}"

    def document(self) -> dict[str, Any]:
        """Give it as ``results.json`` has it."""
        below = defaultdict(list)
        for node, leaf in self.leaves.items():
            below[leaf].append(node)
        listed = [
            {
                "leaf": leaf,
                "above": ", ".join(sorted({self.above[n] for n in nodes if n in self.above}, key=natural)),
                "nodes": folded(nodes),
                "count": len(nodes),
            }
            for leaf, nodes in sorted(below.items(), key=lambda pair: natural(pair[0]))
        ]
        return {"by": self.by, "says": self.says, "limits": self.limits, "leaves": listed}


def placement(fleet: Fleet) -> Placement:
    """Find where the nodes that answered are: by the switches' own word, by Slurm, or by labels.

    The first of these that knows any node decides: two would name one switch in two ways.
    """
    nodes = [node for node in fleet.nodes if node.silence is None]
    names = tuple(node.name for node in nodes)
    for by, (leaves, above) in (
        ("LLDP", (_by_lldp(nodes), {})),
        ("Slurm's topology", _by_slurm(fleet, names)),
        ("labels of Kubernetes", _by_labels(fleet.seats, names)),
    ):
        if leaves:
            return Placement(names, leaves, above, by)
    return Placement(names, {}, {})


def _by_lldp(nodes: Iterable[Node]) -> Leaves:
    found = {}
    for node in nodes:
        switches = [port.switch for port in node.fabric.ports]
        names = {one.value for one in switches if isinstance(one, Read)}
        if names and len(switches) == sum(isinstance(one, Read) for one in switches):
            found[node.name] = ", ".join(sorted(names, key=natural))
    return found


def _by_slurm(fleet: Fleet, names: Sequence[str]) -> tuple[Leaves, Leaves]:
    leaves: Leaves = {}
    above: Leaves = {}
    for slurm in fleet.slurms:
        below, higher = slurm.topology.switches
        leaves |= {name: below[name] for name in names if name in below}
        above |= {name: higher[name] for name in names if name in higher}
    return leaves, above


def _by_labels(seats: Seats, names: Iterable[str]) -> tuple[Leaves, Leaves]:
    leaves: Leaves = {}
    above: Leaves = {}
    for name in names:
        host = seats.host(name)
        if isinstance(host, Unread):
            continue
        labels = {label: str(value) for label, value in host.value.labels.items()}
        for label, value in sorted(labels.items()):
            if _LOWEST.fullmatch(label):
                leaves.setdefault(name, value)
            elif _ABOVE.fullmatch(label):
                above.setdefault(name, value)
    return leaves, above
