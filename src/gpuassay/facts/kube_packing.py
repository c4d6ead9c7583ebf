"""How a cluster's scheduler has packed the GPUs that pods hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from gpuassay.facts.kubernetes import Kubernetes
    from gpuassay.judge.fact import Fact

_PACKERS: Final = {"kai.scheduler": "KAI Scheduler", "run.ai": "Run:ai"}


def scattered(kubernetes: Kubernetes, groups: Fact[frozenset[str]]) -> Fact[int]:
    """Count nodes that are partly used, beyond what the pods on them would need packed together."""
    nodes = kubernetes.nodes
    if isinstance(nodes, Unread):
        return nodes
    partly, evidence, any_held = {}, nodes.evidence, False
    for name, node in nodes.value.items():
        devices = kubernetes.devices(node)
        if devices is None:
            continue
        holders = kubernetes.holders(name, devices)
        if isinstance(holders, Unread):
            return holders
        held = sum(holder.gpus for holder in holders.value)
        any_held = any_held or held > 0
        if 0 < held < devices.allocatable:
            partly[name] = (held, devices.allocatable)
    if not any_held:
        return _unproven(groups)
    room = max((whole for _, whole in partly.values()), default=1)
    needed = -(-sum(held for held, _ in partly.values()) // room)
    note = ", ".join(f"{held} of {whole} held on {name}" for name, (held, whole) in partly.items())
    return Read(len(partly) - needed, evidence, note)


def _unproven(groups: Fact[frozenset[str]]) -> Fact[int]:
    packers = (
        sorted(_PACKERS[one] for one in groups.value & _PACKERS.keys()) if isinstance(groups, Read) else []
    )
    if packers:
        return Read(0, groups.evidence, f"{', '.join(packers)} packs by default; no pod holds GPUs now")
    return Unread(
        "denied", "no pod holds GPUs now, and how a scheduler scores nodes cannot be read from here"
    )
