"""A Kubernetes cluster as a whole: its version, what it offers its tenants, and what keeps them apart."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeVar

from gpuassay.facts import source
from gpuassay.facts.kube_access import Access, Grants
from gpuassay.facts.kube_packing import scattered
from gpuassay.facts.kube_parts import (
    KubeService,
    KubeWorkload,
    is_balanced,
    is_default,
    is_operator,
)
from gpuassay.facts.kube_policies import Policies
from gpuassay.facts.kube_words import listed, mapping, name, text
from gpuassay.facts.kube_workers import KubeWorker, minor_of
from gpuassay.facts.kubernetes import KubeNode, Kubernetes
from gpuassay.facts.record import Record, mapped
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

T = TypeVar("T")

# Groups of the API by which what extends it is known; each is its project's own. AMD's operators share one,
# and are told by what they define in it.
_GPU_OPERATORS: Final = {
    "nvidia.com": "NVIDIA GPU Operator",
    "deviceconfigs.amd.com": "AMD GPU Operator",
    "resource.nvidia.com": "NVIDIA's driver of dynamic resource allocation",
}
_NETWORK_OPERATORS: Final = {
    "mellanox.com": "NVIDIA Network Operator",
    "sriovnetwork.openshift.io": "SR-IOV Network Operator",
    "networkconfigs.amd.com": "AMD Network Operator",
    "networking.gke.io": "GKE's multi-networking",
}
_GANGS: Final = {
    "kueue.x-k8s.io": "Kueue",
    "scheduling.volcano.sh": "Volcano",
    "scheduling.run.ai": "KAI Scheduler or Run:ai",
    "scheduling.x-k8s.io": "the coscheduling plugin",
    "yunikorn.apache.org": "YuniKorn",
}
_LAUNCHERS: Final = {
    "kubeflow.org": "MPI Operator or Kubeflow's Training Operator",
    "trainer.kubeflow.org": "Kubeflow Trainer",
    "jobset.x-k8s.io": "JobSet",
    "leaderworkerset.x-k8s.io": "LeaderWorkerSet",
    "batch.volcano.sh": "Volcano",
}
_SHARED: Final = "amd.com"
_GATEWAY: Final = "gateway.networking.k8s.io"
_NO_METRICS: Final = frozenset({"not_found", "failed", "timed_out"})
_SKEW: Final = 3  # a kubelet may be this many minor versions older than its API server, and never newer


class KubeCluster:
    """The cluster behind an API server."""

    where = node = ""
    models: tuple[str, ...] = ()

    def __init__(self, evidence: Evidence, begin: datetime | None) -> None:
        """Take the evidence of the cluster as a whole, and when it was asked for."""
        self._evidence = evidence
        self._begin = begin
        self._nodes = Kubernetes(evidence)

    @property
    def alone(self) -> tuple[KubeCluster]:
        """The cluster, alone."""
        return (self,)

    @cached_property
    def access(self) -> Access:
        """What this user may do."""
        return Access(self._evidence)

    @cached_property
    def grants(self) -> Grants:
        """What roles give to everybody."""
        return Grants(self._evidence)

    @cached_property
    def policies(self) -> Policies:
        """The policies of the namespace in which this user works."""
        return Policies(self._evidence, self.access.namespace, self._groups)

    # --- its parts -------------------------------------------------------------------------------

    @cached_property
    def workers(self) -> tuple[KubeWorker, ...]:
        """Its nodes that run workloads."""
        found = listed(self._evidence, "nodes")
        if isinstance(found, Unread):
            return (KubeWorker(Record(found), self._begin),)
        return tuple(KubeWorker(one, self._begin) for one in found.value if KubeNode(one).is_worker)

    @cached_property
    def operators(self) -> tuple[KubeWorkload, ...]:
        """What makes GPUs, networks and jobs usable."""
        found: list[KubeWorkload] = []
        for kind in ("daemonset", "deployment"):
            workloads = listed(self._evidence, f"{kind}s")
            if isinstance(workloads, Unread):
                found.append(KubeWorkload(kind, Record(workloads)))
            else:
                found += [KubeWorkload(kind, one) for one in workloads.value if is_operator(one)]
        return tuple(found) or (KubeWorkload("", Record(_NO_OPERATOR)),)

    @cached_property
    def balanced(self) -> tuple[KubeService, ...]:
        """Its Services of type LoadBalancer."""
        found = listed(self._evidence, "services")
        if isinstance(found, Unread):
            return (KubeService(Record(found)),)
        services = tuple(KubeService(one) for one in found.value if is_balanced(one))
        return services or (KubeService(Record(_NO_BALANCED)),)

    # --- what it is ------------------------------------------------------------------------------

    @property
    def version(self) -> Fact[str]:
        """The version of its API server, e.g. ``1.36``."""
        document = source.document(self._evidence, "kubernetes/version")
        return mapped(document.text("gitVersion", r"v[0-9]+\.[0-9]+\..*"), minor_of)

    @property
    def skewed(self) -> Fact[int]:
        """How many kubelets are newer than the API server, or older than Kubernetes supports."""
        server, found = self.version, []
        if isinstance(server, Unread):
            return server
        for worker in self.workers:
            kubelet = worker.kubelet
            if isinstance(kubelet, Unread):
                return kubelet
            if not 0 <= _minor(server.value) - _minor(kubelet.value) <= _SKEW:
                found.append(f"{worker.where}: {kubelet.value}")
        note = f"the API server is {server.value}; {', '.join(found[:5])}"
        return Read(len(found), server.evidence, note)

    @property
    def virtual_signs(self) -> Fact[int]:
        """How many nodes are marked as those of a virtual cluster, whose real ones cannot be seen."""
        nodes = listed(self._evidence, "nodes")
        if isinstance(nodes, Unread):
            return nodes
        marked = [worker for worker in self.workers if worker.virtual_signs]
        note = "; ".join(f"{one.where}: {', '.join(one.virtual_signs)}" for one in marked[:3])
        return Read(len(marked), nodes.evidence, note)

    # --- what it offers --------------------------------------------------------------------------

    @property
    def gpu_operator(self) -> Fact[bool]:
        """Whether an operator looks after its GPUs' drivers and plugins; the note names it."""
        return self._extended_by(_GPU_OPERATORS)

    @property
    def network_operator(self) -> Fact[bool]:
        """Whether an operator gives pods the fabric's ports."""
        return self._extended_by(_NETWORK_OPERATORS)

    @property
    def gangs(self) -> Fact[bool]:
        """Whether jobs of many pods are started all at once or not at all."""
        return self._extended_by(_GANGS)

    @property
    def launchers(self) -> Fact[bool]:
        """Whether there is a kind of job that spans nodes, as MPI and collectives need it."""
        return self._extended_by(_LAUNCHERS)

    @property
    def scattered(self) -> Fact[int]:
        """How many nodes are partly used beyond need."""
        return scattered(self._nodes, self._groups)

    @property
    def entrances(self) -> Fact[int]:
        """How many ingress classes there are; the Gateway API counts as one."""
        found = listed(self._evidence, "ingressclasses")
        if isinstance(found, Unread):
            return found
        gateway = isinstance(self._groups, Read) and _GATEWAY in self._groups.value
        return Read(len(found.value) + gateway, found.evidence, ", ".join(map(name, found.value)))

    @property
    def default_classes(self) -> Fact[int]:
        """How many storage classes say that they are the default."""
        found = listed(self._evidence, "storageclasses")
        if isinstance(found, Unread):
            return found
        names = [name(one) for one in found.value]
        default = [name(one) for one in found.value if is_default(one)]
        note = f"classes: {', '.join(names) or 'none'}; default: {', '.join(default) or 'none'}"
        return Read(len(default), found.evidence, note)

    @property
    def rival_classes(self) -> Fact[int]:
        """How many of these there are too many."""
        return mapped(self.default_classes, lambda count: max(0, count - 1))

    @property
    def unmeasured(self) -> Fact[int]:
        """How many worker nodes the metrics API says nothing of."""
        workers = {worker.where for worker in self.workers if worker.where}
        found = listed(self._evidence, "metrics")
        if isinstance(found, Unread):
            nodes = listed(self._evidence, "nodes")
            silent = isinstance(nodes, Unread) and nodes.kind in _NO_METRICS  # then the API server itself is
            if found.kind not in _NO_METRICS or silent:
                return found
            return Read(max(1, len(workers)), found.evidence, f"the metrics API does not answer: {found.why}")
        if not workers:
            return Unread("denied", "which nodes it has is not known", found.evidence)
        known = {name(one) for one in found.value if mapping(one, "usage")}
        missing = sorted(workers - known)
        return Read(len(missing), found.evidence, ", ".join(missing[:5]))

    def _extended_by(self, known: Mapping[str, str]) -> Fact[bool]:
        groups = self._groups
        if isinstance(groups, Unread):
            return groups
        found = groups.value & known.keys()
        shared = groups.value & {_SHARED} if any(word.endswith(f".{_SHARED}") for word in known) else ()
        if shared and not found:
            defined = listed(self._evidence, "customresourcedefinitions")
            if isinstance(defined, Unread):
                why = (
                    f"{_SHARED} is served, and which of its operators that is may not be read: {defined.why}"
                )
                return Unread(defined.kind, why, defined.evidence)
            found = frozenset(map(name, defined.value)) & known.keys()
        note = ", ".join(sorted({known[word] for word in found})) or f"the API has none of {', '.join(known)}"
        return Read(bool(found), groups.evidence, note)

    @cached_property
    def _groups(self) -> Fact[frozenset[str]]:
        found = source.document(self._evidence, "kubernetes/groups").listed("groups")
        return mapped(found, lambda groups: frozenset(text(one, "name") for one in groups))


_NO_OPERATOR: Final = Unread("denied", "no workload of a known operator is seen")
_NO_BALANCED: Final = Unread(
    "denied", "no Service asks for a load balancer: whether it would get one is not known"
)


def _minor(version: str) -> int:
    return int(re.sub(r"[^0-9].*", "", version.partition(".")[2]) or 0)
