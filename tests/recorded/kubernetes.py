"""What the API server of a healthy GPU cluster says: operators, policies, storage, and what its user may do.

Shapes are those of Kubernetes 1.36, reduced to the fields that are kept. The user is a tenant who may read
much of the cluster, and write in the namespace ``acceptance`` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.measure import SURVEYS
from gpuassay.measure.kube_anonymous import PATHS
from gpuassay.target.kube_evidence import ASKS, CONFIGZ, DRA, GROUPS, VERSION
from gpuassay.target.kube_reviews import REVIEWS, acts
from recorded import containers, kube_guards
from recorded.items import SECONDS, dashed, encode, made_up

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.judge.fact import Scalar

SPACE = "acceptance"
KUBELET = "v1.36.4"
MADE = "2026-08-20T09:00:00Z"
BEAT = "2026-11-30T07:58:41Z"  # a minute and a half before the cluster was asked
GPUS, RAILS = 8, 8
SERVED = (
    *("apps", "batch", "rbac.authorization.k8s.io", "networking.k8s.io", "storage.k8s.io", "node.k8s.io"),
    *("scheduling.k8s.io", "apiextensions.k8s.io", "metrics.k8s.io", "resource.k8s.io"),
    *("nvidia.com", "mellanox.com", "nfd.k8s-sigs.io", "kubeflow.org", "kueue.x-k8s.io", "jobset.x-k8s.io"),
)
DAEMONSETS = {
    "gpu-operator": (
        "nvidia-driver-daemonset",
        "nvidia-container-toolkit-daemonset",
        "nvidia-device-plugin-daemonset",
        "nvidia-dcgm-exporter",
        "gpu-feature-discovery",
    ),
    "network-operator": ("mofed-ubuntu24.04-ds", "rdma-shared-dp-ds", "kube-multus-ds"),
    "kube-system": ("node-problem-detector",),
}
DEPLOYMENTS = {
    "gpu-operator": ("gpu-operator",),
    "network-operator": ("network-operator",),
    "mpi-operator": ("mpi-operator",),
    "kueue-system": ("kueue-controller-manager",),
}
CRDS = ("clusterpolicies.nvidia.com", "nicclusterpolicies.mellanox.com", "mpijobs.kubeflow.org")


def cluster(names: Sequence[str]) -> list[Item]:
    """Return what the API server says of a cluster of these nodes."""
    lists = {
        "nodes": [node(name) for name in names],
        "pods": [holder("train-0", names[-1], 4), holder("train-1", names[-1], 2)],
        "namespaces": [named("kube-system"), named(SPACE, **LEVEL)],
        "storageclasses": [storage("block", default=True), storage("shared", default=False)],
        "daemonsets": [daemonset(space, name, len(names)) for space, name in placed(DAEMONSETS)],
        "deployments": [deployment(space, name) for space, name in placed(DEPLOYMENTS)],
        "services": [service("ingress-nginx", "controller", "192.0.2.10")],
        "csidrivers": [named("shared.csi.example"), named("block.csi.example")],
        "networkpolicies": [policy(SPACE, "default-deny")],
        "ingressclasses": [{**named("nginx"), "spec": {"controller": "k8s.io/ingress-nginx"}}],
        "runtimeclasses": [{**named("nvidia"), "handler": "nvidia"}],
        "clusterroles": ROLES,
        "clusterrolebindings": BINDINGS,
        "customresourcedefinitions": [{"metadata": {"name": name}} for name in CRDS],
        "metrics": [{"metadata": {"name": name}, "usage": {"cpu": "1731m"}} for name in names],
    }
    return [
        answer("kubernetes/version", VERSION, {"major": "1", "minor": "36", "gitVersion": KUBELET}),
        answer("kubernetes/groups", GROUPS, {"groups": [{"name": name} for name in SERVED]}),
        answer("kubernetes/access", REVIEWS, access()),
        Item(
            "kubernetes/kubelets",
            0,
            "denied",
            {"api": CONFIGZ},
            seconds=0.0,
            why="this user may not get nodes/proxy",
        ),
        *(
            answer(
                ask.id,
                f"/apis/{DRA}/v1/{ask.path}" if ask.dynamic else ask.path,
                {"items": lists.get(ask.id.partition("/")[2], [])},
            )
            for ask in ASKS
        ),
    ]


def services(names: Sequence[str]) -> list[Item]:
    """Return what trials showed: strangers are refused; of two classes of storage, one shares."""
    waits = "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."
    stuck = [{"node": name, "state": "unplaced", "why": waits, "read_other": False} for name in names]
    met = [{"node": name, "state": "ended", "wrote": True, "read_other": True} for name in names]
    pending = {"phase": "Pending", "said": "volume capabilities not supported: MULTI_NODE_MULTI_WRITER"}
    bound = {"phase": "Bound", "said": "", "volume": "csi", "pinned": False}
    told: dict[str, dict[str, Any]] = {
        "class/block": {"provisioner": "block.csi.example", "claim": pending, "pods": stuck},
        "class/shared": {"provisioner": "shared.csi.example", "claim": bound, "pods": met},
        "removed": {},
    }
    reached = {"node": names[-1], "state": "ended", "open": True, "shut": False}
    counts = {"one": containers.in_pod(), "none": {"state": "ended", "seen": 0}}
    return [
        *survey("kube_admission", {}, kube_guards.admission()),
        *survey("kube_kubelets", {"seconds": 5}, kube_guards.kubelets(names)),
        *survey("kube_anonymous", {}, {path: {"status": 403} for path in PATHS}),
        *survey("kube_grants", {"seconds": 90}, {f"node/{name}": counts for name in names} | {"removed": {}}),
        *survey("kube_policy", {"seconds": 60}, {"client": reached, "removed": {}}),
        *survey("kube_volumes", {"size": "1Gi", "seconds": 90}, told),
    ]


def survey(name: str, args: Mapping[str, Scalar], told: Mapping[str, Any]) -> list[Item]:
    """Return the answers of a survey."""
    asked = {"survey": name, "method": SURVEYS[name].method, "args": dict(args)}
    return [
        Item(f"survey/{name}/{item}", 0, asked=asked, seconds=SECONDS, out=encode(one))
        for item, one in told.items()
    ]


def answer(item_id: str, path: str, document: Any) -> Item:
    """Return one answer."""
    return Item(item_id, 0, asked={"api": path}, seconds=SECONDS, out=encode(document))


def placed(names: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """Give each name with its namespace."""
    return [(space, name) for space, inner in names.items() for name in inner]


def named(name: str, space: str = "", **labels: str) -> dict[str, Any]:
    """Return what is said of every object."""
    metadata: dict[str, Any] = {"name": name, "uid": dashed(made_up("uid", space, name))}
    metadata["creationTimestamp"] = MADE
    if space:
        metadata["namespace"] = space
    if labels:
        metadata["labels"] = labels
    return {"metadata": metadata}


LEVEL = {"pod-security.kubernetes.io/enforce": "baseline"}


def node(name: str) -> dict[str, Any]:
    """Return a node that is ready, and gives out all its GPUs and ports."""
    amounts = {"cpu": "224", "memory": "2113402368Ki", "pods": "110", "nvidia.com/gpu": str(GPUS)}
    amounts["rdma/rdma_shared_device_a"] = "63"
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "nvidia.com/gpu.count": str(GPUS),
        "nvidia.com/gpu.product": "NVIDIA-B200",
        "network.topology.nvidia.com/leaf": "leaf-1",
    }
    return {
        **named(name, **labels),
        "spec": {"providerID": f"example://{name}"},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [
                condition("KernelDeadlock", "False", "KernelHasNoDeadlock"),
                condition("ReadonlyFilesystem", "False", "FilesystemIsNotReadOnly"),
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID"),
                condition("Ready", "True", "KubeletReady"),
            ],
            "nodeInfo": {
                "kubeletVersion": KUBELET,
                "osImage": "Ubuntu 24.04.3 LTS",
                "operatingSystem": "linux",
            },
        },
    }


def condition(kind: str, status: str, reason: str) -> dict[str, str]:
    """Return a condition of a node."""
    times = {"lastHeartbeatTime": BEAT, "lastTransitionTime": MADE}
    return {"type": kind, "status": status, **times, "reason": reason, "message": reason}


def holder(name: str, where: str, gpus: int) -> dict[str, Any]:
    """Return a pod of a tenant that holds GPUs."""
    amount = {"nvidia.com/gpu": str(gpus)}
    containers = [{"resources": {"requests": amount, "limits": amount}}]
    return {
        **named(name, "tenant"),
        "spec": {"nodeName": where, "containers": containers},
        "status": {"phase": "Running"},
    }


def storage(name: str, *, default: bool) -> dict[str, Any]:
    """Return a storage class."""
    made = named(name)
    if default:
        made["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    return {
        **made,
        "provisioner": f"{name}.csi.example",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }


def daemonset(space: str, name: str, nodes: int) -> dict[str, Any]:
    """Return a DaemonSet with a ready pod on each node."""
    counts = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "numberAvailable")
    return {
        **named(name, space),
        "spec": {},
        "status": {**dict.fromkeys(counts, nodes), "numberMisscheduled": 0},
    }


def deployment(space: str, name: str) -> dict[str, Any]:
    """Return a Deployment whose pod is ready."""
    status = {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}
    return {**named(name, space), "spec": {"replicas": 1}, "status": status}


def service(space: str, name: str, address: str) -> dict[str, Any]:
    """Return a Service with a load balancer."""
    status = {"loadBalancer": {"ingress": [{"ip": address}]}}
    return {**named(name, space), "spec": {"type": "LoadBalancer"}, "status": status}


def policy(space: str, name: str) -> dict[str, Any]:
    """Return a policy that lets nothing in."""
    return {**named(name, space), "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}}


def rule(group: str, resources: str, verbs: str) -> dict[str, Any]:
    """Return a rule of a role."""
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}


def binding(name: str, role: str, kind: str, to: str = "") -> dict[str, Any]:
    """Return a binding; only names of Kubernetes' own are known."""
    return {
        **named(name),
        "roleRef": {"kind": "ClusterRole", "name": role},
        "subjects": [{"kind": kind, "name": to}],
    }


PAGES = {"nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"], "verbs": ["get"]}
ROLES = [
    {**named("cluster-admin"), "rules": [rule("*", "*", "*")]},
    {**named("system:public-info-viewer"), "rules": [PAGES]},
    {
        **named("system:basic-user"),
        "rules": [rule("authorization.k8s.io", "selfsubjectaccessreviews", "create")],
    },
    {**named("prometheus"), "rules": [rule("", "nodes nodes/metrics pods services", "get list watch")]},
]
BINDINGS = [
    binding("cluster-admin", "cluster-admin", "Group", "system:masters"),
    binding("system:public-info-viewer", "system:public-info-viewer", "Group", "system:unauthenticated"),
    binding("system:basic-user", "system:basic-user", "Group", "system:authenticated"),
    binding("prometheus", "prometheus", "ServiceAccount"),
]


ELSEWHERE = ("list pods", "create namespaces", "create customresourcedefinitions")


def access() -> dict[str, Any]:
    """Return what a tenant may do: all in his namespace, make more of them, and elsewhere only look."""
    items = []
    for act in acts(SPACE):
        allowed = act.place == SPACE or f"{act.verb} {act.resource}" in ELSEWHERE
        items.append(
            {
                "verb": act.verb,
                "resource": act.resource,
                "group": act.group,
                "namespace": act.place,
                "subresource": act.subresource,
                "allowed": allowed,
            }
        )
    return {"namespace": SPACE, "items": items}
