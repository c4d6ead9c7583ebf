"""What is asked of a Kubernetes cluster about what it offers its tenants, and what it allows them.

Rules and policies are kept; whom they are for is not, but for the groups and users that Kubernetes itself
names: ``system:authenticated`` is everybody, and other names are people's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuassay.target.kube_shapes import NAMED, PLACED, Ask, Shape

if TYPE_CHECKING:
    from collections.abc import Mapping


def _if_built_in(name: Any) -> str:
    return name if isinstance(name, str) and name.startswith("system:") else ""


def _if_all(selector: Any) -> Any:
    """Keep a selector that selects everything; of any other only that it is narrower."""
    return selector if selector == {} else {"narrower": True}


def _how_many(entries: Any) -> Any:
    return len(entries) if isinstance(entries, list) else None


_RULES: Shape = {
    "metadata": PLACED,
    "rules": {
        **dict.fromkeys(("verbs", "apiGroups", "resources", "nonResourceURLs")),
        "resourceNames": _how_many,
    },
}
_BINDING: Shape = {
    "metadata": PLACED,
    "roleRef": {"kind": None, "name": None},
    "subjects": {"kind": None, "name": _if_built_in},
}
_CLAIM: Shape = {
    "metadata": PLACED,
    "spec": dict.fromkeys(("accessModes", "storageClassName", "volumeMode", "resources")),
    "status": dict.fromkeys(("phase", "accessModes", "capacity")),
}
# Of a policy's rules only how many there are: what they let in names tenants' programs and networks.
_POLICY: Shape = {
    "metadata": PLACED,
    "spec": {"podSelector": _if_all, "policyTypes": None, "ingress": {}, "egress": {}},
}
_SERVICE: Shape = {
    "metadata": PLACED,
    "spec": {"type": None, "loadBalancerClass": None},
    "status": {"loadBalancer": {"ingress": {"ip": None, "hostname": None}}},
}
_DEFAULT: Mapping[str, Shape] = {"ingressclass.kubernetes.io/is-default-class": None}
_RBAC, _NET, _STORAGE = "rbac.authorization.k8s.io", "networking.k8s.io", "storage.k8s.io"

OFFERS = (
    Ask("kubernetes/services", "/api/v1/services", _SERVICE),
    Ask("kubernetes/persistentvolumeclaims", "/api/v1/persistentvolumeclaims", _CLAIM),
    Ask(
        "kubernetes/resourcequotas",
        "/api/v1/resourcequotas",
        {"metadata": PLACED, "spec": {"hard": None}, "status": {"hard": None, "used": None}},
    ),
    Ask("kubernetes/csidrivers", f"/apis/{_STORAGE}/v1/csidrivers", {"metadata": NAMED}),
    Ask("kubernetes/networkpolicies", f"/apis/{_NET}/v1/networkpolicies", _POLICY),
    Ask(
        "kubernetes/ingressclasses",
        f"/apis/{_NET}/v1/ingressclasses",
        {"metadata": {**NAMED, "annotations": _DEFAULT}, "spec": {"controller": None}},
    ),
    Ask(
        "kubernetes/priorityclasses",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {"metadata": NAMED, "value": None, "globalDefault": None, "preemptionPolicy": None},
    ),
    Ask(
        "kubernetes/runtimeclasses",
        "/apis/node.k8s.io/v1/runtimeclasses",
        {"metadata": NAMED, "handler": None},
    ),
    Ask("kubernetes/roles", f"/apis/{_RBAC}/v1/roles", _RULES),
    Ask("kubernetes/clusterroles", f"/apis/{_RBAC}/v1/clusterroles", _RULES),
    Ask("kubernetes/rolebindings", f"/apis/{_RBAC}/v1/rolebindings", _BINDING),
    Ask("kubernetes/clusterrolebindings", f"/apis/{_RBAC}/v1/clusterrolebindings", _BINDING),
    Ask(
        "kubernetes/customresourcedefinitions",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {"metadata": {"name": None}},
    ),
    Ask(
        "kubernetes/metrics",
        "/apis/metrics.k8s.io/v1beta1/nodes",
        {"metadata": {"name": None}, "timestamp": None, "window": None, "usage": None},
    ),
)
