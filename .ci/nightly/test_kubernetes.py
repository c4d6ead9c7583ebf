"""The Kubernetes target against a real API server, scheduler and controller-manager of Kubernetes 1.20."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from controlplane import ADMIN, BOB, ControlPlane
from kubelets import Kubelets

from gpuassay.judge.reach import KubernetesReach
from gpuassay.target import Job
from gpuassay.target.kubernetes import Kubernetes
from gpuassay.target.progress import Tally
from kubeapi import cluster
from kubeapi.rig import IMAGE, Notebook
from probing import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(os.environ.get("GPUASSAY_KUBERNETES", "/nowhere")) / "bin"
NAMES = tuple(f"gpu{number}" for number in range(1, 9))
MINE = "labelSelector=app.kubernetes.io/managed-by%3Dgpuassay"
MARK = Mark()


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Start a control plane."""
    with ControlPlane(PROGRAMS, tmp_path_factory.mktemp("plane")) as plane:
        for name in ("tenant", "acceptance"):
            plane.make("/api/v1/namespaces", {"metadata": {"name": name}})
        yield plane


@pytest.fixture(scope="module")
def kubelets(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubelets]:
    """Start the kubelets of eight nodes."""
    environment = {"PATH": os.environ["PATH"], **MARK.environment}
    with Kubelets(plane, tmp_path_factory.mktemp("kubelets"), environment) as kubelets:
        for name in NAMES:
            kubelets.add(cluster.node(name, 8))
        yield kubelets
    assert MARK.survivors() == []


def target(plane: ControlPlane, *nodes: str, token: str = ADMIN, **reach: Any) -> Kubernetes:
    """Make a target for a user."""
    config = str(plane.kubeconfig(token))
    return Kubernetes(KubernetesReach(kubeconfig=config, image=IMAGE, wait_s=5, **reach), nodes, 120)


def gather(target: Kubernetes) -> Notebook:
    """Gather all, quietly."""
    notebook = Notebook()
    target.gather(notebook, Tally(1, lambda _line: None))
    return notebook


def ours(plane: ControlPlane) -> list[str]:
    """Name what is left of our runs."""
    paths = ("/api/v1/namespaces", "/api/v1/pods", "/api/v1/configmaps", "/api/v1/services")
    return [
        item["metadata"]["name"] for path in paths for item in plane.ask("GET", f"{path}?{MINE}")[1]["items"]
    ]


def patch(plane: ControlPlane, node: str, spec: Any) -> None:
    """Change a node."""
    kind = "application/merge-patch+json"
    assert plane.ask("PATCH", f"/api/v1/nodes/{node}", {"spec": spec}, kind)[0] == 200


def hold(plane: ControlPlane, node: str) -> None:
    """Let somebody else have the GPUs of a node."""
    resources = {"limits": {"nvidia.com/gpu": "8"}}
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i", "resources": resources}]}
    item = {"metadata": {"name": f"on-{node}", "labels": {"foreign": "yes"}}, "spec": spec}
    plane.make("/api/v1/namespaces/tenant/pods", item)


def test_eight_nodes(plane: ControlPlane, kubelets: Kubelets) -> None:
    """All of them answer whole, and the namespace is gone with all that was in it."""
    told = gather(target(plane))
    assert tuple(told.nodes)
    assert {name for name in NAMES if told.whole(name)} == {*NAMES}
    assert told.cluster["kubernetes/nodes"].status == "ok"
    assert ours(plane) == []
    assert kubelets.kubelet.running == []


def test_nodes_in_every_state(plane: ControlPlane, kubelets: Kubelets) -> None:
    """Cordoned, silent, taken and tainted nodes each have their row, in Kubernetes's own words."""
    patch(plane, "gpu1", {"unschedulable": True})
    patch(plane, "gpu2", {"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]})
    hold(plane, "gpu3")
    kubelets.silent.add("gpu4")
    wanted = target(plane, "gpu4")
    end = time.monotonic() + 60
    while not wanted._facts.nodes.value["gpu4"].not_ready:  # noqa: SLF001
        assert time.monotonic() < end
        time.sleep(1)
        wanted = target(plane, "gpu4")
    told = gather(target(plane))
    assert "Kubernetes says cordoned since " in told.why("gpu1")
    assert "Unschedulable: 0/8 nodes are available: " in told.why("gpu2")
    assert "had taint {dedicated: x}, that the pod didn't tolerate" in told.why("gpu2")
    assert told.nodes["gpu3"]["nvml"].why == "busy: 8 of 8 nvidia.com/gpu are held by tenant/on-gpu3"
    assert "NodeStatusUnknown: Kubelet stopped posting node status." in told.why("gpu4")
    assert {name for name in NAMES if told.whole(name)} == {"gpu3", *NAMES[4:]}
    assert ours(plane) == []
    kubelets.silent.clear()
    patch(plane, "gpu1", {"unschedulable": None})
    patch(plane, "gpu2", {"taints": None})


@pytest.mark.usefixtures("kubelets")
def test_the_documented_role(plane: ControlPlane) -> None:
    """A user with these roles and no others gets whole answers; taken GPUs are told by the scheduler too."""
    block = (
        (ROOT / "docs/targets.md").read_text().partition("<!-- roles -->\n```yaml\n")[2].partition("```")[0]
    )
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    subject = [{"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}]
    for role in yaml.safe_load_all(block):
        place = role["metadata"].get("namespace")
        path = f"{rbac}/namespaces/{place}" if place else rbac
        plane.make(f"{path}/{role['kind'].lower()}s", role)
        reference = {"kind": role["kind"], "name": "gpuassay", "apiGroup": "rbac.authorization.k8s.io"}
        binding = {"metadata": {"name": "gpuassay"}, "subjects": subject, "roleRef": reference}
        plane.make(f"{path}/{role['kind'].lower()}bindings", binding)
    told = gather(target(plane, "gpu5", "gpu6", token=BOB, namespace="acceptance"))
    assert told.whole("gpu5")
    assert told.whole("gpu6")
    # This server has neither dynamic resource allocation nor metrics.
    assert {item.status for item in told.cluster.values()} == {"ok", "unsupported", "not_found"}
    assert ours(plane) == []


def test_a_job(plane: ControlPlane, kubelets: Kubelets) -> None:
    """Four ranks on two nodes each know their place, and their pods and service are gone afterwards."""
    job = Job("place", ("sh", "-c", "echo $RANK of $WORLD_SIZE"), ("gpu5", "gpu6"), ranks=2)
    results = target(plane, token=BOB, namespace="acceptance").run(job, Tally(2, lambda _line: None))
    said = [item.out.decode().strip() for item in results.values()]
    assert said == ["0 of 4", "1 of 4", "2 of 4", "3 of 4"]
    assert ours(plane) == []
    assert kubelets.kubelet.running == []


@pytest.mark.usefixtures("kubelets")
def test_a_quota(plane: ControlPlane) -> None:
    """The server's words about a quota are the node's reason, and it is unseen."""
    spec = {"hard": {"requests.nvidia.com/gpu": "4"}}
    quota = {"metadata": {"name": "gpus"}, "spec": spec}
    plane.make("/api/v1/namespaces/acceptance/resourcequotas", quota)
    path = "/api/v1/namespaces/acceptance/resourcequotas/gpus"
    end = time.monotonic() + 30
    while "hard" not in plane.ask("GET", path)[1].get("status", {}):
        assert time.monotonic() < end
        time.sleep(0.5)
    told = gather(target(plane, "gpu5", namespace="acceptance"))
    assert "exceeded quota: gpus, requested: requests.nvidia.com/gpu=8" in told.why("gpu5")
    assert told.nodes["gpu5"]["probe"].status == "denied"
    plane.ask("DELETE", path)


def test_runs_that_are_killed(plane: ControlPlane, kubelets: Kubelets) -> None:
    """Killed at random moments, runs leave things behind, and clean leaves nothing."""
    from test_target_kubernetes_trouble import GATHER

    seed = int(os.environ.get("GPUASSAY_SEED", "20261130"))
    moments = random.Random(seed)  # noqa: S311 - no secret
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    config = str(plane.kubeconfig(ADMIN))
    left = []
    for _ in range(10):
        place = moments.choice(["", "acceptance"])
        argv = [sys.executable, "-c", GATHER, config, place]
        run = subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(moments.uniform(0.3, 5))
        run.send_signal(signal.SIGKILL)
        run.wait()
        left += target(plane, namespace=place).clean()
        assert ours(plane) == []
        assert kubelets.kubelet.running == []
    assert left


@pytest.mark.usefixtures("kubelets")
def test_a_thousand_nodes(plane: ControlPlane) -> None:
    """They come page by page, in natural order, and each that was never ready has its row."""
    names = [f"far{number}" for number in range(1, 1001)]
    for name in names:
        plane.make("/api/v1/nodes", {"metadata": {"name": name}})
    assert target(plane).declared() == (*names, *NAMES)
    told = gather(target(plane, *names))
    assert all("NotReady" in told.why(name) for name in names)
