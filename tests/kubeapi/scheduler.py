"""The scheduler: binds a pod that is pinned to a node, or says why not in the words of the real one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kubeapi.volumes import volume_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubeapi.store import Object, Store

_ENDED = ("Succeeded", "Failed")


def place(store: Store, pod: Object) -> str:
    """Bind a pod to its node; the reason in words if it cannot be."""
    terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    wanted = terms["nodeSelectorTerms"][0]["matchFields"][0]["values"]
    nodes = store.select("nodes")
    why = Counter(
        _objection(store, pod, node) if node["metadata"]["name"] in wanted else _UNMATCHED for node in nodes
    )
    if "" in why:
        pod["spec"]["nodeName"] = wanted[0]
        return ""
    listed = ", ".join(f"{count} {reason}" for reason, count in sorted(why.items()))
    return f"0/{len(nodes)} nodes are available: {listed}."


_UNMATCHED = "node(s) didn't match Pod's node affinity"


def _objection(store: Store, pod: Object, node: Object) -> str:
    for taint in node["spec"].get("taints", []):
        if not any(_tolerates(one, taint) for one in pod["spec"].get("tolerations", [])):
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    if node["spec"].get("unschedulable") and not _goes_anywhere(pod):
        return "node(s) were unschedulable"
    held = Counter[str]()
    for other in store.select("pods"):
        alive = other.get("status", {}).get("phase") not in _ENDED
        if other["spec"].get("nodeName") == node["metadata"]["name"] and alive:
            held += _requests(other)
    for resource, amount in _requests(pod).items():
        if held[resource] + amount > int(node["status"]["allocatable"].get(resource, "0")):
            return f"Insufficient {resource}"
    return _unmounted(store, pod, node) or _unallocated(store, pod, node)


def _unmounted(store: Store, pod: Object, node: Object) -> str:
    """Say why a pod's volume cannot be had on a node."""
    for volume in pod["spec"]["volumes"]:
        if "persistentVolumeClaim" not in volume:
            continue
        bound = volume_of(store, pod, volume["persistentVolumeClaim"]["claimName"])
        if bound is None:
            return "pod has unbound immediate PersistentVolumeClaims"
        if bound["spec"].get("nodeAffinity", node["metadata"]["name"]) != node["metadata"]["name"]:
            return "node(s) had volume node affinity conflict"
    return ""


def _unallocated(store: Store, pod: Object, node: Object) -> str:
    """Allocate the devices that a pod's claims are for, all of the node or none."""
    for reference in pod["spec"].get("resourceClaims", []):
        claims = store.select("resourceclaims")
        name, place = reference["resourceClaimName"], pod["metadata"]["namespace"]
        claim = next(
            c for c in claims if (c["metadata"]["name"], c["metadata"]["namespace"]) == (name, place)
        )
        taken = {(r["pool"], r["device"]) for c in claims if c is not claim for r in _results(c)}
        (request,) = claim["spec"]["devices"]["requests"]
        wanted = request.get("exactly", request)
        assert wanted["allocationMode"] == "All"
        devices = list(_devices(store, node["metadata"]["name"], wanted["deviceClassName"]))
        if not devices or taken & {(d["pool"], d["device"]) for d in devices}:
            return "cannot allocate all claims"
        claim["status"] = {"allocation": {"devices": {"results": devices}}}
        store.put("resourceclaims", claim)
    return ""


def _devices(store: Store, node: str, driver: str) -> Iterable[dict[str, str]]:
    for one in store.select("resourceslices"):
        spec = one["spec"]
        if (spec["nodeName"], spec["driver"]) == (node, driver):
            for device in spec["devices"]:
                yield {"driver": driver, "pool": spec["pool"]["name"], "device": device["name"]}


def _results(claim: Object) -> list[dict[str, str]]:
    found: list[dict[str, str]] = (
        claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    )
    return found


def _requests(pod: Object) -> Counter[str]:
    total = Counter[str]()
    for container in pod["spec"]["containers"]:
        requests: dict[str, Any] = container.get("resources", {}).get("requests", {})
        total.update({name: int(amount) for name, amount in requests.items() if "/" in name})
    return total


def _goes_anywhere(pod: Object) -> bool:
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    return any(_tolerates(one, cordon) for one in pod["spec"].get("tolerations", []))


def _tolerates(toleration: dict[str, str], taint: dict[str, str]) -> bool:
    if toleration.get("effect", taint["effect"]) != taint["effect"]:
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key", taint["key"]) == taint["key"]
    return (toleration["key"], toleration["value"]) == (taint["key"], taint.get("value", ""))
