"""Synthetic clusters: nodes of NVIDIA and AMD, with a device plugin or dynamic resource allocation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubeapi.store import Store, now

if TYPE_CHECKING:
    from kubeapi.store import Object

NVIDIA, AMD = "nvidia.com/gpu", "amd.com/gpu"


def node(name: str, gpus: int = 0, resource: str = NVIDIA, **spec: Any) -> Object:
    """Make a node that is ready."""
    amounts = {"cpu": "192", "ephemeral-storage": "1Ti", "memory": "2Ti", "pods": "110"}
    if gpus:
        amounts[resource] = str(gpus)
    info = ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion")
    versions = dict.fromkeys(("kubeletVersion", "kubeProxyVersion"), "v1.32.3")
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {
        "metadata": {"name": name, "labels": labels, "annotations": {"node.alpha.kubernetes.io/ttl": "0"}},
        "spec": {"providerID": f"fake://{name}", **spec},
        "status": {
            "capacity": amounts,
            "allocatable": dict(amounts),
            "conditions": [ready("True", "KubeletReady", "kubelet is posting ready status")],
            "addresses": [{"type": "Hostname", "address": name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                **{key: f"{key} of {name}" for key in info},
                **versions,
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
            "images": [{"names": ["registry.example/tenant:1"], "sizeBytes": 1}],
        },
    }


def ready(status: str, reason: str, message: str) -> dict[str, str]:
    """Make the condition that says whether a node is ready."""
    return {
        "type": "Ready",
        "status": status,
        "lastHeartbeatTime": now(),
        "lastTransitionTime": "2026-11-30T08:00:00Z",
        "reason": reason,
        "message": message,
    }


def not_ready(name: str, gpus: int = 8) -> Object:
    """Make a node whose kubelet is silent, as the node controller marks it."""
    made = node(name, gpus, taints=[{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}])
    why = ready("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
    made["status"]["conditions"] = [why]
    return made


def cordoned(name: str, gpus: int = 8) -> Object:
    """Make a node on which ``kubectl cordon`` was used."""
    taint = {
        "key": "node.kubernetes.io/unschedulable",
        "effect": "NoSchedule",
        "timeAdded": "2026-11-30T09:00:00Z",
    }
    return node(name, gpus, unschedulable=True, taints=[taint])


def holder(name: str, on: str, gpus: int, resource: str = NVIDIA) -> Object:
    """Make somebody else's pod that holds GPUs, and has things in it that are none of our business."""
    resources = {"limits": {resource: str(gpus)}, "requests": {resource: str(gpus)}}
    container = {
        "name": "c",
        "image": "registry.example/secret-model:7",
        "command": ["train", "--key=SECRET"],
        "env": [{"name": "TOKEN", "value": "SECRET"}],
        "resources": resources,
    }
    return {
        "metadata": {"name": name, "namespace": "tenant", "annotations": {"note": "SECRET"}},
        "spec": {"nodeName": on, "containers": [container]},
        "status": {"phase": "Running"},
    }


def slices(store: Store, name: str, gpus: int, driver: str = "gpu.nvidia.com") -> None:
    """Publish the devices of a node as a driver of dynamic resource allocation does."""
    store.put("deviceclasses", {"metadata": {"name": driver}, "spec": {"selectors": []}})
    spec = {
        "driver": driver,
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {"name": f"gpu-{index}", "attributes": {"uuid": {"string": f"GPU-{name}-{index}"}}}
            for index in range(gpus)
        ],
    }
    store.put("resourceslices", {"metadata": {"name": f"{name}-{driver}"}, "spec": spec})


def claim(name: str, pool: str, devices: int, driver: str = "gpu.nvidia.com") -> Object:
    """Make somebody else's claim that holds devices."""
    results = [{"driver": driver, "pool": pool, "device": f"gpu-{index}"} for index in range(devices)]
    return {
        "metadata": {"name": name, "namespace": "tenant"},
        "spec": {"devices": {"requests": []}},
        "status": {"allocation": {"devices": {"results": results}}},
    }


def fill(store: Store, *nodes: Object) -> Store:
    """Set up a cluster with these nodes and what every cluster has."""
    for name in ("default", "kube-system", "tenant", "audit"):
        metadata = {"name": name, "labels": {"kubernetes.io/metadata.name": name}}
        store.put("namespaces", {"metadata": metadata, "status": {"phase": "Active"}})
    default = {"storageclass.kubernetes.io/is-default-class": "true", "note": "SECRET"}
    store.put(
        "storageclasses",
        {
            "metadata": {"name": "fast", "annotations": default},
            "provisioner": "fast.csi.example",
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
        },
    )
    for one in nodes:
        store.put("nodes", one)
    return store
