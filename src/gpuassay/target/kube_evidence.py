"""What is asked of a Kubernetes cluster as a whole, and which fields of the answers are kept.

Others' workloads are none of our business: of every kind only the fields named here are written down. No
environment, command, annotation or image of a pod, no Secret and no ConfigMap is among them.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from gpuassay.evidence.item import Item
from gpuassay.target.kube_api import ApiError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from gpuassay.target.kube_api import Api

Shape: TypeAlias = "Mapping[str, Shape] | None"
"""Which keys of an object are kept; of a list, of each entry; None: all of it."""

_NAMED: Mapping[str, Shape] = dict.fromkeys(("name", "uid", "creationTimestamp", "deletionTimestamp"))
_PLACED: Mapping[str, Shape] = {**_NAMED, "namespace": None}
_RESOURCES: Mapping[str, Shape] = {"resources": {"requests": None, "limits": None, "claims": None}}
_NODE: Shape = {
    "metadata": {**_NAMED, "labels": None},
    "spec": {"unschedulable": None, "taints": None, "providerID": None},
    "status": {"capacity": None, "allocatable": None, "conditions": None, "nodeInfo": None},
}
_POD: Shape = {
    "metadata": {
        **_PLACED,
        "labels": dict.fromkeys(
            (
                "app",
                "k8s-app",
                "app.kubernetes.io/name",
                "app.kubernetes.io/component",
                "app.kubernetes.io/instance",
                "app.kubernetes.io/part-of",
                "app.kubernetes.io/managed-by",
            )
        ),
        "ownerReferences": {"kind": None, "name": None},
    },
    "spec": {"nodeName": None, "hostname": None, "containers": _RESOURCES, "initContainers": _RESOURCES},
    "status": {"phase": None, "reason": None},
}
_WORKLOAD: Shape = {
    "metadata": _PLACED,
    "spec": {"replicas": None},
    "status": dict.fromkeys(
        (
            "replicas",
            "readyReplicas",
            "availableReplicas",
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "numberAvailable",
            "numberUnavailable",
            "numberMisscheduled",
        )
    ),
}
_STORAGE_CLASS: Shape = {
    "metadata": {
        **_NAMED,
        "annotations": {
            "storageclass.kubernetes.io/is-default-class": None,
            "storageclass.beta.kubernetes.io/is-default-class": None,
        },
    },
    "provisioner": None,
    "reclaimPolicy": None,
    "volumeBindingMode": None,
    "allowVolumeExpansion": None,
    "mountOptions": None,
}
_CLAIM: Shape = {
    "metadata": _PLACED,
    "status": {"allocation": {"devices": {"results": None}}, "reservedFor": {"resource": None, "name": None}},
}


@dataclass(frozen=True, slots=True)
class Ask:
    """A list that is asked for; of a ``dynamic`` one the version, and so the path, depends on the server."""

    id: str
    path: str
    keep: Shape
    dynamic: bool = False


DRA = "resource.k8s.io"
DRA_VERSIONS = ("v1", "v1beta2", "v1beta1")
"""Those versions of dynamic resource allocation that we can read, and claim devices with, newest first."""

ASKS = (
    Ask("kubernetes/nodes", "/api/v1/nodes", _NODE),
    Ask("kubernetes/pods", "/api/v1/pods", _POD),
    Ask(
        "kubernetes/namespaces",
        "/api/v1/namespaces",
        {"metadata": {**_NAMED, "labels": None}, "status": {"phase": None}},
    ),
    Ask("kubernetes/storageclasses", "/apis/storage.k8s.io/v1/storageclasses", _STORAGE_CLASS),
    Ask("kubernetes/daemonsets", "/apis/apps/v1/daemonsets", _WORKLOAD),
    Ask("kubernetes/deployments", "/apis/apps/v1/deployments", _WORKLOAD),
    Ask("kubernetes/resourceslices", "resourceslices", {"metadata": _NAMED, "spec": None}, dynamic=True),
    Ask("kubernetes/deviceclasses", "deviceclasses", {"metadata": _NAMED, "spec": None}, dynamic=True),
    Ask("kubernetes/resourceclaims", "resourceclaims", _CLAIM, dynamic=True),
)
VERSION = "/version"


def keep(value: Any, shape: Shape) -> Any:
    """Reduce what the API gave to what is kept of it; what has no such form is kept out too."""
    if shape is None:
        return value
    if isinstance(value, list):
        return [keep(entry, shape) for entry in value]
    if not isinstance(value, dict):
        return None
    return {key: keep(value[key], inner) for key, inner in shape.items() if key in value}


async def ask_cluster(api: Api) -> list[Item]:
    """Ask everything; what could not be had is an item too, and says why."""
    items = [await _item(1, "kubernetes/version", VERSION, api.get(VERSION))]
    version: str | ApiError
    try:
        version = await dra_version(api)
    except ApiError as error:
        version = error
    for seq, ask in enumerate(ASKS, start=2):
        path = ask.path
        if ask.dynamic and isinstance(version, ApiError):
            why = str(version)
            items.append(Item(ask.id, seq, version.status, {"api": f"/apis/{DRA}"}, why=why))
            continue
        if ask.dynamic:
            path = f"/apis/{DRA}/{version}/{path}"
        items.append(await _item(seq, ask.id, path, _listed(api, path, ask.keep)))
    return items


async def dra_version(api: Api) -> str:
    """Give the newest version in which devices can be read and claimed here. Raises ApiError if in none."""
    try:
        document = await api.get(f"/apis/{DRA}")
    except ApiError as error:
        if error.status == "not_found":
            raise ApiError(error.code, f"{DRA} is not served", "unsupported") from error
        raise
    versions = document.get("versions")
    served = {one.get("version") for one in versions or () if isinstance(one, dict)}
    for version in DRA_VERSIONS:
        if version in served:
            return version
    raise ApiError(0, f"{DRA} is served in none of {', '.join(DRA_VERSIONS)}", "unsupported")


async def _item(seq: int, name: str, path: str, asking: Awaitable[dict[str, Any]]) -> Item:
    begin, asked = time.monotonic(), {"api": path}
    try:
        document = await asking
    except ApiError as error:
        return Item(name, seq, error.status, asked, seconds=_since(begin), why=str(error))
    out = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
    return Item(name, seq, "ok", asked, seconds=_since(begin), out=out)


def _since(begin: float) -> float:
    return round(time.monotonic() - begin, 3)


async def _listed(api: Api, path: str, shape: Shape) -> dict[str, Any]:
    return {"items": [keep(item, shape) for item in await api.pages(path)]}
