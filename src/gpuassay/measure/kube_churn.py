"""The survey of Kubernetes by churn: many small pods and claims are made and removed, and timed.

No pod asks for a GPU. What a cluster under churn loses or leaves behind is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay.evidence.item import Item
from gpuassay.facts.churn import PODS, KubeStorm
from gpuassay.measure.kube_volumes import what_lacks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.judge.fact import Scalar
    from gpuassay.judge.services import Services


class KubeChurn:
    """Pods, claims, and what is left of them."""

    method = 1

    def ask(
        self, services: Services, nodes: Sequence[str], args: Mapping[str, Scalar], deadline_s: float
    ) -> Iterator[Item]:
        """Churn on all of ``nodes``; ``pods`` and ``claims`` of ``size`` in all, ``at_once`` at a time."""
        reach = services.reach.kubernetes
        lack = what_lacks(reach) or ("" if nodes else "no node has answered")
        if lack:
            yield Item(PODS, 0, "denied", why=lack)
            return
        from gpuassay.target.kube_churn import Bounds, Churn  # noqa: PLC0415 - an extra
        from gpuassay.target.kube_trial import carry_out  # noqa: PLC0415

        pods, claims, at_once = (int(args[key]) for key in ("pods", "claims", "at_once"))
        bounds = Bounds(pods, claims, at_once, str(args["size"]), float(args["seconds"]))
        yield from carry_out(reach, deadline_s, lambda api, run: Churn(api, run, nodes, bounds))

    def read(self, args: Mapping[str, Scalar], evidence: NodeEvidence) -> Sequence[KubeStorm]:  # noqa: ARG002
        """Read the pods and the claims."""
        return [KubeStorm(evidence)] if evidence.answered else []
