"""The provisioners of storage: volumes that are shared, local to a node, or never made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubeapi.store import Key

if TYPE_CHECKING:
    from kubeapi.store import Object, Store

REFUSAL = "invalid AccessModes [ReadWriteMany]: only AccessModes [ReadWriteOnce ReadOnlyMany] are supported"


def provision(store: Store, claim: Object) -> None:
    """Bind a claim by the parameters of its class: ``kind`` is the volume's, ``pinned`` its only node."""
    found = store.get(Key("storageclasses", "", claim["spec"]["storageClassName"]))
    parameters = (found or {}).get("parameters", {})
    name, space = claim["metadata"]["name"], claim["metadata"]["namespace"]
    if "kind" not in parameters:
        claim["status"] = {"phase": "Pending"}
        event = {"metadata": {"name": f"{name}.1", "namespace": space}, "message": REFUSAL}
        store.put("events", event)
        return
    spec: dict[str, Any] = {parameters["kind"]: {}}
    if "pinned" in parameters:
        spec["nodeAffinity"] = parameters["pinned"]
    store.put("persistentvolumes", {"metadata": {"name": f"pv-{name}"}, "spec": spec})
    claim["spec"]["volumeName"] = f"pv-{name}"
    claim["status"] = {"phase": "Bound"}


def release(store: Store, claim: Object) -> None:
    """Remove the volume of a claim that is gone, and unmount it; one of a ``leaky`` class stays, attached."""
    found = store.get(Key("storageclasses", "", claim["spec"]["storageClassName"])) or {}
    name = claim["spec"].get("volumeName", "")
    if found.get("parameters", {}).get("leaky"):
        spec = {"attacher": "csi.example", "source": {"persistentVolumeName": name}}
        store.put("volumeattachments", {"metadata": {"name": f"csi-{name}"}, "spec": spec})
    else:
        store.remove(Key("persistentvolumes", "", name))


def volume_of(store: Store, pod: Object, claim: str) -> Object | None:
    """Find the volume that is bound to a claim of a pod."""
    found = store.get(Key("persistentvolumeclaims", pod["metadata"]["namespace"], claim))
    assert found is not None
    return store.get(Key("persistentvolumes", "", found["spec"].get("volumeName", "")))
