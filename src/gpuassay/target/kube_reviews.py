"""What this user may do, asked of the API server itself: a review is answered, and nothing is created.

Every user that is known may ask it of himself (``system:basic-user``). "Secrets can be read" is learned in
this way, and never by reading one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuassay.target.kube_api import Api

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Act(NamedTuple):
    """Something that one may or may not do; ``place`` is a namespace, empty for the whole cluster."""

    verb: str
    resource: str
    group: str = ""
    place: str = ""
    subresource: str = ""


_OWN = (
    ("create", "pods", ""),
    ("create", "pods/exec", ""),
    ("get", "pods/log", ""),
    ("create", "jobs", "batch"),
    ("create", "deployments", "apps"),
    ("create", "services", ""),
    ("create", "configmaps", ""),
    ("create", "secrets", ""),
    ("list", "secrets", ""),
    ("create", "persistentvolumeclaims", ""),
    ("create", "serviceaccounts", ""),
    ("create", "roles", "rbac.authorization.k8s.io"),
    ("create", "rolebindings", "rbac.authorization.k8s.io"),
    ("create", "networkpolicies", "networking.k8s.io"),
    ("create", "ingresses", "networking.k8s.io"),
)
_EVERYWHERE = (
    ("*", "*", "*"),
    ("create", "namespaces", ""),
    ("create", "customresourcedefinitions", "apiextensions.k8s.io"),
    ("create", "clusterrolebindings", "rbac.authorization.k8s.io"),
    ("list", "secrets", ""),
    ("list", "pods", ""),
    ("get", "nodes/proxy", ""),
    ("update", "nodes/status", ""),
    ("impersonate", "users", ""),
)
_SYSTEM = "kube-system"


def acts(namespace: str) -> Iterator[Act]:
    """Name what is asked: in one's own namespace, everywhere, and where the cluster's own pods are."""
    for place, wanted in ((namespace, _OWN), ("", _EVERYWHERE), (_SYSTEM, (("create", "pods", ""),))):
        for verb, resource, group in wanted:
            name, _, sub = resource.partition("/")
            yield Act(verb, name, group, place, sub)


async def may(api: Api, namespace: str) -> dict[str, Any]:
    """Ask all of it. Raises ApiError."""
    return {"namespace": namespace, "items": [await review(api, act) for act in acts(namespace)]}


async def review(api: Api, act: Act) -> dict[str, Any]:
    """Ask whether this user may do one thing. Raises ApiError."""
    attributes = {
        "verb": act.verb,
        "resource": act.resource,
        "group": act.group,
        "namespace": act.place,
        "subresource": act.subresource,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    status = (await api.ask(REVIEWS, body)).get("status")
    told = status if isinstance(status, dict) else {}
    return {**attributes, **{key: told[key] for key in ("allowed", "evaluationError") if key in told}}
