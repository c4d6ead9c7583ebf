"""What containers are given: pods that really run, on nodes that keep to it, leak, or have nothing free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.evidence.item import Item
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.kube_grants import Given, KubeGrants
from gpuassay.target import kube_trial
from kubeapi import cluster
from kubeapi.rig import Answers, Start, clusters, surveyed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubeapi.server import ApiServer


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start clusters, whose pods are looked at often."""
    monkeypatch.setattr(kube_trial, "_LOOK_S", 0.1)
    with clusters(tmp_path) as start:
        yield start


def tried(server: ApiServer, folder: Path, *nodes: str, **reach: Any) -> dict[str, Given]:
    """Ask, and read what came of it by node; nothing may be left."""
    found = surveyed(KubeGrants(), server, folder, nodes, {"seconds": 2}, **reach)
    return {given.node: given for given in found}


def seen(given: Given) -> tuple[Any, Any]:
    """Take both counts, or the kinds of why there are none."""
    facts = (given.with_one, given.with_none)
    one, none = (fact.value if isinstance(fact, Read) else fact.kind for fact in facts)
    return one, none


def test_what_was_granted_and_what_was_only_named(start: Start, tmp_path: Path) -> None:
    """One GPU of eight is one, and naming all gives none, but on a node whose toolkit goes by that."""
    server = start(cluster.node("gpu1", 8), cluster.node("gpu2", 8))
    server.kubelet.leaky.add("gpu2")
    found = tried(server, tmp_path, "gpu1", "gpu2")
    assert {node: seen(given) for node, given in found.items()} == {"gpu1": (1, 0), "gpu2": (1, 8)}
    assert {given.left_behind.value for given in found.values()} == {False}  # type: ignore[union-attr]


def test_what_a_pod_with_a_gpu_has(start: Start, tmp_path: Path) -> None:
    """Its memory, its limits and the file of topology that it names are read in it; its start is timed."""
    server = start(cluster.node("gpu1", 8), cluster.node("gpu2", 8), cluster.node("gpu3", 8))
    held = tmp_path / "topology.xml"
    held.write_text("<system version='1'/>")
    server.kubelet.environments["gpu2"] = {"NCCL_TOPO_FILE": str(held)}
    server.kubelet.environments["gpu3"] = {"NCCL_TOPO_FILE": str(tmp_path / "absent.xml")}
    found = tried(server, tmp_path, "gpu1", "gpu2", "gpu3")
    readable = [given.topology_readable for given in found.values()]
    assert [fact.value for fact in readable if isinstance(fact, Read)] == [True, True, False]
    assert [fact.note for fact in readable if isinstance(fact, Read)] == [
        "the container names no file: NCCL asks the system",
        f"{held} (from the environment)",
        f"{tmp_path}/absent.xml (from the environment) in the container: No such file or directory",
    ]
    one = found["gpu1"]
    assert isinstance(one.shm_gib, Read)
    assert one.shm_gib.value > 0
    assert isinstance(one.locked_memory, Read)
    assert isinstance(one.ready_s, Read)
    assert 0 <= one.ready_s.value < 60
    assert "already present" in one.ready_s.note


def test_without_a_pod_there_is_nothing_to_read(start: Start, tmp_path: Path) -> None:
    """A GPU that was not to be had leaves all of it unseen; a time that is none is garbled."""
    server = start(cluster.node("gpu1", 8))
    server.store.put("pods", cluster.holder("train", "gpu1", 8))
    one = tried(server, tmp_path, "gpu1")["gpu1"]
    facts = (one.shm_gib, one.locked_memory, one.topology_readable, one.ready_s)
    assert {fact.kind for fact in facts if isinstance(fact, Unread)} == {"denied"}
    assert not any(isinstance(fact, Read) for fact in facts)
    odd = b'{"one": {"seen": 1, "times": {"placed": "9999-99-99T00:00:00Z", "started": "x"}}}'
    (given,) = KubeGrants().read({}, Answers([Item("node/gpu1", 1, out=odd)]))  # type: ignore[arg-type]
    assert isinstance(given.ready_s, Unread)
    assert given.ready_s.kind == "garbled"


def test_nodes_on_which_it_cannot_be_tried(start: Start, tmp_path: Path) -> None:
    """Where all GPUs are taken, or none is offered by the piece, it is unseen and says why."""
    server = start(cluster.node("gpu1", 8), cluster.node("gpu2"))
    server.store.put("pods", cluster.holder("train", "gpu1", 8))
    found = tried(server, tmp_path, "gpu1", "gpu2")
    assert seen(found["gpu1"]) == ("denied", 0)
    assert seen(found["gpu2"]) == ("denied", "denied")


def test_a_toolkit_that_refuses() -> None:
    """A container that the toolkit does not start, for it names GPUs, was given none."""
    why = "RunContainerError: insufficient privileges to read device list from NVIDIA_VISIBLE_DEVICES envvar"
    told = Item("node/gpu1", 1, out=b'{"none": {"state": "hopeless", "why": "%s"}}' % why.encode())
    (given,) = KubeGrants().read({}, Answers([told]))  # type: ignore[arg-type]
    assert isinstance(given.with_none, Read)
    assert given.with_none.value == 0
    assert isinstance(given.with_one, Unread)


def test_what_hinders_all(start: Start, tmp_path: Path) -> None:
    """Without an image or a right, every node has its row with the reason."""
    server = start(cluster.node("gpu1", 8), cluster.node("gpu2", 8))
    found = tried(server, tmp_path, "gpu1", "gpu2", image="")
    assert {seen(given) for given in found.values()} == {("denied", "denied")}
    server.allows = lambda verb, resource, _place: (verb, resource) != ("create", "namespaces")
    found = tried(server, tmp_path, "gpu1", "gpu2")
    assert sorted(found) == ["gpu1", "gpu2"]
    assert {seen(given) for given in found.values()} == {("denied", "denied")}
