"""What is asked of a Kubernetes cluster as a whole, and which fields of the answers are kept.

Others' workloads are none of our business: of every kind only the fields named here are written down. No
environment, command, annotation or image of a pod, no Secret and no ConfigMap is among them.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.facts.kube_words import name as name_of
from gpuassay.facts.kubernetes import KubeNode
from gpuassay.facts.record import Record
from gpuassay.target.kube_api import ApiError
from gpuassay.target.kube_offers import OFFERS
from gpuassay.target.kube_reviews import REVIEWS, may
from gpuassay.target.kube_shapes import NAMED, PLACED, Ask, Shape, keep

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from gpuassay.target.kube_api import Api

_RESOURCES: Mapping[str, Shape] = {"resources": {"requests": None, "limits": None, "claims": None}}
_NODE: Shape = {
    "metadata": {**NAMED, "labels": None},
    "spec": {"unschedulable": None, "taints": None, "providerID": None},
    "status": {"capacity": None, "allocatable": None, "conditions": None, "nodeInfo": None},
}
_POD: Shape = {
    "metadata": {
        **PLACED,
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
    "metadata": PLACED,
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
        **NAMED,
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
    "metadata": PLACED,
    "status": {"allocation": {"devices": {"results": None}}, "reservedFor": {"resource": None, "name": None}},
}


DRA = "resource.k8s.io"
DRA_VERSIONS = ("v1", "v1beta2", "v1beta1")
"""Those versions of dynamic resource allocation that we can read, and claim devices with, newest first."""

ASKS = (
    Ask("kubernetes/nodes", "/api/v1/nodes", _NODE),
    Ask("kubernetes/pods", "/api/v1/pods", _POD),
    Ask(
        "kubernetes/namespaces",
        "/api/v1/namespaces",
        {"metadata": {**NAMED, "labels": None}, "status": {"phase": None}},
    ),
    Ask("kubernetes/storageclasses", "/apis/storage.k8s.io/v1/storageclasses", _STORAGE_CLASS),
    Ask("kubernetes/daemonsets", "/apis/apps/v1/daemonsets", _WORKLOAD),
    Ask("kubernetes/deployments", "/apis/apps/v1/deployments", _WORKLOAD),
    Ask("kubernetes/resourceslices", "resourceslices", {"metadata": NAMED, "spec": None}, dynamic=True),
    Ask("kubernetes/deviceclasses", "deviceclasses", {"metadata": NAMED, "spec": None}, dynamic=True),
    Ask("kubernetes/resourceclaims", "resourceclaims", _CLAIM, dynamic=True),
    *OFFERS,
)
VERSION, GROUPS = "/version", "/apis"
CONFIGZ = "/api/v1/nodes/{name}/proxy/configz"
_CONFIG: Shape = {
    "kubeletconfig": dict.fromkeys(
        ("cpuManagerPolicy", "cpuManagerPolicyOptions", "topologyManagerPolicy", "memoryManagerPolicy")
    )
}
_AT_ONCE = 32


async def ask_cluster(api: Api, namespace: str = "default") -> list[Item]:
    """Ask everything; what could not be had is an item too, and says why.

    ``namespace`` is where this user works: what he may do there is asked as well.
    """
    items = [
        await _item(1, "kubernetes/version", VERSION, api.get(VERSION)),
        await _item(2, "kubernetes/groups", GROUPS, api.get(GROUPS)),
        await _item(3, "kubernetes/access", REVIEWS, may(api, namespace)),
    ]
    version: str | ApiError
    try:
        version = await dra_version(api)
    except ApiError as error:
        version = error
    for seq, ask in enumerate(ASKS, start=len(items) + 1):
        path = ask.path
        if ask.dynamic and isinstance(version, ApiError):
            why = str(version)
            items.append(Item(ask.id, seq, version.status, {"api": f"/apis/{DRA}"}, why=why))
            continue
        if ask.dynamic:
            path = f"/apis/{DRA}/{version}/{path}"
        items.append(await _item(seq, ask.id, path, _listed(api, path, ask.keep)))
    return [*items, await _kubelets(api, len(items) + 1, items)]


async def _kubelets(api: Api, seq: int, items: Sequence[Item]) -> Item:
    """Ask each worker's kubelet how it is set up, through the API server, if this user may do that."""
    told = {item.id: item for item in items}
    allowed = any(
        one.get("allowed") is True and one.get("subresource") == "proxy"
        for one in _objects(told["kubernetes/access"])
    )
    if not allowed:
        asked = {"api": CONFIGZ}
        return Item("kubernetes/kubelets", seq, "denied", asked, why="this user may not get nodes/proxy")
    workers = [Record(one) for one in _objects(told["kubernetes/nodes"]) if KubeNode(Record(one)).is_worker]
    turn = asyncio.Semaphore(_AT_ONCE)

    async def one(name: str) -> dict[str, Any]:
        try:
            async with turn:
                found = keep(await api.get(CONFIGZ.format(name=name)), _CONFIG)
        except ApiError as error:
            found = {"kubeletconfig": {"unread": error.status, "why": str(error)}}
        return {"metadata": {"name": name}, **found}

    async def every() -> dict[str, Any]:
        return {"items": list(await asyncio.gather(*(one(name_of(worker)) for worker in workers)))}

    return await _item(seq, "kubernetes/kubelets", CONFIGZ, every())


def _objects(item: Item) -> list[dict[str, Any]]:
    """Give the objects that an item of ours lists; none where it was not answered."""
    return [one for one in json.loads(item.out)["items"] if one] if item.status == "ok" else []


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
