"""Shared volumes in Kubernetes: pods that really run, on classes that share, pretend, or refuse."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.evidence.item import Item
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.reach import KubernetesReach, Reach
from gpuassay.judge.services import Services
from gpuassay.measure.kube_volumes import KubeVolumes
from gpuassay.measure.shared_claims import SharedClaims
from gpuassay.target import kube_trial
from kubeapi import cluster
from kubeapi.rig import IMAGE, Answers, Start, clusters, script, surveyed
from kubeapi.store import Key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubeapi.server import ApiServer

NODES = ("gpu1", "gpu2")


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start clusters, whose pods are looked at often."""
    monkeypatch.setattr(kube_trial, "_LOOK_S", 0.1)
    with clusters(tmp_path) as start:
        yield start


def served(start: Start, **kinds: str) -> ApiServer:
    """Start a cluster of two nodes that has these storage classes, and no other."""
    server = start(*map(cluster.node, NODES))
    for one in server.store.select("storageclasses"):
        server.store.remove(Key("storageclasses", "", one["metadata"]["name"]))
    for name, kind in kinds.items():
        parameters = {"kind": kind.partition("@")[0]} if kind else {}
        if "@" in kind:
            parameters["pinned"] = kind.partition("@")[2]
        made = {"metadata": {"name": name}, "provisioner": f"{name}.example", "parameters": parameters}
        server.store.put("storageclasses", {**made, "reclaimPolicy": "Delete"})
    return server


def tried(server: ApiServer, folder: Path, seconds: float = 2.0, **reach: Any) -> SharedClaims:
    """Ask, and read what came of it; nothing may be left."""
    (found,) = surveyed(KubeVolumes(), server, folder, NODES, {"size": "1Gi", "seconds": seconds}, **reach)
    return found  # type: ignore[no-any-return]


def test_a_class_that_shares(start: Start, tmp_path: Path) -> None:
    """Each pod reads what the other wrote, the claim asked for many nodes, and all of it is gone after."""
    server = served(start, shared="csi")
    made: list[Any] = []
    server.faults.append(lambda verb, path: made.append((verb, path)))
    found = tried(server, tmp_path)
    assert found.proven == Read(1, "kube_volumes#class/shared", "there is no storage class")
    assert found.pretended.value == 0  # type: ignore[union-attr]
    assert found.left_behind == Read(value=False, evidence="kube_volumes#removed")
    posts = [path.rpartition("/")[2] for verb, path in made if verb == "POST"]
    assert sorted(posts) == ["namespaces", "persistentvolumeclaims", "pods", "pods"]


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("hostPath", "gpu1: wrote, and did not see what the other wrote"),
        ("hostPath@gpu1", "volume node affinity conflict"),
    ],
)
def test_a_class_that_only_says_so(start: Start, tmp_path: Path, kind: str, says: str) -> None:
    """A claim that is bound proves nothing: each node has a copy of its own, or only one can mount it."""
    found = tried(served(start, local=kind), tmp_path)
    assert isinstance(found.pretended, Read)
    assert (found.pretended.value, found.proven.value) == (1, 0)  # type: ignore[union-attr]
    assert says in found.pretended.note
    assert "it is a hostPath volume, local to one node" in found.pretended.note


def test_a_class_that_cannot(start: Start, tmp_path: Path) -> None:
    """A claim that stays pending is told with the provisioner's own words, and another class may do."""
    found = tried(served(start, standard="", shared="csi"), tmp_path)
    assert isinstance(found.proven, Read)
    assert found.proven.value == 1
    assert "standard: standard.example, a claim for ReadWriteMany stays Pending: invalid AccessModes" in (
        found.proven.note
    )
    assert found.pretended.value == 0  # type: ignore[union-attr]


def test_what_says_nothing_of_storage(start: Start, tmp_path: Path) -> None:
    """An image that cannot be pulled, or a pod that is refused, leaves it untold."""
    server = served(start, shared="csi")
    server.kubelet.missing.add(IMAGE)
    assert isinstance(tried(server, tmp_path).proven, Unread)
    server = served(start, shared="csi")
    server.admits = lambda _pod: "exceeded quota"
    found = tried(server, tmp_path).proven
    assert isinstance(found, Unread)
    assert "exceeded quota" in found.why
    server = served(start, shared="csi")
    server.kubelet.pythons["gpu1"] = script(tmp_path, "exit 3")
    assert isinstance(tried(server, tmp_path).proven, Unread)


def test_what_it_needs(start: Start, tmp_path: Path) -> None:
    """Without an image, a right or a second node nothing is made, and the reason is told."""
    server = served(start, shared="csi")
    found = tried(server, tmp_path, image="").proven
    assert isinstance(found, Unread)
    assert "no image is named" in found.why
    server.allows = lambda verb, resource, _place: (verb, resource) != ("create", "namespaces")
    found = tried(server, tmp_path).proven
    assert isinstance(found, Unread)
    assert found.kind == "denied"
    one = list(
        KubeVolumes().ask(Services(reach=Reach(kubernetes=KubernetesReach(image="x"))), NODES[:1], {}, 60)
    )
    assert [(item.status, item.why) for item in one] == [("denied", "it takes two nodes")]


def test_a_removal_that_fails_is_told(start: Start, tmp_path: Path) -> None:
    """What could not be removed is named, with the command that does it later."""
    server = served(start, shared="csi")
    server.allows = lambda verb, resource, _place: (verb, resource) != ("delete", "namespaces")
    config = server.kubeconfig(tmp_path / "kubeconfig")
    services = Services(reach=Reach(kubernetes=KubernetesReach(kubeconfig=str(config), image=IMAGE)))
    *_, removed = KubeVolumes().ask(services, NODES, {"size": "1Gi", "seconds": 2}, 60)
    found = SharedClaims(Answers([removed])).left_behind  # type: ignore[arg-type]
    assert isinstance(found, Read)
    assert found.value is True
    assert "gpuassay clean --target=kubernetes" in found.note


def test_a_class_whose_volumes_stay_is_not_tried(start: Start, tmp_path: Path) -> None:
    """A volume that outlives its claim would be left behind."""
    server = served(start, kept="csi")
    (kept,) = server.store.select("storageclasses")
    server.store.put("storageclasses", {**kept, "reclaimPolicy": "Retain"})
    found = tried(server, tmp_path).proven
    assert isinstance(found, Unread)
    assert "its volumes stay when their claim is removed" in found.why


def test_any_answer() -> None:
    """Documents of another form are untold, and never an exception."""
    documents: list[Any] = [[], {}, {"claim": 3, "pods": [1]}, {"pods": [{"wrote": 1, "state": "ended"}]}]
    for document in documents:
        item = Item("class/x", 1, out=json.dumps(document).encode())
        assert isinstance(SharedClaims(Answers([item])).proven, Unread)  # type: ignore[arg-type]


@pytest.mark.parametrize("nodes", [("gpu1", "gpu1"), ("gpu1",), ("", "")])
def test_pods_that_were_not_on_two_nodes_prove_nothing(nodes: tuple[str, ...]) -> None:
    """A volume that is local to one node is shared by all pods there."""
    pods = [{"node": node, "state": "ended", "wrote": True, "read_other": True} for node in nodes]
    told = {"provisioner": "x.csi", "claim": {"phase": "Bound"}, "pods": pods}
    item = Item("class/x", 1, out=json.dumps(told).encode())
    found = SharedClaims(Answers([item]))  # type: ignore[arg-type]
    assert isinstance(found.proven, Unread)
    assert "no two nodes" in found.proven.why
    assert found.pretended.value == 0  # type: ignore[union-attr]
