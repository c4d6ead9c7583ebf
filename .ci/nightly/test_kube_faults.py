"""Faults on a real API server, scheduler and controller-manager: what Kubernetes itself does, and others."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from controlplane import ADMIN, ControlPlane
from kubelets import Kubelets

from breaking import Tooling
from gpuassay.facts.fault_sights import TENANT, detected, isolated
from gpuassay.judge.fact import Fact, Read
from gpuassay.judge.reach import KubernetesReach
from gpuassay.target.kubernetes import Kubernetes
from kube_breaking import NODE, OTHER, start_kubelet
from kube_trials import Kind, conduct
from kubeapi import cluster
from kubeapi.rig import IMAGE
from nodes import Node, Rack, needs
from probing import Mark
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS = Path(os.environ.get("GPUASSAY_KUBERNETES", "/nowhere")) / "bin"
pytestmark = needs()
_PATCH = "application/merge-patch+json"
_GRACE_S = 12 + 3 + 2  # of the controller-manager, a beat of the kubelet's before, and its own look
FROZEN = Kind("", "service", {"service": "kubelet", "how": "freeze"}, lambda _place: False)
FULL = Kind("", "disk_full", {}, lambda _place: False, {"scratch": "/mnt"})


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Boot the machine that is broken."""
    with Rack(tmp_path_factory.mktemp("rack"), NODE) as rack:
        start_kubelet(rack[NODE])
        rack[NODE].run("mount", "-t", "tmpfs", "-o", "size=8m", "scratch", "/mnt")
        yield rack[NODE]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory, machine: Node) -> Iterator[ControlPlane]:
    """Start a control plane, and kubelets of two nodes, of which one runs on that machine."""
    mark = Mark()
    environment = {"PATH": os.environ["PATH"], **mark.environment}
    with (
        ControlPlane(PROGRAMS, tmp_path_factory.mktemp("plane")) as plane,
        Kubelets(plane, tmp_path_factory.mktemp("kubelets"), environment) as kubelets,
    ):
        kubelets.kubelet.within[NODE] = machine.argv
        kubelets.kubelet.frozen = lambda name: name == NODE and frozen(machine)
        for name in (NODE, OTHER):
            kubelets.add(cluster.node(name, 8))
        wait_until(lambda: not standing(plane).get("taints"))
        yield plane
    assert mark.survivors() == []


def frozen(machine: Node) -> bool:
    """Tell whether the kubelet is stopped."""
    return "T" in machine.run("ps", "-C", "kubelet", "-o", "stat=", check=False).stdout


def standing(plane: ControlPlane) -> dict[str, Any]:
    """Give what the node's object says of cordon and taints."""
    found: dict[str, Any] = plane.ask("GET", f"/api/v1/nodes/{NODE}")[1]["spec"]
    return found


def cordon(plane: ControlPlane, manager: str, *, out: bool = True) -> None:
    """Cordon the node, as a program of this name, or let work in again."""
    path = f"/api/v1/nodes/{NODE}?fieldManager={manager}"
    code, told = plane.ask("PATCH", path, {"spec": {"unschedulable": out or None}}, _PATCH)
    assert code == 200, told


def reached(plane: ControlPlane) -> Kubernetes:
    """Make the target."""
    config = str(plane.kubeconfig(ADMIN))
    return Kubernetes(KubernetesReach(kubeconfig=config, image=IMAGE, wait_s=5), (NODE,), 120, host_view=True)


def value(fact: Fact[Any]) -> Any:
    """Give what was read."""
    assert isinstance(fact, Read), fact
    return fact.value


def restored(plane: ControlPlane, machine: Node) -> None:
    """Wait until the node is as it was, with nothing of ours there."""
    left = ["sh", "-c", "ls -A /run /mnt; ps -eo args="]
    wait_until(lambda: not frozen(machine) and "gpuassay" not in machine.run(*left).stdout)
    wait_until(lambda: not standing(plane).get("taints"), 90)


def test_kubernetes_itself_notices_a_frozen_kubelet(plane: ControlPlane, machine: Node) -> None:
    """It taints the node once its grace is over, which is said to be its own doing, and lets no pod in."""
    trial = conduct(reached(plane), FROZEN, 40, mend_s=15)
    assert value(trial.end) == "handed over"
    assert value(trial.detect_s) <= _GRACE_S
    assert value(trial.isolate_s) <= _GRACE_S
    taken = next(sight for sight in trial.sights if sight.out)
    assert taken.by == "kube-controller-manager"
    assert "by Kubernetes itself" in taken.words
    restored(plane, machine)


def test_a_controller_is_quicker(plane: ControlPlane, machine: Node) -> None:
    """One that cordons a second later is timed by its own cordon, and by the scheduler's refusal."""
    done: list[float] = []

    def act() -> None:
        cordon(plane, "health-controller")
        done.append(time.time())

    with Tooling(lambda: frozen(machine), act, patience_s=1):
        trial = conduct(reached(plane), FROZEN, 40, mend_s=15)
    assert value(trial.end) == "handed over"
    assert trial.span is not None
    acted_s = max(0.0, done[0] - trial.span[0])
    for moment in (trial.moment(detected), trial.moment(isolated)):
        assert moment is not None
        assert moment.since_s - 0.2 <= acted_s <= moment.s + 0.2
        assert moment.s - moment.since_s <= 4  # two seconds to either side
    assert next(sight.by for sight in trial.sights if sight.out) == "health-controller"
    assert standing(plane)["unschedulable"]
    cordon(plane, "health-controller", out=False)
    restored(plane, machine)


def test_a_tenant_s_cordon_is_none_of_the_provider_s(plane: ControlPlane, machine: Node) -> None:
    """Kubernetes adds a taint of its own, which is no detection; the cordon stays, the fault does not."""

    def full() -> bool:
        return "gpuassay" in machine.run("ls", "-A", "/mnt").stdout

    with Tooling(full, lambda: cordon(plane, "kubectl-cordon")):
        trial = conduct(reached(plane), FULL, 10, mend_s=10)
    assert value(trial.end) == "undone"
    assert value(trial.detected) is False
    assert value(trial.isolated) is True
    assert {sight.by for sight in trial.sights if sight.out} == {TENANT}
    assert standing(plane)["unschedulable"]
    assert standing(plane)["taints"][0]["key"] == "node.kubernetes.io/unschedulable"
    cordon(plane, "kubectl-uncordon", out=False)
    restored(plane, machine)
