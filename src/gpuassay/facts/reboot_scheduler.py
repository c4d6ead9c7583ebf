"""What a scheduler knew of a node before it was rebooted, beside what it knows now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuassay.facts.kube_words import text
from gpuassay.facts.kubernetes import quantity
from gpuassay.facts.slurm_state import Standing
from gpuassay.facts.slurm_topology import Topology
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuassay.facts.kubernetes import KubeNode
    from gpuassay.facts.node import Node
    from gpuassay.facts.seats import Seats
    from gpuassay.facts.slurm import SlurmNode
    from gpuassay.judge.fact import Fact

_OUT: Final = (Standing.OUT, Standing.GONE)
_OF_THE_BOOT: Final = ".timestamp"  # GPU Feature Discovery writes when it looked: nvidia.com/gfd.timestamp


def scheduler_changed(then: Node, now: Node) -> Fact[int]:
    """Count what is not so any more: the note names each."""
    told: list[str] = []
    asked = 0
    for look in (_on_slurm, _on_kubernetes):
        found = look(then.name, then.orchestrator, now.orchestrator)
        if isinstance(found, Unread):
            return found
        if found is not None:
            asked += 1
            told += found
    if not asked:
        return Unread("not_found", "no scheduler knew of it before")
    return Read(len(told), note="; ".join(told))


def _on_slurm(name: str, then: Seats, now: Seats) -> list[str] | Unread | None:
    """Compare by Slurm's words; None where Slurm did not know the node before."""
    known = then.slurm.find(name)
    if known is None:
        return None
    listed, found = now.slurm.nodes, now.slurm.find(name)
    if isinstance(listed, Unread):
        return listed
    if found is None:
        return ["Slurm lists the node no more"]
    topology = [Topology(one.slurm, one.evidence, ()).above(known.name) for one in (then, now)]
    if isinstance(topology[0], Read) and isinstance(topology[1], Unread):
        return topology[1]
    places = [one.value if isinstance(one, Read) else frozenset[str]() for one in topology]
    lost = [f"it is not below {place} any more" for place in sorted(places[0] - places[1])]
    return [*_changed(known, found), *lost]


def _changed(then: SlurmNode, now: SlurmNode) -> Iterator[str]:
    if then.gres != now.gres:
        yield f"Gres was {then.gres or '(null)'}, and is {now.gres or '(null)'}"
    for what, had, has in (
        ("feature", then.features, now.features),
        ("partition", then.partitions, now.partitions),
    ):
        yield from (f"{what} {one} is gone" for one in sorted({*had} - {*has}))
    if now.state.standing in _OUT:
        yield now.says


def _on_kubernetes(name: str, then: Seats, now: Seats) -> list[str] | Unread | None:
    """Compare by the words of the API server; None where it did not know the node before."""
    known, found = then.host(name), now.host(name)
    if isinstance(known, Unread):
        return None
    if isinstance(found, Unread):
        return found
    return [*_labels(known.value, found.value), *_offers(known.value, found.value)]


def _labels(then: KubeNode, now: KubeNode) -> Iterator[str]:
    for label, had in then.labels.items():
        if label.endswith(_OF_THE_BOOT):
            continue
        if label not in now.labels:
            yield f"label {label} is gone"
        elif now.labels[label] != had:
            yield f"label {label} was {had}, and is {now.labels[label]}"
    old, new = _taints(then), _taints(now)
    yield from (f"taint {one} is gone" for one in sorted(old - new))
    yield from (f"taint {one} is new" for one in sorted(new - old))


def _offers(then: KubeNode, now: KubeNode) -> Iterator[str]:
    """Compare what devices pods can be given; of memory a boot may leave a little more or less."""
    for name, had in _devices(then.allocatable).items():
        has = _devices(now.allocatable).get(name, 0)
        if has < had:
            yield f"{name} was {had}, and is {has}"
    if now.shut and not then.shut:
        yield now.says


def _devices(amounts: Mapping[str, object]) -> dict[str, int]:
    return {name: quantity(amount) for name, amount in amounts.items() if "/" in name}


def _taints(node: KubeNode) -> frozenset[str]:
    return frozenset(f"{text(one, 'key')}:{text(one, 'effect')}" for one in node.taints)
