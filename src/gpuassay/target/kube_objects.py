"""The objects that a run makes in a cluster, as the API takes them; each carries our label and the run's."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuassay.facts.fault_kube import NOTHING
from gpuassay.probe import travel

if TYPE_CHECKING:
    from gpuassay.facts.kubernetes import Devices
    from gpuassay.judge.reach import KubernetesReach

PREFIX = "gpuassay-"
"""With this the names of all that we make begin."""

OURS = "app.kubernetes.io/managed-by"
RUN = "gpuassay-run"
MINE = f"{OURS}=gpuassay"
"""The selector of everything that any run of ours has made."""

CONTAINER = "probe"
GRACE_S = 5
"""What a pod that is told to stop has left to end what it started."""

_FEED = "/gpuassay/probe"
_HOST = "/host"
_NOBODY = 65532  # no user of any image or host in particular
_SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# A container's standard input is empty: the feed is put there before the bootstrap reads it.
_START = f"import os, sys; os.dup2(os.open({_FEED!r}, os.O_RDONLY), 0); os.execvp(sys.argv[1], sys.argv[1:])"
_ENTER = (
    f"import os, sys; os.dup2(os.open({_FEED!r}, os.O_RDONLY), 0); os.chroot({_HOST!r}); os.chdir('/'); "
    f"os.environ['PATH'] = {_SEARCH!r}; os.execvp(sys.argv[1], sys.argv[1:])"
)
_JOIN = _ENTER.replace(
    "os.execvp(sys.argv[1], sys.argv[1:])",
    "os.execvp('nsenter', ['nsenter', '--target=1', '--mount', '--uts', '--ipc', '--net', '--cgroup', '--', "
    "*sys.argv[1:]])",
)
_ISOLATED = ("-I", "-S", "-B", "-c")


@dataclass(frozen=True, slots=True)
class Run:
    """What all objects of one run have in common: where they are, whose they are, how they are to run."""

    id: str
    namespace: str
    owns_namespace: bool
    reach: KubernetesReach
    deadline_s: float
    host_view: bool = False

    @property
    def name(self) -> str:
        """The name of what there is one of, and the beginning of the others' names."""
        return f"{PREFIX}{self.id}"

    @property
    def selector(self) -> str:
        """What finds this run's objects."""
        return f"{MINE},{RUN}={self.id}"

    def metadata(self, name: str, **more: Any) -> dict[str, Any]:
        """Name and label an object."""
        return {"name": name, "labels": {OURS: "gpuassay", RUN: self.id, **more}}


def namespace(run: Run) -> dict[str, Any]:
    """Make the namespace of a run, in which no pod may do more than ours needs."""
    level = "privileged" if run.host_view else "restricted"
    metadata = run.metadata(run.namespace, **{"pod-security.kubernetes.io/enforce": level})
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def config_map(run: Run, name: str, feed: bytes) -> dict[str, Any]:
    """Pack what is to be fed to pods."""
    data = {"probe": base64.b64encode(feed).decode()}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": run.metadata(name),
        "binaryData": data,
        "immutable": True,
    }


def service(run: Run) -> dict[str, Any]:
    """Let the pods of a job find each other by name, also before they are ready."""
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {RUN: run.id}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": run.metadata(run.name), "spec": spec}


def worker(run: Run, name: str, node: str, devices: Devices | None, image: str) -> dict[str, Any]:
    """Make the pod in which a node's part of a job runs: fed for itself, found by its name, and unstinted."""
    made = pod(run, name, node, devices)
    spec = made["spec"]
    spec |= {"hostname": name, "subdomain": run.name}
    spec["volumes"] = [
        {"name": "probe", "configMap": {"name": name}},
        {"name": "shm", "emptyDir": {"medium": "Memory"}},  # a container's own has 64 MiB
    ]
    (container,) = spec["containers"]
    container["image"] = image
    container["volumeMounts"].append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108 - POSIX's
    for amount in ("cpu", "memory"):
        del container["resources"]["limits"][amount]
    return made


def alone(
    run: Run, name: str, node: str, program: tuple[str, ...], devices: Devices | None = None
) -> dict[str, Any]:
    """Make a pod that runs a program of Python's, with nothing mounted and, by default, no GPU."""
    made = pod(run, name, node, devices)
    made["spec"]["volumes"] = []
    (container,) = made["spec"]["containers"]
    container |= {"command": [run.reach.python, *_ISOLATED, *program], "volumeMounts": []}
    return made


def on_the_node(run: Run, name: str, node: str) -> dict[str, Any]:
    """Make a privileged pod that, fed for itself, runs in the node's own namespaces, whatever taints it has.

    It has to get there to mend what was broken, also when the provider has taken the node.
    """
    made = pod(run, name, node, None)
    spec = made["spec"]
    spec["tolerations"] = [toleration("*")]
    spec["volumes"][0] = {"name": "probe", "configMap": {"name": name}}
    (container,) = spec["containers"]
    container["command"] = [run.reach.python, *_ISOLATED, _JOIN, *travel.argv("python3")]
    return made


def never(run: Run, name: str, node: str) -> dict[str, Any]:
    """Make a pod that can run nowhere, as it asks for what no node has: only the scheduler looks at it."""
    made = alone(run, name, node, ("pass",))
    (container,) = made["spec"]["containers"]
    for amounts in container["resources"].values():
        amounts[NOTHING] = "1"
    return made


def with_claim(run: Run, name: str, node: str, claim_name: str, program: tuple[str, ...]) -> dict[str, Any]:
    """Make a pod that runs a program of Python's with a claimed volume at ``/data``, and asks for no GPU."""
    made = pod(run, name, node, None)
    spec = made["spec"]
    spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]
    spec["securityContext"]["fsGroup"] = _NOBODY  # else a new volume belongs to root alone
    (container,) = spec["containers"]
    container["command"] = [run.reach.python, *_ISOLATED, *program]
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return made


def wanted(run: Run, name: str, of_class: str, size: str) -> dict[str, Any]:
    """Claim a volume of a class, for one node at a time."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": of_class,
        "resources": {"requests": {"storage": size}},
    }
    metadata = run.metadata(name)
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def claim(run: Run, name: str, devices: Devices) -> dict[str, Any]:
    """Claim all devices of a class; on which node is up to the pod that uses the claim."""
    wanted = {"deviceClassName": devices.name, "allocationMode": "All"}
    request = {"name": "gpus", **(wanted if devices.claimed == "v1beta1" else {"exactly": wanted})}
    return {
        "apiVersion": f"resource.k8s.io/{devices.claimed}",
        "kind": "ResourceClaim",
        "metadata": run.metadata(name),
        "spec": {"devices": {"requests": [request]}},
    }


def pod(run: Run, name: str, node: str, devices: Devices | None) -> dict[str, Any]:
    """Make the pod that asks one node; ``devices`` are given to it, whole or not at all."""
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": int(run.deadline_s) + 60,  # it ends, even if we are gone by then
        "terminationGracePeriodSeconds": GRACE_S,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "affinity": _pinned(node),
        "tolerations": tolerations(run),
        "containers": [_container(run, devices)],
        "volumes": [{"name": "probe", "configMap": {"name": run.name}}],
    }
    if run.host_view:
        spec["hostPID"] = True
        spec["volumes"].append({"name": "host", "hostPath": {"path": "/", "type": "Directory"}})
    else:
        spec["securityContext"] = {
            "runAsNonRoot": True,
            "runAsUser": _NOBODY,
            "runAsGroup": _NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
    if devices and devices.claimed:
        spec["resourceClaims"] = [{"name": "gpus", "resourceClaimName": name}]
    if run.reach.pull_secret:
        spec["imagePullSecrets"] = [{"name": run.reach.pull_secret}]
    if run.reach.runtime_class:
        spec["runtimeClassName"] = run.reach.runtime_class
    return {"apiVersion": "v1", "kind": "Pod", "metadata": run.metadata(name), "spec": spec}


GPU_TAINTS = ("nvidia.com/gpu", "amd.com/gpu")
"""Taints that keep those away who need no GPU."""


def tolerations(run: Run) -> list[dict[str, str]]:
    """Give what pods of users tolerate here."""
    return [toleration(words) for words in (*GPU_TAINTS, *run.reach.tolerations)]


def toleration(words: str) -> dict[str, str]:
    """Read ``key``, ``key=value``, ``key=value:Effect``, ``key:Effect`` or ``*`` of the site file."""
    if words == "*":
        return {"operator": "Exists"}
    named, _, effect = words.partition(":")
    key, equal, value = named.partition("=")
    found = {"key": key, "operator": "Equal", "value": value} if equal else {"key": key, "operator": "Exists"}
    return {**found, "effect": effect} if effect else found


def _pinned(node: str) -> dict[str, Any]:
    """Let the scheduler choose among one node: it counts what is free there, and says what is not."""
    only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [only]}}}


def _container(run: Run, devices: Devices | None) -> dict[str, Any]:
    reach, mounts = run.reach, [{"name": "probe", "mountPath": "/gpuassay", "readOnly": True}]
    requests, limits = {"cpu": "100m", "memory": "256Mi"}, {"cpu": "1", "memory": "1Gi"}
    resources: dict[str, Any] = {"requests": requests, "limits": limits}
    if devices and devices.claimed:
        resources["claims"] = [{"name": "gpus"}]
    elif devices:
        requests[devices.name] = limits[devices.name] = str(devices.allocatable)
    if run.host_view:
        # Read-only all the way down where the server knows how; older ones leave that field out.
        whole: dict[str, Any] = {"name": "host", "mountPath": _HOST, "readOnly": True}
        mounts.append({**whole, "recursiveReadOnly": "IfPossible"})
        security: dict[str, Any] = {"privileged": True, "runAsUser": 0}
        start, python = _ENTER, "python3"
    else:
        security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        start, python = _START, reach.python
    return {
        "name": CONTAINER,
        "image": reach.image,
        "command": [reach.python, *_ISOLATED, start, *travel.argv(python)],
        "resources": resources,
        "securityContext": security,
        "volumeMounts": mounts,
    }
