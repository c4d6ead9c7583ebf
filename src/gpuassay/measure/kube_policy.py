"""The survey of whether a NetworkPolicy is honoured: some network plugins take one and let all through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay.evidence.item import Item
from gpuassay.facts.kube_words import text
from gpuassay.facts.source import document
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.kube_volumes import PAIR, what_a_pair_lacks
from gpuassay.measure.shared_claims import left_behind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.judge.fact import Fact, Scalar
    from gpuassay.judge.services import Services


class Denied:
    """What a client reached of two servers, one of which a policy shuts."""

    where = "the network of pods"
    node = ""
    models: tuple[str, ...] = ()

    def __init__(self, evidence: NodeEvidence) -> None:
        """Take the answers of the survey."""
        self._evidence = evidence

    @property
    def honoured(self) -> Fact[bool]:
        """Whether the open server was reached, and the shut one was not."""
        if self._hindrance:
            return self._hindrance
        told = document(self._evidence, "client")
        opened, shut = told.flag("open"), told.flag("shut")
        if isinstance(opened, Unread) or isinstance(shut, Unread):
            why = text(told, "why") or text(told, "state") or "the client printed nothing"
            return told.unread or Unread("failed", f"on {text(told, 'node')}: {why}", told.evidence)
        if not opened.value:
            return Unread("failed", "the pod that no policy shuts was not reached either", told.evidence)
        return Read(not shut.value, told.evidence, "the pod that a policy shuts was reached all the same")

    @property
    def left_behind(self) -> Fact[bool]:
        """Whether something that was made for the trial could not be removed."""
        return self._hindrance or left_behind(self._evidence)

    @property
    def _hindrance(self) -> Unread | None:
        trial = self._evidence.item("trial")
        if trial is None or trial.status == "ok":
            return None
        return Unread(trial.status, trial.why, self._evidence.ref(trial))


class KubePolicy:
    """Three pods and a policy for one of them."""

    method = 1

    def ask(
        self, services: Services, nodes: Sequence[str], args: Mapping[str, Scalar], deadline_s: float
    ) -> Iterator[Item]:
        """Try it between the first two of ``nodes``; each part may take ``seconds``."""
        lack = what_a_pair_lacks(services.reach.kubernetes, nodes)
        if lack:
            yield Item("trial", 0, status="denied", why=lack)
            return
        from gpuassay.target.kube_deny import DenyTrial  # noqa: PLC0415 - an extra
        from gpuassay.target.kube_trial import carry_out  # noqa: PLC0415

        seconds = float(args["seconds"])
        yield from carry_out(
            services.reach.kubernetes,
            deadline_s,
            lambda api, run: DenyTrial(api, run, nodes[:PAIR], seconds),
        )

    def read(self, args: Mapping[str, Scalar], evidence: NodeEvidence) -> Sequence[Denied]:  # noqa: ARG002
        """Read what was reached."""
        return [Denied(evidence)] if evidence.answered else []
