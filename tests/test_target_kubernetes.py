"""The Kubernetes target: the real probe in pods of our own stand-in, and all that can be in its way."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.judge.reach import KubernetesReach
from gpuassay.probe.items import QUESTIONS
from gpuassay.target.kubernetes import Kubernetes
from gpuassay.target.progress import Tally
from kubeapi import cluster
from kubeapi.kubelet import Kubelet
from kubeapi.server import ApiServer
from kubeapi.store import Store
from probing import Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from gpuassay.evidence.item import Item
    from kubeapi.store import Object

IMAGE = "registry.example/probe@sha256:0000"


class Notebook:
    """A writer that only remembers."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, Item]] = {}
        self.cluster: dict[str, Item] = {}

    def add(self, node: str, item: Item) -> None:
        """Remember an item of a node."""
        assert item.id not in self.nodes.setdefault(node, {})
        self.nodes[node][item.id] = item

    def add_cluster(self, item: Item) -> None:
        """Remember an item of the cluster."""
        self.cluster[item.id] = item

    def why(self, node: str) -> str:
        """Say why a node did not answer."""
        return self.nodes[node]["probe"].why


Start = "Callable[..., ApiServer]"


@pytest.fixture
def mark() -> Mark:
    """Mark all that pods run."""
    return Mark()


@pytest.fixture
def start(tmp_path: Path, mark: Mark) -> Iterator[Callable[..., ApiServer]]:
    """Start clusters; they are stopped at the end, and nothing of theirs runs on."""
    servers = []

    def start(*nodes: Object, minor: int = 36, dra: str = "") -> ApiServer:
        store = cluster.fill(Store(), *nodes)
        kubelet = Kubelet(store, tmp_path, {"PATH": os.environ["PATH"], **mark.environment})
        servers.append(ApiServer(store, kubelet, minor, dra).__enter__())
        return servers[-1]

    yield start
    for server in servers:
        server.__exit__()
    assert mark.survivors() == []


def target(server: ApiServer, tmp_path: Path, *nodes: str, **reach: Any) -> Kubernetes:
    """Make a target that leads to a server."""
    config = server.kubeconfig(tmp_path / "kubeconfig")
    host_view, deadline_s = reach.pop("host_view", False), reach.pop("deadline_s", 60)
    wanted = KubernetesReach(kubeconfig=str(config), **{"image": IMAGE, "wait_s": 0.0, **reach})
    return Kubernetes(wanted, nodes, deadline_s, host_view)


def gather(target: Kubernetes) -> Notebook:
    """Gather all, quietly."""
    notebook = Notebook()
    target.gather(notebook, Tally(1, lambda _line: None))
    return notebook


@pytest.mark.parametrize("minor", [20, 36])
def test_a_node(start: Callable[..., ApiServer], tmp_path: Path, minor: int) -> None:
    """Every question is answered through a pod's log, and nothing is left of what was made for it."""
    server = start(cluster.node("gpu1", 8), minor=minor)
    told = gather(target(server, tmp_path))
    assert "probe" not in told.nodes["gpu1"]
    assert told.nodes["gpu1"]["host"].status == "ok"
    assert {question.id for question in QUESTIONS if not question.unless} <= told.nodes["gpu1"].keys()
    assert json.loads(told.cluster["kubernetes/version"].out)["minor"] == str(minor)
    assert server.store.ours() == []
    assert server.kubelet.running == []
