"""What tests of the target have in common: clusters, a target that leads there, and a notebook."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from gpuassay.judge.reach import KubernetesReach, Reach
from gpuassay.judge.services import Services
from gpuassay.target.kubernetes import Kubernetes
from gpuassay.target.progress import Tally
from kubeapi import cluster
from kubeapi.kubelet import Kubelet
from kubeapi.server import ApiServer
from kubeapi.store import Store
from probing import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from gpuassay.evidence.item import Item
    from gpuassay.judge.fact import Scalar
    from gpuassay.measure import Survey
    from kubeapi.store import Object

IMAGE = "registry.example/probe@sha256:0000"


class Start(Protocol):
    """Starts a cluster of nodes."""

    def __call__(self, *nodes: Object, minor: int = 36, dra: str = "") -> ApiServer:
        """Start it."""


@contextmanager
def clusters(folder: Path) -> Iterator[Start]:
    """Give what starts clusters; they are stopped at the end, and nothing that their pods ran may be left."""
    mark = Mark()
    with ExitStack() as servers:

        def start(*nodes: Object, minor: int = 36, dra: str = "") -> ApiServer:
            store = cluster.fill(Store(), *nodes)
            kubelet = Kubelet(store, folder, {"PATH": os.environ["PATH"], **mark.environment})
            return servers.enter_context(ApiServer(store, kubelet, minor, dra))

        yield start
    assert mark.survivors() == []


def script(folder: Path, text: str) -> str:
    """Write a program to run in place of a container's Python; REAL in it stands for this one."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text.replace('REAL', shlex.quote(sys.executable))}\n", encoding="utf-8")
    path.chmod(0o700)
    return str(path)


class Notebook:
    """A writer that only remembers."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, Item]] = {}
        self.cluster: dict[str, Item] = {}

    def add(self, node: str, item: Item) -> None:
        """Remember an item of a node; none comes twice."""
        assert item.id not in self.nodes.setdefault(node, {})
        self.nodes[node][item.id] = item

    def add_cluster(self, item: Item) -> None:
        """Remember an item of the cluster; none comes twice."""
        assert item.id not in self.cluster
        self.cluster[item.id] = item

    def whole(self, node: str) -> bool:
        """Tell whether a node has answered to the end."""
        return "probe" not in self.nodes[node] and self.nodes[node]["host"].status == "ok"

    def why(self, node: str) -> str:
        """Say why a node has not."""
        return self.nodes[node]["probe"].why


def target(server: ApiServer, folder: Path, *nodes: str, **reach: Any) -> Kubernetes:
    """Make a target that leads to a server."""
    config = server.kubeconfig(folder / "kubeconfig")
    host_view, deadline_s = reach.pop("host_view", False), reach.pop("deadline_s", 60)
    wanted = KubernetesReach(kubeconfig=str(config), **{"image": IMAGE, "wait_s": 0.0, **reach})
    return Kubernetes(wanted, nodes, deadline_s, host_view)


def gather(target: Kubernetes) -> Notebook:
    """Gather all, quietly."""
    notebook = Notebook()
    target.gather(notebook, Tally(1, lambda _line: None))
    return notebook


class Answers:
    """What a survey brought home."""

    problems: tuple[str, ...] = ()
    answered = True

    def __init__(self, items: list[Item], place: str = "survey") -> None:
        self.items = items
        self._place = place

    def item(self, item_id: str, /) -> Item | None:
        """Give an item."""
        return next((item for item in self.items if item.id == item_id), None)

    def ref(self, item: Item, /) -> str:
        """Name it."""
        return f"{self._place}#{item.id}"


def surveyed(
    survey: Survey,
    server: ApiServer,
    folder: Path,
    nodes: Sequence[str],
    args: Mapping[str, Scalar],
    **reach: Any,
) -> list[Any]:
    """Ask, and read what came of it; nothing may be left."""
    config = server.kubeconfig(folder / "kubeconfig")
    wanted = KubernetesReach(kubeconfig=str(config), **{"image": IMAGE, **reach})
    items = list(survey.ask(Services(reach=Reach(kubernetes=wanted)), nodes, args, 60))
    assert server.store.ours() == []
    assert server.kubelet.running == []
    place = type(survey).__module__.rpartition(".")[2]
    return list(survey.read({}, Answers(items, place)))  # type: ignore[arg-type]
