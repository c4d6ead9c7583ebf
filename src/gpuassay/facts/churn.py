"""What came of churn in Kubernetes: how long pods and claims took, which failed, and what stayed."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts import source
from gpuassay.facts.kube_words import records, text, texts
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuassay.facts.record import Record
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

PODS, CLAIMS, VOLUMES, ATTACHMENTS = "pods", "claims", "volumes", "attachments"
_SHOWN = 3


class _Cycles:
    """Many small things that were made and removed, each with its times; ``item`` tells of all of them."""

    item = ""
    what = ""
    node = ""
    models: tuple[str, ...] = ()

    def __init__(self, evidence: Evidence) -> None:
        """Take the answers of the survey."""
        self._evidence = evidence

    @property
    def where(self) -> str:
        """Its place: the cluster has one of it."""
        return self.what

    @property
    def failed(self) -> Fact[int]:
        """How many did not come to be of use, or were refused, or did not go."""
        cycles = self._cycles
        if isinstance(cycles, Unread):
            return cycles
        bad = [why for one in cycles.value if (why := self._trouble(one))]
        words = f"of {len(cycles.value)}{': ' if bad else ''}{bad[0] if bad else ''}"
        return Read(len(bad), cycles.evidence, words)

    def _p99(self, key: str) -> Fact[float]:
        """Give the time that 99 of 100 stay within; what has none of it is counted as failed instead."""
        cycles = self._cycles
        if isinstance(cycles, Unread):
            return cycles
        times = [took for one in cycles.value if (took := _seconds(one, key)) is not None]
        if not times:
            return Unread("failed", f"none of {len(cycles.value)} {self.what} came so far", cycles.evidence)
        shares = ", ".join(f"p{share} {percentile(times, share):g} s" for share in (50, 90, 99))
        note = f"{shares} of {len(times)}"
        return Read(percentile(times, 99), cycles.evidence, note)

    def _trouble(self, one: Record) -> str:
        why = text(one, "why")
        stays = "it was still there at the end" if _seconds(one, "gone_s") is None else ""
        return brief(why or stays)

    @cached_property
    def _cycles(self) -> Fact[Sequence[Record]]:
        told = source.document(self._evidence, self.item)
        if told.unread is not None:
            return told.unread
        cycles = records(told, "cycles")
        if not cycles:
            return Unread("garbled", f"no {self.what} were made", told.evidence)
        return Read(cycles, told.evidence)


class PodChurn(_Cycles):
    """Pods that were made, became ready, and were removed."""

    item, what = PODS, "pods"

    @property
    def create_p99_s(self) -> Fact[float]:
        """Until the API server had taken the pod."""
        return self._p99("create_s")

    @property
    def scheduled_p99_s(self) -> Fact[float]:
        """Until it was seen to have its place."""
        return self._p99("scheduled_s")

    @property
    def ready_p99_s(self) -> Fact[float]:
        """Until it was seen to be ready."""
        return self._p99("ready_s")

    @property
    def gone_p99_s(self) -> Fact[float]:
        """From its removal until it was gone."""
        return self._p99("gone_s")


class ClaimChurn(_Cycles):
    """Volumes that were claimed, written to by a pod, and removed."""

    item, what = CLAIMS, "claims"

    @property
    def bound_p99_s(self) -> Fact[float]:
        """Until the claim was seen to be bound."""
        return self._p99("bound_s")

    @property
    def mounted_p99_s(self) -> Fact[float]:
        """Until the pod that uses it was ready."""
        return self._p99("ready_s")

    @property
    def gone_p99_s(self) -> Fact[float]:
        """From the removal of the claim, which nobody used any more, until it was gone."""
        return self._p99("gone_s")

    @property
    def leaked_volumes(self) -> Fact[int]:
        """How many volumes were still there when their claims had gone."""
        return self._left(VOLUMES)

    @property
    def leaked_attachments(self) -> Fact[int]:
        """How many volumes were still attached to a node then."""
        return self._left(ATTACHMENTS)

    def _left(self, item_id: str) -> Fact[int]:
        told = source.document(self._evidence, item_id)
        made = told.count("made")
        if isinstance(made, Unread):
            return made
        if not made.value:
            return Unread("failed", "no claim was bound to a volume", told.evidence)
        left = sorted(texts(told, "left"))
        return Read(len(left), told.evidence, f"of {made.value}: {', '.join(left[:_SHOWN]) or 'none'}")


class KubeStorm:
    """All churn of one cluster."""

    def __init__(self, evidence: Evidence) -> None:
        """Take the answers of the survey."""
        self.pods = PodChurn(evidence)
        self.claims = ClaimChurn(evidence)


def _seconds(one: Record, key: str) -> float | None:
    fact = one.look(key)
    value = fact.value if isinstance(fact, Read) else None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
        return None
    return float(value)


def percentile(values: Sequence[float], percent: int) -> float:
    """Give the nearest rank: the smallest value that so many percent stay within."""
    return sorted(values)[max(0, math.ceil(percent / 100 * len(values)) - 1)]
