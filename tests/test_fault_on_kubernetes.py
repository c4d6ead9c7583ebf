"""A whole run that breaks a node of Kubernetes: replaced, killed, refused, or not well to begin with."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from breaking import Tooling
from gpuassay.facts.fault_sights import isolated
from gpuassay.fault.sweeping import sweep
from gpuassay.judge.fact import Read, Unread
from gpuassay.target import TargetError, kube_hold
from kube_breaking import NODE, OTHER, Place, frozen_place
from kubeapi import cluster
from kubeapi.rig import target
from nodes import needs
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubeapi.store import Object

pytestmark = needs()
FILE = "test_failure_injection.py"
FROZEN = f"{FILE}::test_frozen_kubelet"
CHECK = "reliability.failure_injection.frozen_kubelet"
REPLACED = f"{CHECK}_node_replaced"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Start a cluster."""
    with frozen_place(tmp_path) as place:
        yield place


def test_replaced_node_is_timed_and_looked_at(place: Place) -> None:
    """The node is deleted, and another machine joins; it serves once its GPUs are there and passes a load."""
    pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
    with (
        Tooling(place.frozen, place.cordon),
        place.start(FILE, 30, 8, "--host-view", "-k", "kubelet", replace_s=90) as run,
    ):
        wait_until(lambda: any(trial.moment(isolated) for trial in place.trials()))
        wait_until(lambda: _fleets(place) > 1)  # no machine joins in a second
        place.replace()
        back_at = time.time()
        assert run.wait(180) == 0, place.said
    assert place.verdict(CHECK) == "pass"
    assert place.verdict(REPLACED) == "pass"
    (trial,) = place.trials()
    assert isinstance(trial.replace_s, Read)
    assert abs(trial.replace_s.value - (back_at - place.broken_at)) <= 2
    assert "another machine" in trial.replace_s.note
    assert isinstance(trial.well, Read)
    assert "booted since" in trial.well.note
    assert isinstance(trial.loaded, Read)
    assert "the load was right" in trial.loaded.note
    assert place.whole()


def _fleets(place: Place) -> int:
    """Count how often another list of nodes was seen."""
    return sum(item.id == "watch/kube-fleet" for trial in place.trials() for item, _ in trial.items)


@pytest.mark.parametrize(("pod", "verdict"), [("-hold", "not_run"), ("-act-1", "error")])
def test_node_that_is_cordoned_before_is_not_broken(place: Place, pod: str, verdict: str) -> None:
    """A controller that cordons without a reason has noticed nothing: nothing is broken, nobody passes."""

    def cordons(made: Object) -> str:
        if made["metadata"]["name"].endswith(pod):
            place.cordon()
        return ""

    place.server.admits = cordons
    with place.start(FROZEN, 4, 4, "--host-view") as run:
        run.wait(120)
    assert place.verdict(CHECK) == verdict
    assert all(trial.injected_s is None for trial in place.trials())
    assert place.whole()


def killed(place: Place, mend_s: int) -> None:
    """Start a run, and kill it once the fault has taken hold."""
    with place.start(FROZEN, 4, mend_s, "--host-view") as run:
        wait_until(lambda: any(trial.injected_s is not None for trial in place.trials()))
        os.kill(run.pid, signal.SIGKILL)
        assert run.wait(60) == -signal.SIGKILL


def test_killed_controller_leaves_nothing_broken(place: Place) -> None:
    """The dead-man mends the node at his time and leaves nothing there; `clean` removes what is elsewhere."""
    killed(place, 4)
    wait_until(lambda: not place.frozen() and not place.has_dead_man())
    (trial,) = place.trials()
    assert isinstance(trial.delivered, Read)
    assert isinstance(trial.end, Unread)
    assert place.server.store.ours()
    assert target(place.server, place.folder).clean()
    assert place.whole()


def test_what_a_killed_controller_left_is_undone_before_its_time(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through a frozen kubelet nothing can be asked, which is said; once it goes on all is undone at once."""
    monkeypatch.setattr(kube_hold, "_PULL_S", 0.5)
    killed(place, 3600)
    reached = target(place.server, place.folder, wait_s=0, host_view=True)
    assert reached.clean()
    with pytest.raises(TargetError, match="has not taken it up"):
        sweep(reached, NODE)
    place.node.run("pkill", "-CONT", "-x", "kubelet")
    monkeypatch.undo()
    (line,) = sweep(reached, NODE)
    assert "undone: kubelet runs" in line
    assert place.whole()


def test_a_second_fault_in_the_cluster_is_refused(place: Place) -> None:
    """While any run of ours holds a node to break something, no other node may be broken."""
    hold = cluster.holder("gpuassay-other-hold", OTHER, 8)
    hold["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "gpuassay"}
    place.server.store.put("pods", hold)
    with place.start(FROZEN, 4, 4, "--host-view") as run:
        run.wait(60)
    junit = (place.folder / "run" / "junit.xml").read_text(encoding="utf-8")
    assert "only one fault at a time may be in a cluster: tenant/gpuassay-other-hold" in junit
    assert not place.trials()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ([], "a fault is injected by root on the node itself: --host-view"),
        (["--host-view", "--allow=load"], "needs --allow=break"),
        (["--host-view", "--break-nodes=gpu2"], "gpu2 is no compute node of this cluster"),
    ],
)
def test_without_consent_or_root_nothing_is_touched(place: Place, options: list[str], why: str) -> None:
    """Each thing that was not agreed is named, and no node is touched for it."""
    with place.start(FROZEN, 4, 4, *options) as run:
        run.wait(60)
    assert not place.trials()
    assert why in (place.folder / "run" / "junit.xml").read_text(encoding="utf-8")
    assert place.whole()


def test_node_that_others_use_is_refused(place: Place) -> None:
    """A tenant's pod without GPUs is reason enough; one of a DaemonSet belongs to the node."""
    daemon = cluster.holder("exporter", NODE, 0)
    daemon["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "exporter"}]
    place.server.store.put("pods", daemon)
    place.server.store.put("pods", cluster.holder("web", NODE, 0))
    with place.start(FROZEN, 4, 4, "--host-view") as run:
        run.wait(60)
    junit = (place.folder / "run" / "junit.xml").read_text(encoding="utf-8")
    assert f"{NODE} is not wholly ours: tenant/web run there" in junit
    assert not place.trials()
