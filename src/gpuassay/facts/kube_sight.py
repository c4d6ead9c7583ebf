"""A node as Kubernetes offers it, beside what the node itself shows."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Final

from gpuassay.facts.kube_words import text
from gpuassay.facts.kubernetes import Devices, quantity
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.facts.built import Built
    from gpuassay.facts.kubernetes import KubeNode
    from gpuassay.facts.seats import Seats
    from gpuassay.judge.fact import Fact

# Resources that are GPUs, whole or in parts: nvidia.com/gpu, nvidia.com/mig-1g.23gb, amd.com/cpx_nps4
_GPUS: Final = re.compile(r"nvidia\.com/(gpu|mig-.*)(\.shared)?|amd\.com/(gpu|[sdtqc]px_nps[0-9])")
_PARTS: Final = re.compile(r"nvidia\.com/mig-.*")
# By what names device plugins give out RDMA devices: those of the vendors' and clouds' own documentation.
_RDMA: Final = re.compile(
    r"rdma/.+|mellanox\.com/.+|vpc\.amazonaws\.com/efa|nvidia\.com/.*(rdma|hca|sriov|mlnx|hostdev).*"
    r"|(openshift\.io|intel\.com)/.*(rdma|sriov|mlnx).*|amd\.com/v?nic|networking\.gke\.io\.networks/.*rdma.*"
)
_DOMAINS: Final = "compute-domain.nvidia.com"
_RDMA_DRIVERS: Final = re.compile(r"dra\.net|.*(rdma|sriov|nic|mrdma).*")
# Labels that tell a scheduler which nodes are near each other, beyond zone and region.
_NEAR: Final = re.compile(
    r"network\.topology\.(nvidia\.com|kubernetes\.io)/.+|nvidia\.com/gpu\.clique"
    r"|topology\.k8s\.aws/network-node-layer-[0-9]|cloud\.google\.com/gce-topology-.+"
    r"|oci\.oraclecloud\.com/rdma\..+|.*/(rack|block|leaf|leafgroup|spine|superpod)"
)


class KubeSight:
    """What Kubernetes has of one node."""

    def __init__(self, seats: Seats, node: Built) -> None:
        """Take what the schedulers said, and the node."""
        self._seats = seats
        self._kubernetes = seats.kubernetes
        self._owner = node

    @property
    def offered_by(self) -> Fact[str]:
        """What gives out its GPUs: ``device plugin``, ``dynamic resource allocation`` or ``nothing``."""
        node = self._node
        if isinstance(node, Unread):
            return node
        devices = self._kubernetes.devices(node.value)
        if devices is None and not _amounts(node.value.capacity):
            return Read("nothing", node.evidence, "no device plugin and no ResourceSlice names GPUs of it")
        claimed = devices is not None and devices.claimed
        return Read("dynamic resource allocation" if claimed else "device plugin", node.evidence)

    @property
    def missing(self) -> Fact[int]:
        """How many of its GPUs Kubernetes cannot give out, of those that it or the node itself has."""
        offer = self._offer
        if isinstance(offer, Unread):
            return offer
        shown = self._shown.value if isinstance(self._shown, Read) else 0
        return Read(
            max(0, max(offer.value.capacity, shown) - offer.value.allocatable), offer.evidence, offer.note
        )

    @property
    def invented(self) -> Fact[int]:
        """How many more GPUs Kubernetes gives out than there are: they are shared by time."""
        offer, shown = self._offer, self._shown
        if isinstance(offer, Unread):
            return offer
        if isinstance(shown, Unread):
            return shown
        return Read(max(0, offer.value.allocatable - shown.value), offer.evidence, offer.note)

    @property
    def beyond_capacity(self) -> Fact[int]:
        """How many more GPUs Kubernetes gives out than it says that the node has."""
        offer = self._offer
        if isinstance(offer, Unread):
            return offer
        beyond = max(0, offer.value.allocatable - offer.value.capacity)
        return Read(beyond, offer.evidence, offer.note)

    @property
    def rdma(self) -> Fact[bool]:
        """Whether pods can be given its RDMA devices."""
        node = self._node
        if isinstance(node, Unread):
            return node
        named = sorted(name for name in node.value.allocatable if _RDMA.fullmatch(name))
        usable = [name for name in named if quantity(node.value.allocatable[name])]
        slices = [one for one in self._kubernetes.drivers(node.value.name) if _RDMA_DRIVERS.fullmatch(one)]
        note = (
            f"allocatable has {', '.join(named)}, and none of it can be given"
            if named
            else "no such resource"
        )
        return Read(bool(usable or slices), node.evidence, note)

    @property
    def nvlink_channels(self) -> Fact[bool]:
        """Whether pods on it can join a ComputeDomain: its driver has published a channel of the node."""
        node, slices = self._node, self._kubernetes.slices
        if isinstance(node, Unread):
            return node
        if isinstance(slices, Unread):
            missing = slices.kind in ("unsupported", "not_found")
            return Read(value=False, evidence=slices.evidence, note=slices.why) if missing else slices
        offered = _DOMAINS in self._kubernetes.drivers(node.value.name)
        return Read(offered, slices.evidence, f"no ResourceSlice of {_DOMAINS} names it")

    @property
    def near(self) -> Fact[bool]:
        """Whether it has a label that says where in the network it is."""
        node = self._node
        if isinstance(node, Unread):
            return node
        return Read(any(_NEAR.fullmatch(label) for label in node.value.labels), node.evidence)

    @property
    def cpu_policy(self) -> Fact[str]:
        """How its kubelet gives out processors: ``static`` keeps whole ones for pods that ask for such."""
        node, kubelets = self._node, self._kubernetes.kubelets
        if isinstance(node, Unread):
            return node
        if isinstance(kubelets, Unread):
            return kubelets
        config = kubelets.value.get(node.value.name)
        if config is None:
            return Unread("not_found", "its kubelet was not asked how it is set up", kubelets.evidence)
        policy = config.text("cpuManagerPolicy")
        if isinstance(policy, Unread):
            return policy
        topology = text(config, "topologyManagerPolicy") or "not told"
        return Read(policy.value, policy.evidence, f"policy of the topology manager: {topology}")

    @property
    def _node(self) -> Fact[KubeNode]:
        return self._seats.host(self._owner.name)

    @cached_property
    def _offer(self) -> Fact[Devices]:
        """All its GPUs, whole ones and parts; the note has them by name, and what the node shows."""
        node = self._node
        if isinstance(node, Unread):
            return node
        if no_count := _no_count(node.value):
            return Unread("garbled", no_count, node.evidence)
        devices = self._kubernetes.devices(node.value)
        if devices is None or not devices.claimed:
            capacity, free = _amounts(node.value.capacity), _amounts(node.value.allocatable)
            devices = Devices(" and ".join(capacity), sum(capacity.values()), sum(free.values()))
        given = f"{devices.allocatable} of {devices.capacity} {devices.name or 'GPUs'} can be given out"
        shown = self._shown
        seen = f"the node has {shown.value}" if isinstance(shown, Read) else f"not counted there: {shown.why}"
        return Read(devices, node.evidence, f"{given}; {seen}")

    @cached_property
    def _shown(self) -> Fact[int]:
        """Count what a program sees as GPUs on the node; parts of NVIDIA's are no such count."""
        node = self._node
        if isinstance(node, Read) and any(map(_PARTS.fullmatch, node.value.capacity)):
            return Unread("denied", "it is divided into MIG instances")
        seen = self._owner.gpus_seen
        parts = [gpu.partitions for gpu in self._owner.gpus]
        divided = [one.value for one in parts if isinstance(one, Read)]
        whole = isinstance(seen, Read) and parts and len(divided) == len(parts)
        return Read(sum(divided), seen.evidence) if whole else seen


def _amounts(amounts: Mapping[str, object]) -> dict[str, int]:
    return {name: quantity(count) for name, count in amounts.items() if _GPUS.fullmatch(name)}


def _no_count(node: KubeNode) -> str:
    """Say which amount of GPUs is no count of any; empty if all are."""
    for words, amounts in (("capacity", node.capacity), ("allocatable", node.allocatable)):
        for name, amount in amounts.items():
            if _GPUS.fullmatch(name) and str(quantity(amount)) != str(amount):
                return f"its {words} of {name} is {brief(str(amount))}, which is no count of GPUs"
    return ""
