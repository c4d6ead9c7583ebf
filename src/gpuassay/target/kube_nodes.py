"""What each node of a Kubernetes cluster is to be asked with: a pod and GPUs, a pod alone, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuassay.judge.fact import Unread
from gpuassay.target import kube_objects
from gpuassay.target.channel import Ending
from gpuassay.target.kube_channel import Closed, Pod
from gpuassay.target.kube_clean import NAMESPACES
from gpuassay.target.kube_evidence import DRA

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuassay.facts.kubernetes import Devices, KubeNode, Kubernetes
    from gpuassay.judge.reach import KubernetesReach
    from gpuassay.target.channel import Channel
    from gpuassay.target.kube_api import Api

_NO_IMAGE = (
    'was not started: no image is named: write image = "…@sha256:…", one that has Python 3.9 or newer, '
    "in [kubernetes] of the site file"
)


@dataclass(frozen=True, slots=True)
class Plan:
    """How one node is asked: ``closed`` says why not at all, ``taken`` why without GPUs."""

    node: str
    devices: Devices | None = None
    taken: str = ""
    closed: Ending | None = None
    wait_s: float = 0.0

    @property
    def words(self) -> str:
        """Say it in words."""
        if self.closed:
            return f"not asked: the probe {self.closed.why}"
        if self.devices:
            return f"a pod with {self.devices.allocatable} {self.devices.name}"
        return f"a pod without GPUs{': ' if self.taken else ''}{self.taken}"

    def channel(
        self, api: Api, run: kube_objects.Run, number: int, told: Callable[[str, str], None]
    ) -> Channel:
        """Make the channel; ``told`` hears of GPUs that turn out to be taken."""
        if self.closed:
            return Closed(self.node, self.closed)
        name = f"{run.name}-{number}"
        alone = Pod(self.node, api, _objects(run, f"{name}-alone", self.node, None), self.wait_s)
        if self.devices is None:
            return alone
        objects = _objects(run, name, self.node, self.devices)
        return Pod(self.node, api, objects, self.wait_s, instead=alone, told=told)


def plan_node(facts: Kubernetes, name: str, reach: KubernetesReach, host_view: bool) -> Plan:  # noqa: FBT001
    """Decide from what the API server said of a node."""
    nodes = facts.nodes
    if isinstance(nodes, Unread):
        taken = f"what GPUs it has is not known, so none were asked for: {nodes.why}"
        return _open(name, reach, taken="" if host_view else taken)
    node = nodes.value.get(name)
    closed = _closed(node, name)
    if node is None or closed:
        return Plan(name, closed=Ending("failed", f"was not started: {closed}"))
    devices = None if host_view else facts.devices(node)  # the host has all of them, and shares them
    if devices is None or devices.allocatable == 0:
        return _open(name, reach)
    taken = _taken(facts, name, devices)
    return _open(name, reach, None if taken else devices, taken)


def _open(name: str, reach: KubernetesReach, devices: Devices | None = None, taken: str = "") -> Plan:
    if not reach.image:
        return Plan(name, closed=Ending("failed", _NO_IMAGE))
    return Plan(name, devices, taken, wait_s=reach.wait_s)


def _closed(node: KubeNode | None, name: str) -> str:
    if node is None:
        return f"Kubernetes has no node {name}"
    return node.says if node.shut else ""


def _taken(facts: Kubernetes, node: str, devices: Devices) -> str:
    """Say who has GPUs of a node: with a part of them, the rest would look missing, so it is all or none."""
    holders = facts.holders(node, devices)
    if isinstance(holders, Unread) or not holders.value:
        return ""  # if they are taken all the same, the scheduler says so
    held = sum(holder.gpus for holder in holders.value)
    names = ", ".join(holder.name for holder in holders.value[:3])
    more = f" and {len(holders.value) - 3} more" if len(holders.value) > 3 else ""  # noqa: PLR2004
    return f"busy: {held} of {devices.allocatable} {devices.name} are held by {names}{more}"


def _objects(
    run: kube_objects.Run, name: str, node: str, devices: Devices | None
) -> dict[str, dict[str, Any]]:
    objects = claimed(run, name, devices)
    objects[f"{NAMESPACES}/{run.namespace}/pods"] = kube_objects.pod(run, name, node, devices)
    return objects


def claimed(run: kube_objects.Run, name: str, devices: Devices | None) -> dict[str, dict[str, Any]]:
    """Make the claim that a pod needs for its devices, by its path, where they are given in that way."""
    if not devices or not devices.claimed:
        return {}
    path = f"/apis/{DRA}/{devices.claimed}/namespaces/{run.namespace}/resourceclaims"
    return {path: kube_objects.claim(run, name, devices)}
