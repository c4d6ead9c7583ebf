"""The worker nodes of a Kubernetes cluster, as the API server has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuassay.facts.kube_words import moment, records, text
from gpuassay.facts.kubernetes import KubeNode
from gpuassay.facts.record import mapped
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from datetime import datetime

    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact

# Conditions that say trouble when they are True: the kubelet's, and those of the node-problem-detector.
_PRESSURES: Final = frozenset({"MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"})
_PROBLEMS: Final = frozenset(
    {
        "ContainerRuntimeUnhealthy",
        "CorruptDockerOverlay2",
        "CperHardwareErrorFatal",
        "FrequentContainerdRestart",
        "FrequentDockerRestart",
        "FrequentKubeletRestart",
        "FrequentUnregisterNetDevice",
        "KernelDeadlock",
        "KubeletUnhealthy",
        "ReadonlyFilesystem",
        "XfsShutdown",
    }
)


class KubeWorker:
    """A node that runs workloads. It is a part of the cluster here: a silent node is judged as well."""

    node = ""
    models: tuple[str, ...] = ()

    def __init__(self, record: Record, now: datetime | None) -> None:
        """Take the object, or why there is none, and when it was asked for."""
        self._record = record
        self._now = now
        self._node = KubeNode(record)
        self._status = record.record("status")

    @property
    def where(self) -> str:
        """Its name."""
        return self._node.name

    @property
    def ready(self) -> Fact[bool]:
        """Whether Kubernetes says so; the note has its words, and the GPUs that it still lists there."""
        if self._record.unread:
            return self._record.unread
        why = self._node.not_ready
        offered = self._node.plugged
        still = f"; it still lists {offered.allocatable} {offered.name}" if why and offered else ""
        return Read(not why, self._record.evidence, f"{why}{still}")

    @property
    def heartbeat_age(self) -> Fact[float]:
        """How many seconds before it was asked for its kubelet last told its state."""
        if self._record.unread:
            return self._record.unread
        beats = [moment(one, "lastHeartbeatTime") for one in self._conditions if text(one, "type") == "Ready"]
        last = next((beat for beat in beats if beat), None)
        if last is None or self._now is None:
            return Unread("garbled", "no time of a last heartbeat", self._record.evidence)
        return Read(max(0.0, (self._now - last).total_seconds()), self._record.evidence, f"last at {last}")

    @property
    def troubles(self) -> Fact[int]:
        """How many of its conditions say that something is wrong; the note has their words."""
        if self._record.unread:
            return self._record.unread
        told = [one for one in self._conditions if text(one, "type") in _PRESSURES | _PROBLEMS]
        bad = [one for one in told if text(one, "status") == "True"]
        words = "; ".join(f"{text(one, 'type')}: {text(one, 'message')}" for one in bad)
        return Read(len(bad), self._record.evidence, words)

    @property
    def watched(self) -> Fact[bool]:
        """Whether a node-problem-detector tells of it."""
        known = {text(one, "type") for one in self._conditions}
        return self._record.unread or Read(not known.isdisjoint(_PROBLEMS), self._record.evidence)

    @property
    def kubelet(self) -> Fact[str]:
        """The version of its kubelet, e.g. ``1.36``."""
        info = self._status.record("nodeInfo")
        return mapped(info.text("kubeletVersion", r"v[0-9]+\.[0-9]+\..*"), minor_of)

    @property
    def virtual_signs(self) -> tuple[str, ...]:
        """Labels by which a virtual cluster marks a node that it only pretends to have."""
        return tuple(sorted(label for label in self._node.labels if "vcluster.loft.sh/" in label))

    @property
    def _conditions(self) -> tuple[Record, ...]:
        return records(self._status, "conditions")


def minor_of(version: str) -> str:
    """Give major and minor number of ``v1.36.2-eks-1`` or the like."""
    return ".".join(version.removeprefix("v").split(".")[:2])
