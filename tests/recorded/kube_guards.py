"""What an API server and kubelets of a healthy cluster say to those who should not get in: made up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuassay.measure.kube_admission import DEMANDS, ORDINARY

if TYPE_CHECKING:
    from collections.abc import Sequence

WORDS = {
    "privileged": 'privileged (container "probe" must not set securityContext.privileged=true)',
    "the host's root folder": 'hostPath volumes (volume "host")',
    "the kubelet's folder": 'hostPath volumes (volume "host")',
    "the host's network": "host namespaces (hostNetwork=true)",
    "the host's processes": "host namespaces (hostPID=true)",
}
SHUT = {"state": "answered", "own": True, "status": 401}


def admission() -> dict[str, Any]:
    """Return how pods fare in a namespace that enforces the level ``baseline``."""
    told: dict[str, Any] = {"administrator": {"allowed": False}}
    for kind in DEMANDS:
        refusal = (
            'not allowed (403): pods "gpuassay-0" is forbidden: violates PodSecurity "baseline:latest": '
        )
        told[f"pod/{kind}"] = (
            {"code": 201, "kept": True} if kind == ORDINARY else {"code": 403, "why": refusal + WORDS[kind]}
        )
    return told | {"removed": {}}


def kubelets(names: Sequence[str]) -> dict[str, Any]:
    """Return how kubelets answer that know nobody without a name, and have no port for reading."""
    met = {"state": "answered", "own": True}
    one = {"met": met, "pods": SHUT, "healthz": SHUT, "read_only": {"state": "closed"}}
    return {f"node/{name}": one for name in names}
