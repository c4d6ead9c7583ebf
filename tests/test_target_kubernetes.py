"""The Kubernetes target: the real probe in pods of our own stand-in, on every kind of node."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

import fakenode
from gpuassay.probe.items import QUESTIONS
from gpuassay.target.withheld import GPU_ITEMS
from kubeapi import cluster
from kubeapi.rig import IMAGE, Start, clusters, gather, script, target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubeapi.server import ApiServer
    from kubeapi.store import Object


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start clusters."""
    with clusters(tmp_path) as start:
        yield start


def pods(server: ApiServer) -> list[Object]:
    """Keep every pod as it is made."""
    made: list[Object] = []

    def admit(pod: Object) -> str:
        made.append(pod)
        return ""

    server.admits = admit
    return made


@pytest.mark.parametrize("minor", [20, 36])
def test_a_node(start: Start, tmp_path: Path, minor: int) -> None:
    """Every question is answered through a pod's log, and nothing is left of what was made for it."""
    server = start(cluster.node("gpu1", 8), minor=minor)
    told = gather(target(server, tmp_path))
    assert told.whole("gpu1")
    assert {question.id for question in QUESTIONS if not question.unless} <= told.nodes["gpu1"].keys()
    assert json.loads(told.cluster["kubernetes/version"].out)["minor"] == str(minor)
    assert server.store.ours() == []
    assert server.kubelet.running == []


def test_a_node_of_eight_gpus(start: Start, tmp_path: Path) -> None:
    """The pod is given all of them, and the probe in it sees all of them."""
    server = start(cluster.node("gpu1", 8))
    server.kubelet.environments["gpu1"] = fakenode.environment(tmp_path, os.environ["PATH"])
    made = pods(server)
    told = gather(target(server, tmp_path))
    (container,) = made[0]["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert len(json.loads(told.nodes["gpu1"]["nvml"].out)["devices"]) == 8


def test_an_amd_node(start: Start, tmp_path: Path) -> None:
    """AMD's GPUs are asked for by their own name."""
    server = start(cluster.node("gpu1", 8, cluster.AMD))
    made = pods(server)
    assert gather(target(server, tmp_path)).whole("gpu1")
    assert made[0]["spec"]["containers"][0]["resources"]["requests"]["amd.com/gpu"] == "8"


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_node_of_dynamic_resource_allocation(start: Start, tmp_path: Path, version: str) -> None:
    """All its devices are claimed in the version that the server has, and the claim is gone afterwards."""
    server = start(cluster.node("gpu1"), dra=version)
    cluster.slices(server.store, "gpu1", 8)
    made = pods(server)
    told = gather(target(server, tmp_path))
    assert told.whole("gpu1")
    assert made[0]["spec"]["containers"][0]["resources"]["claims"] == [{"name": "gpus"}]
    assert told.nodes["gpu1"]["nvml"].status != "denied"
    assert server.store.ours() == []


def test_devices_that_a_claim_holds(start: Start, tmp_path: Path) -> None:
    """A node whose devices are claimed by others is asked without them, and says who has them."""
    server = start(cluster.node("gpu1"), dra="v1")
    cluster.slices(server.store, "gpu1", 8)
    server.store.put("resourceclaims", cluster.claim("theirs", "gpu1", 2))
    told = gather(target(server, tmp_path))
    assert told.nodes["gpu1"]["nvml"].why == "busy: 2 of 8 gpu.nvidia.com are held by tenant/theirs"


@pytest.mark.parametrize("held", [3, 8])
def test_a_node_whose_gpus_are_taken(start: Start, tmp_path: Path, held: int) -> None:
    """Its host is asked; what would have told of GPUs is denied, and says who has them."""
    server = start(cluster.node("gpu1", 8))
    server.store.put("pods", cluster.holder("train", "gpu1", held))
    told = gather(target(server, tmp_path))
    assert told.whole("gpu1")
    gpus = [item for name, item in told.nodes["gpu1"].items() if name in GPU_ITEMS]
    assert {item.status for item in gpus} == {"denied"}
    assert {item.why for item in gpus} == {f"busy: {held} of 8 nvidia.com/gpu are held by tenant/train"}


def test_gpus_that_turn_out_to_be_taken(start: Start, tmp_path: Path) -> None:
    """Where others' pods cannot be listed, the scheduler's words say that GPUs are taken."""
    server = start(cluster.node("gpu1", 8))
    server.store.put("pods", cluster.holder("train", "gpu1", 8))
    server.allows = lambda verb, resource, place: bool(place) or (verb, resource) != ("list", "pods")
    told = gather(target(server, tmp_path))
    assert told.whole("gpu1")
    assert told.nodes["gpu1"]["nvml"].status == "denied"
    assert "1 Insufficient nvidia.com/gpu" in told.nodes["gpu1"]["nvml"].why


def test_nodes_that_are_not_asked(start: Start, tmp_path: Path) -> None:
    """Cordoned, not ready, or unknown: each has a row that quotes Kubernetes, and no pod is made."""
    server = start(cluster.cordoned("gpu1"), cluster.not_ready("gpu2"))
    made = pods(server)
    told = gather(target(server, tmp_path, "gpu1", "gpu2", "gpu3"))
    assert made == []
    assert "Kubernetes says cordoned since 2026-11-30T09:00:00Z" in told.why("gpu1")
    late = "NotReady since 2026-11-30T08:00:00Z: NodeStatusUnknown: Kubelet stopped posting node status."
    assert late in told.why("gpu2")
    assert "Kubernetes has no node gpu3" in told.why("gpu3")
    assert {item.status for item in told.nodes["gpu2"].values()} == {"failed"}


def test_without_an_image(start: Start, tmp_path: Path) -> None:
    """The cluster is asked all the same, and each node's row says what to write."""
    server = start(cluster.node("gpu1", 8))
    told = gather(target(server, tmp_path, image=""))
    assert 'write image = "…@sha256:…"' in told.why("gpu1")
    assert told.cluster["kubernetes/nodes"].status == "ok"
    assert server.store.ours() == []


def test_the_pod_is_restricted(start: Start, tmp_path: Path) -> None:
    """It asks for nothing that Pod Security's restricted level refuses, in a namespace that is held to it."""
    server = start(cluster.node("gpu1", 8))
    made = pods(server)
    spaces: list[Object] = []
    server.faults.append(lambda _verb, _path: spaces.extend(server.store.select("namespaces")))
    more = {"pull_secret": "s", "runtime_class": "nvidia", "tolerations": ("a=b:NoExecute",)}
    gather(target(server, tmp_path, **more))
    spec = made[0]["spec"]
    assert not {"hostPID", "hostNetwork", "hostIPC"} & spec.keys()
    assert {*spec["volumes"][0], len(spec["volumes"])} == {"name", "configMap", 1}
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["automountServiceAccountToken"] is False
    assert (spec["imagePullSecrets"], spec["runtimeClassName"]) == ([{"name": "s"}], "nvidia")
    assert {"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute"} in spec["tolerations"]
    ours = [one["metadata"]["labels"] for one in spaces if "gpuassay-run" in one["metadata"]["labels"]]
    assert {labels["pod-security.kubernetes.io/enforce"] for labels in ours} == {"restricted"}


def test_the_hosts_view(start: Start, tmp_path: Path) -> None:
    """It takes a flag, asks for no GPUs even where all are free, and reads the host, mounted read-only."""
    server = start(cluster.node("gpu1", 8))
    server.store.put("pods", cluster.holder("train", "gpu1", 8))
    made = pods(server)
    told = gather(target(server, tmp_path, host_view=True))
    assert told.whole("gpu1")
    assert told.nodes["gpu1"]["nvml"].status != "denied"
    spec = made[0]["spec"]
    assert spec["hostPID"] is True
    assert "nvidia.com/gpu" not in spec["containers"][0]["resources"]["limits"]
    mount = spec["containers"][0]["volumeMounts"][1]
    assert (mount["readOnly"], mount["recursiveReadOnly"]) == (True, "IfPossible")
    assert spec["volumes"][1]["hostPath"]["path"] == "/"


def test_a_thousand_nodes(start: Start, tmp_path: Path) -> None:
    """They are listed page by page, in natural order, and each one that is not asked has its row."""
    names = [f"gpu{number}" for number in range(1, 1001)]
    control = cluster.node("master1")
    control["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = ""
    server = start(*map(cluster.not_ready, names), control)
    wanted = target(server, tmp_path)
    assert list(wanted.declared()) == names
    pages = [query for _, path, query in server.requests if path == "/api/v1/nodes"]
    assert len(pages) == 3
    assert [("continue=" in page) for page in pages] == [False, True, True]
    told = gather(wanted)
    assert {told.why(name).partition(" since")[0] for name in names} == {
        "the probe was not started: Kubernetes says NotReady"
    }


def test_many_pods(start: Start, tmp_path: Path) -> None:
    """More nodes than are asked at once, each has its row, and all pods are gone afterwards."""
    names = [f"gpu{number}" for number in range(1, 101)]
    server = start(*(cluster.node(name, 8) for name in names))
    server.kubelet.pythons = dict.fromkeys(names, script(tmp_path, "exit 3"))
    told = gather(target(server, tmp_path))
    assert {told.why(name) for name in names} == {"the probe ended early: exit 3"}
    assert server.store.ours() == []


def test_what_is_written_down(start: Start, tmp_path: Path) -> None:
    """Of others' pods and nodes only what is listed: no environment, command, annotation or image."""
    server = start(cluster.node("gpu1", 8))
    server.store.put("pods", cluster.holder("train", "gpu1", 3))
    told = gather(target(server, tmp_path, image=""))
    written = b"".join(item.out for item in told.cluster.values()).decode()
    for word in ("SECRET", "secret-model", "registry.example", "managedFields"):
        assert word not in written
    (pod,) = json.loads(told.cluster["kubernetes/pods"].out)["items"]
    assert pod["spec"]["containers"] == [
        {"resources": {"requests": {"nvidia.com/gpu": "3"}, "limits": {"nvidia.com/gpu": "3"}}}
    ]
    (fast,) = json.loads(told.cluster["kubernetes/storageclasses"].out)["items"]
    assert fast["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}


def test_the_plan(start: Start, tmp_path: Path) -> None:
    """What would run where is said, the privilege too, and nothing is made."""
    server = start(cluster.node("gpu1", 8), cluster.node("gpu2", 8), cluster.cordoned("gpu3"))
    server.store.put("pods", cluster.holder("train", "gpu2", 8))
    lines = target(server, tmp_path).plan()
    text = "\n".join(lines)
    assert "gpu[1-2]: 2 pods in a new namespace, each at most 60 s" in text
    assert IMAGE in text
    assert "gpu1: a pod with 8 nvidia.com/gpu" in lines
    assert "gpu2: a pod without GPUs: busy: 8 of 8 nvidia.com/gpu are held by tenant/train" in lines
    assert "gpu3: not asked: the probe was not started: Kubernetes says cordoned" in text
    assert "unprivileged" in text
    assert "the pods are privileged" in "\n".join(target(server, tmp_path, host_view=True).plan())
    others = {path for verb, path, _ in server.requests if verb != "GET"}
    assert others == {"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"}  # which make nothing
