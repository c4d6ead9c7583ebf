"""What the API server holds: objects by kind, namespace and name."""

from __future__ import annotations

import copy
import threading
import uuid
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

Object: TypeAlias = dict[str, Any]


class Kind(NamedTuple):
    """A resource: in which group and versions it is served, and what one is called."""

    kind: str
    plural: str
    namespaced: bool
    group: str = ""


KINDS = (
    Kind("Node", "nodes", namespaced=False),
    Kind("Namespace", "namespaces", namespaced=False),
    Kind("Pod", "pods", namespaced=True),
    Kind("ConfigMap", "configmaps", namespaced=True),
    Kind("StorageClass", "storageclasses", namespaced=False, group="storage.k8s.io"),
    Kind("DaemonSet", "daemonsets", namespaced=True, group="apps"),
    Kind("Deployment", "deployments", namespaced=True, group="apps"),
    Kind("ResourceSlice", "resourceslices", namespaced=False, group="resource.k8s.io"),
    Kind("DeviceClass", "deviceclasses", namespaced=False, group="resource.k8s.io"),
    Kind("ResourceClaim", "resourceclaims", namespaced=True, group="resource.k8s.io"),
    Kind("Service", "services", namespaced=True),
    Kind("PersistentVolumeClaim", "persistentvolumeclaims", namespaced=True),
    Kind("PersistentVolume", "persistentvolumes", namespaced=False),
    Kind("Event", "events", namespaced=True),
    Kind("ResourceQuota", "resourcequotas", namespaced=True),
    Kind("VolumeAttachment", "volumeattachments", namespaced=False, group="storage.k8s.io"),
    Kind("CSIDriver", "csidrivers", namespaced=False, group="storage.k8s.io"),
    Kind("NetworkPolicy", "networkpolicies", namespaced=True, group="networking.k8s.io"),
    Kind("IngressClass", "ingressclasses", namespaced=False, group="networking.k8s.io"),
    Kind("PriorityClass", "priorityclasses", namespaced=False, group="scheduling.k8s.io"),
    Kind("RuntimeClass", "runtimeclasses", namespaced=False, group="node.k8s.io"),
    Kind("Role", "roles", namespaced=True, group="rbac.authorization.k8s.io"),
    Kind("ClusterRole", "clusterroles", namespaced=False, group="rbac.authorization.k8s.io"),
    Kind("RoleBinding", "rolebindings", namespaced=True, group="rbac.authorization.k8s.io"),
    Kind("ClusterRoleBinding", "clusterrolebindings", namespaced=False, group="rbac.authorization.k8s.io"),
    Kind(
        "CustomResourceDefinition",
        "customresourcedefinitions",
        namespaced=False,
        group="apiextensions.k8s.io",
    ),
    Kind("NodeMetrics", "nodes", namespaced=False, group="metrics.k8s.io"),
)


class Key(NamedTuple):
    """Where an object is; ``namespace`` is empty for one that is in none."""

    plural: str
    namespace: str
    name: str


def now() -> str:
    """Write the time as the API does."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Store:
    """Objects, and one lock for all; ``changed`` is notified of every change."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.version = 1
        self._objects: dict[Key, Object] = {}

    def put(self, plural: str, item: Object) -> Object:
        """Keep an object, new or changed."""
        with self.changed:
            self.version += 1
            metadata = item.setdefault("metadata", {})
            metadata.setdefault("uid", str(uuid.uuid4()))
            metadata.setdefault("creationTimestamp", now())
            metadata["resourceVersion"] = str(self.version)
            self._objects[Key(plural, metadata.get("namespace", ""), metadata["name"])] = item
            self.changed.notify_all()
            return item

    def get(self, key: Key) -> Object | None:
        """Give a copy of an object."""
        with self.changed:
            return copy.deepcopy(self._objects.get(key))

    def edit(self, key: Key, **status: Any) -> None:
        """Change the status of an object, if it is still there."""
        with self.changed:
            if key in self._objects:
                item = self._objects[key]
                item.setdefault("status", {}).update(status)
                self.put(key.plural, item)

    def remove(self, key: Key) -> None:
        """Forget an object."""
        with self.changed:
            self.version += 1
            self._objects.pop(key, None)
            self.changed.notify_all()

    def select(self, plural: str, namespace: str = "", labels: str = "") -> list[Object]:
        """Give copies of what a selector finds, in the server's order."""
        wanted = dict(part.partition("=")[::2] for part in labels.split(",") if part)
        with self.changed:
            return [
                copy.deepcopy(item)
                for key, item in sorted(self._objects.items())
                if key.plural == plural
                and namespace in ("", key.namespace)
                and wanted.items() <= item["metadata"].get("labels", {}).items()
            ]

    def ours(self) -> list[Key]:
        """Give what a run of ours has made and not removed."""
        label = ("app.kubernetes.io/managed-by", "gpuassay")
        with self.changed:
            return [
                key
                for key, item in self._objects.items()
                if label in item["metadata"].get("labels", {}).items()
            ]
