"""What Kubernetes says of its nodes: whether they are ready, cordoned, what they can give and who has it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts.kube_words import listed, mapping, place, records, text
from gpuassay.facts.kube_words import name as name_of
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpuassay.facts.record import Record
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
"""By which names the vendors' device plugins offer whole GPUs."""

GPU_DRIVERS = ("gpu.nvidia.com", "gpu.amd.com")
"""By which names the vendors' drivers of dynamic resource allocation do; so are the device classes named."""

_CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Devices:
    """GPUs of a node: how many there are, and how many of them Kubernetes can give out."""

    name: str
    capacity: int
    allocatable: int
    claimed: str = (
        ""  # in which version of its API a ResourceClaim takes them; empty: a container's resources
    )


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod or claim that holds GPUs of a node."""

    name: str
    gpus: int


class KubeNode:
    """A Node, as the API server has it."""

    def __init__(self, record: Record) -> None:
        """Take the object."""
        self._record = record
        self._metadata = record.record("metadata")
        self._spec = record.record("spec")
        self._status = record.record("status")

    @cached_property
    def name(self) -> str:
        """Its name; empty for one that has none."""
        return text(self._metadata, "name")

    @cached_property
    def cordoned(self) -> str:
        """That nothing new may run on it, and since when; empty if it may."""
        flag = self._spec.look("unschedulable")
        if not isinstance(flag, Read) or flag.value is not True:
            return ""
        since = next((text(taint, "timeAdded") for taint in self.taints if _is_cordon(taint)), "")
        return f"cordoned{f' since {since}' if since else ''}"

    @cached_property
    def not_ready(self) -> str:
        """What Kubernetes says of a node that is not ready; empty if it is."""
        for condition in records(self._status, "conditions"):
            if text(condition, "type") == "Ready":
                if text(condition, "status") == "True":
                    return ""
                said = [text(condition, key) for key in ("reason", "message")]
                since = text(condition, "lastTransitionTime")
                words = ": ".join(filter(None, ["NotReady" + (f" since {since}" if since else ""), *said]))
                return brief(words)
        return "NotReady: its kubelet has never reported"

    @cached_property
    def boot_id(self) -> str:
        """What its kubelet says that its kernel calls this boot; empty if it does not."""
        return text(self._status.record("nodeInfo"), "bootID")

    @property
    def shut(self) -> str:
        """Why nothing new may run on it; empty if it may."""
        return "; ".join(filter(None, [self.cordoned, self.not_ready]))

    @property
    def says(self) -> str:
        """What Kubernetes says of it, for a reason."""
        return f"Kubernetes says {self.shut or 'Ready, and not cordoned'}"

    @cached_property
    def taints(self) -> tuple[Record, ...]:
        """Its taints."""
        return records(self._spec, "taints")

    @cached_property
    def labels(self) -> Mapping[str, object]:
        """Its labels."""
        return mapping(self._metadata, "labels")

    @property
    def is_worker(self) -> bool:
        """Whether it runs workloads of the kind that is audited: a Linux that is no control plane."""
        system = self.labels.get("kubernetes.io/os", "linux")
        return system == "linux" and not any(label in self.labels for label in _CONTROL_PLANE)

    @cached_property
    def plugged(self) -> Devices | None:
        """The GPUs that a device plugin offers, if one does."""
        for name in GPU_RESOURCES:
            count = quantity(self.capacity.get(name))
            if count:
                return Devices(name, count, quantity(self.allocatable.get(name)))
        return None

    @cached_property
    def capacity(self) -> Mapping[str, object]:
        """How much of each resource it has."""
        return mapping(self._status, "capacity")

    @cached_property
    def allocatable(self) -> Mapping[str, object]:
        """How much of each resource pods can be given."""
        return mapping(self._status, "allocatable")


class Kubernetes:
    """Everything that the API server said, read when it is first asked for."""

    def __init__(self, evidence: Evidence) -> None:
        """Take the evidence of the cluster as a whole."""
        self._evidence = evidence

    @property
    def asked(self) -> bool:
        """Whether this cluster was reached through Kubernetes at all."""
        return self._evidence.item("kubernetes/nodes") is not None

    @cached_property
    def nodes(self) -> Fact[Mapping[str, KubeNode]]:
        """Its nodes by name, or why they are not known."""
        listed = self._listed("nodes")
        if isinstance(listed, Unread):
            return listed
        nodes = (KubeNode(record) for record in listed.value)
        return Read({node.name: node for node in nodes if node.name}, listed.evidence)

    @cached_property
    def places(self) -> Fact[Mapping[str, frozenset[str]]]:
        """On which nodes pods run that have, or give their host, a name; by that name."""
        pods = self._listed("pods")
        if isinstance(pods, Unread):
            return pods
        places: dict[str, set[str]] = {}
        for pod in pods.value:
            spec = pod.record("spec")
            if text(pod.record("status"), "phase") not in _ENDED and text(spec, "nodeName"):
                for name in {text(spec, "hostname"), text(pod.record("metadata"), "name")}:
                    places.setdefault(name, set()).add(text(spec, "nodeName"))
        return Read({name: frozenset(nodes) for name, nodes in places.items()}, pods.evidence)

    def devices(self, node: KubeNode) -> Devices | None:
        """Find the GPUs of a node, of a device plugin or of dynamic resource allocation; None: none."""
        if node.plugged is None or node.plugged.allocatable == 0:
            for driver in GPU_DRIVERS:
                count = self._published.get((node.name, driver), 0)
                if count:
                    return Devices(driver, count, count, claimed=self._version)
        return node.plugged

    def holders(self, node: str, devices: Devices) -> Fact[tuple[Holder, ...]]:
        """Find who holds GPUs of a node, or why that is not known."""
        if devices.claimed:
            return self._claimants(node, devices.name)
        pods = self._listed("pods")
        if isinstance(pods, Unread):
            return pods
        held = ((place(pod), _requested(pod, devices.name)) for pod in pods.value if _runs_on(pod, node))
        return Read(tuple(Holder(place, gpus) for place, gpus in held if gpus), pods.evidence)

    def drivers(self, node: str) -> frozenset[str]:
        """Name the drivers of dynamic resource allocation that have published devices of a node."""
        return frozenset(driver for place, driver in self._published if place == node)

    def _claimants(self, node: str, driver: str) -> Fact[tuple[Holder, ...]]:
        claims = self._listed("resourceclaims")
        if isinstance(claims, Unread):
            return claims
        found = []
        for claim in claims.value:
            devices = claim.record("status").record("allocation").record("devices")
            gpus = sum(
                text(result, "driver") == driver and text(result, "pool") in self._pools.get(node, ())
                for result in records(devices, "results")
            )
            found += [Holder(place(claim), gpus)] if gpus else []
        return Read(tuple(found), claims.evidence)

    @cached_property
    def _version(self) -> str:
        """The version of the API in which devices were listed, from the path that was asked."""
        item = self._evidence.item("kubernetes/resourceslices")
        path = str(item.asked.get("api", "")) if item else ""
        return path.split("/")[-2] if path.count("/") > 1 else ""

    @cached_property
    def kubelets(self) -> Fact[Mapping[str, Record]]:
        """How kubelets are set up, by node, or why that is not known."""
        listed = self._listed("kubelets")
        if isinstance(listed, Unread):
            return listed
        return Read({name_of(one): one.record("kubeletconfig") for one in listed.value}, listed.evidence)

    @property
    def slices(self) -> Fact[tuple[Record, ...]]:
        """What drivers of dynamic resource allocation have published, or why that is not known."""
        return self._listed("resourceslices")

    @cached_property
    def _slices(self) -> tuple[Record, ...]:
        listed = self._listed("resourceslices")
        return () if isinstance(listed, Unread) else tuple(one.record("spec") for one in listed.value)

    @cached_property
    def _published(self) -> Mapping[tuple[str, str], int]:
        """How many devices each driver has published for each node."""
        counts: dict[tuple[str, str], int] = {}
        for spec in self._slices:
            place = text(spec, "nodeName"), text(spec, "driver")
            counts[place] = counts.get(place, 0) + len(records(spec, "devices"))
        return counts

    @cached_property
    def _pools(self) -> Mapping[str, set[str]]:
        pools: dict[str, set[str]] = {}
        for spec in self._slices:
            pools.setdefault(text(spec, "nodeName"), set()).add(text(spec.record("pool"), "name"))
        return pools

    def _listed(self, kind: str) -> Fact[tuple[Record, ...]]:
        return listed(self._evidence, kind)


def quantity(value: object) -> int:
    """Read a whole number of devices; what is none counts as none."""
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0  # noqa: PLR2004


def _is_cordon(taint: Record) -> bool:
    return text(taint, "key") == "node.kubernetes.io/unschedulable"


def _runs_on(pod: Record, node: str) -> bool:
    ended = text(pod.record("status"), "phase") in _ENDED
    return text(pod.record("spec"), "nodeName") == node and not ended


def _requested(pod: Record, resource: str) -> int:
    """Count what a pod holds: its containers together, or the init container that wants most of all."""
    spec = pod.record("spec")
    together = sum(_of(records(spec, "containers"), resource))
    return max([together, *_of(records(spec, "initContainers"), resource)])


def _of(containers: Iterable[Record], resource: str) -> list[int]:
    """Give each container's part; of an extended resource, request and limit are the same."""
    found = []
    for container in containers:
        resources = container.record("resources")
        asked = {**mapping(resources, "limits"), **mapping(resources, "requests")}
        found.append(quantity(asked.get(resource)))
    return found


def out_of_service(kubernetes: Kubernetes, names: frozenset[str]) -> Mapping[str, str]:
    """Give those of these nodes that are cordoned, each with what Kubernetes says."""
    nodes = kubernetes.nodes.value if isinstance(kubernetes.nodes, Read) else {}
    return {name: node.says for name, node in nodes.items() if name in names and node.cordoned}
