"""The survey of shared storage in Kubernetes: a volume that says ReadWriteMany is tried by pods on two nodes.

Of each storage class one volume is claimed; a pod on either node writes a word and waits for the other's.
Nothing is told from a provisioner's name, and nothing from a claim that is bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay.evidence.item import Item
from gpuassay.measure.shared_claims import SharedClaims

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.judge.fact import Scalar
    from gpuassay.judge.reach import KubernetesReach
    from gpuassay.judge.services import Services

PAIR = 2
INSTALL = "the Kubernetes client is not installed where the suite runs: pip install 'gpuassay[kubernetes]'"
_NO_IMAGE = "no image is named for pods: write image in [kubernetes] of the site file"


class KubeVolumes:
    """Claims, two pods for each, and their removal, which is looked after."""

    method = 1

    def ask(
        self, services: Services, nodes: Sequence[str], args: Mapping[str, Scalar], deadline_s: float
    ) -> Iterator[Item]:
        """Try each class on the first two of ``nodes``; ``size`` is what is claimed of each."""
        lack = what_a_pair_lacks(services.reach.kubernetes, nodes)
        if lack:
            yield Item("trial", 0, status="denied", why=lack)
            return
        from gpuassay.target.kube_trial import StorageTrial, carry_out  # noqa: PLC0415 - an extra

        size, seconds = str(args["size"]), float(args["seconds"])
        yield from carry_out(
            services.reach.kubernetes,
            deadline_s,
            lambda api, run: StorageTrial(api, run, nodes[:PAIR], size, seconds),
        )

    def read(self, args: Mapping[str, Scalar], evidence: NodeEvidence) -> Sequence[SharedClaims]:  # noqa: ARG002
        """Read what came of all classes together."""
        return [SharedClaims(evidence)] if evidence.answered else []


def what_a_pair_lacks(reach: KubernetesReach, nodes: Sequence[str]) -> str:
    """Say what is missing to start a pod on each of two nodes."""
    return what_lacks(reach) or ("" if len(nodes) >= PAIR else "it takes two nodes")


def what_lacks(reach: KubernetesReach) -> str:
    """Say what is missing to start pods."""
    try:
        import gpuassay.target.kube_auth  # noqa: F401, PLC0415 - an extra
    except ImportError:
        return INSTALL
    return "" if reach.image else _NO_IMAGE
