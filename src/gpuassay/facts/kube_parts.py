"""What runs in a Kubernetes cluster for its tenants: operators and schedulers, load balancers, storage."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpuassay.facts.kube_words import mapping, name, number, place, records, text
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact

# Names of the workloads of operators as their vendors' charts and manifests give them.
_OPERATORS: Final = re.compile(
    r"(nvidia|amd|amdgpu|gpu|dcgm)-.*"
    r"|(network-operator|mofed|doca|rdma|sriov|multus|kube-multus|whereabouts|nv-ipam|dranet)(-.*)?"
    r"|(mpi-operator|training-operator|kubeflow-trainer|jobset|lws|kueue|volcano|kai|runai|yunikorn)(-.*)?"
    r"|(node-feature-discovery|nfd|node-problem-detector)(-.*)?"
    r"|.+-(node-feature-discovery|rdma-shared-dp|sriov-device-plugin|device-plugin|node-problem-detector)(-.*)?"
)
# Where vendors' documentation puts their operators: AMD's name what they start after an object of the user's.
_HOMES: Final = frozenset(
    {"gpu-operator", "nvidia-gpu-operator", "network-operator", "nvidia-network-operator"}
) | {f"{platform}-amd-{operator}" for platform in ("kube", "openshift") for operator in ("gpu", "network")}


def is_operator(record: Record) -> bool:
    """Tell whether a workload belongs to what makes GPUs, networks or jobs usable."""
    at_home = text(record.record("metadata"), "namespace") in _HOMES
    return at_home or _OPERATORS.fullmatch(name(record)) is not None


class KubeWorkload:
    """A DaemonSet or Deployment of the cluster's own."""

    node = ""
    models: tuple[str, ...] = ()

    def __init__(self, kind: str, record: Record) -> None:
        """Take the object, or why there is none."""
        self.where = f"{kind} {place(record)}" if record.unread is None else ""
        self._record = record

    @property
    def unready(self) -> Fact[int]:
        """How many of its pods are not ready, of those that should be."""
        if self._record.unread:
            return self._record.unread
        status = self._record.record("status")
        if "desiredNumberScheduled" in (status.values if not isinstance(status.values, Unread) else {}):
            wanted, ready = number(status, "desiredNumberScheduled"), number(status, "numberReady")
        else:
            wanted, ready = number(self._record.record("spec"), "replicas"), number(status, "readyReplicas")
        return Read(max(0, wanted - ready), self._record.evidence, f"{ready} of {wanted} pods are ready")


class KubeService:
    """A Service of type LoadBalancer."""

    node = ""
    models: tuple[str, ...] = ()

    def __init__(self, record: Record) -> None:
        """Take the object, or why there is none."""
        self.where = "" if record.unread else f"service {place(record)}"
        self._record = record

    @property
    def addressed(self) -> Fact[bool]:
        """Whether it has an address."""
        given = records(self._record.record("status").record("loadBalancer"), "ingress")
        addresses = [text(one, "ip") or text(one, "hostname") for one in given]
        since = text(self._record.record("metadata"), "creationTimestamp")
        note = f"it was made at {since}, and waits for an address"
        return self._record.unread or Read(any(addresses), self._record.evidence, note)


def is_balanced(record: Record) -> bool:
    """Tell whether a Service asks for a load balancer."""
    return text(record.record("spec"), "type") == "LoadBalancer"


_DEFAULT: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def is_default(record: Record) -> bool:
    """Tell whether a StorageClass is the default."""
    annotations: Mapping[str, object] = mapping(record.record("metadata"), "annotations")
    return any(annotations.get(key) == "true" for key in _DEFAULT)
