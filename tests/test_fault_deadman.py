"""The dead-man on a node: armed before anything is broken, he alone undoes at his time, and only once."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.fault import errand
from gpuassay.probe import travel
from nodes import Node, Rack, needs
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = needs()
SOON_S, LATE_S = 0.5, 600.0
PLACE = "/run/gpuassay-fault-m1"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Boot a node on which a daemon runs."""
    with Rack(tmp_path_factory.mktemp("rack"), "n1") as rack:
        start = "cp /bin/sleep /run/gpud && exec setsid -f /run/gpud 7200 >/dev/null 2>&1"
        rack["n1"].run("sh", "-c", start)
        yield rack["n1"]


@pytest.fixture
def order(node: Node) -> Iterator[dict[str, Any]]:
    """Give the order of a fault that was planned; what is left of it is taken away."""
    order = {"fault": "service", "args": {"service": "gpud", "how": "freeze"}, "mark": "m1", "state": {}}
    yield {**order, "state": act(node, {**order, "verb": "plan"})["state"]}
    act(node, {"verb": "sweep"}, "sweep")
    assert left(node) == []
    assert not frozen(node)


def act(node: Node, order: dict[str, Any], module: str = "main", feed: bytes = b"") -> dict[str, Any]:
    """Do an act on the node, and read its answer."""
    argv = (sys.executable, *travel.argv("")[1:])
    done = node.run(*argv, text=False, input=feed or errand.pack(order, module))
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def arm(node: Node, order: dict[str, Any], hold_s: float) -> dict[str, Any]:
    """Arm the dead-man of an order."""
    return act(node, order, feed=errand.armed(order, hold_s))


def left(node: Node) -> list[str]:
    """List the folders of dead-men."""
    return node.run("sh", "-c", "ls /run | grep gpuassay-fault || true").stdout.split()


def frozen(node: Node) -> bool:
    """Tell whether the daemon is stopped."""
    return "T" in node.run("ps", "-C", "gpud", "-o", "stat=").stdout


def test_nothing_is_broken_without_a_dead_man(node: Node, order: dict[str, Any]) -> None:
    """Who has armed none is refused, and so is who has armed one that has died."""
    assert "not armed" in act(node, {**order, "verb": "inject"})["refused"]
    arm(node, order, LATE_S)
    node.run("pkill", "-KILL", "-f", "gpuassay-fault-m1")
    wait_until(lambda: "gpuassay-fault-m1 " not in node.run("ps", "-eo", "args=").stdout)
    assert "has died" in act(node, {**order, "verb": "inject"})["refused"]
    assert not frozen(node)


def test_he_undoes_at_his_time(node: Node, order: dict[str, Any]) -> None:
    """Nobody else does anything, and the daemon runs again; who comes later learns that it was he."""
    arm(node, order, SOON_S + 1)
    assert "is stopped" in act(node, {**order, "verb": "inject"})["proof"]
    wait_until(lambda: not frozen(node), patience_s=20)
    wait_until(lambda: left(node) == [])  # also where nobody comes any more, he clears away what is his
    assert act(node, {**order, "verb": "undo"})["fired"] is True
    assert left(node) == []


def test_he_keeps_what_he_could_not_undo(node: Node, order: dict[str, Any]) -> None:
    """Where his undo fails, his folder stays for those who come later, with what he saw."""
    node.install("nft", "#!/bin/sh\nexit 0\n")  # it still has the table, whatever it is told
    hung = {"fault": "mount_hang", "args": {"mark": "m1", "path": "/home"}, "state": {"server": "10.77.0.9"}}
    arm(node, {**order, **hung}, SOON_S)
    wait_until(lambda: "not_restored" in node.run("sh", "-c", f"cat {PLACE}/outcome || true").stdout)
    assert left(node) == ["gpuassay-fault-m1"]
    node.run("rm", "-rf", PLACE, "/usr/local/bin/nft")


def test_he_leaves_nothing_where_he_was_told_half_way(node: Node, order: dict[str, Any]) -> None:
    """Who told him was killed before he had cleared away: at his time he finds so, and does that alone."""
    arm(node, order, SOON_S + 1)
    act(node, {**order, "verb": "inject"})
    node.run("mv", f"{PLACE}/armed", f"{PLACE}/claimed")
    wait_until(lambda: left(node) == [])
    assert frozen(node)
    node.run("pkill", "-CONT", "gpud")


def test_he_does_nothing_once_told(node: Node, order: dict[str, Any]) -> None:
    """After the undo, and after the node was handed over, there is no dead-man any more."""
    arm(node, order, LATE_S)
    act(node, {**order, "verb": "inject"})
    assert act(node, {**order, "verb": "undo"})["fired"] is False
    arm(node, order, LATE_S)
    assert act(node, {**order, "verb": "stand_down"})["stood_down"] is True
    assert left(node) == []
    assert "gpuassay-fault" not in node.run("ps", "-eo", "args=").stdout


def test_only_one_has_the_right_to_undo(node: Node, order: dict[str, Any]) -> None:
    """Whoever comes second, the dead-man or we, is told so and does nothing."""
    arm(node, order, LATE_S)
    assert act(node, {**order, "verb": "fire"})["fired"] is True
    assert act(node, {**order, "verb": "fire"})["stood_down"] is True


def test_a_second_fault_is_refused(node: Node, order: dict[str, Any]) -> None:
    """One fault at a time: while a dead-man stands, or was not cleared away, none is planned."""
    arm(node, order, LATE_S)
    assert "a fault of ours is here already" in act(node, {**order, "verb": "plan"})["refused"]


def test_a_node_that_others_depend_on_is_refused(node: Node, order: dict[str, Any]) -> None:
    """Where a process of a control plane or of storage runs, nothing is broken."""
    node.run("sh", "-c", "cp /bin/sleep /run/etcd && exec setsid -f /run/etcd 7200 >/dev/null 2>&1")
    try:
        assert "it runs etcd" in act(node, {**order, "verb": "plan"})["refused"]
    finally:
        node.run("pkill", "-KILL", "-x", "etcd")


def test_what_a_killed_run_left_is_undone_at_once(node: Node, order: dict[str, Any]) -> None:
    """Long before his time; and a folder without a dead-man is only taken away."""
    arm(node, order, LATE_S)
    act(node, {**order, "verb": "inject"})
    node.run("mkdir", "/run/gpuassay-fault-m2")
    told = act(node, {"verb": "sweep"}, "sweep")
    assert told["found"]["m1"].startswith("undone: gpud runs")
    assert "nothing was broken yet" in told["found"]["m2"]
    assert told["left"] == left(node) == []


def test_systemd_keeps_the_time_where_it_can(node: Node, order: dict[str, Any], tmp_path: Path) -> None:
    """PID 1 is given the timer, is asked whether it is active, and is told to stop it."""
    log = tmp_path / "asked"
    node.run("mkdir", "-p", "/run/systemd/system")
    for tool in ("systemd-run", "systemctl"):
        node.install(
            tool, f'#!/bin/sh\necho "{tool} $*" >>{log}\n[ "$1" = is-active ] && echo active\nexit 0\n'
        )
    try:
        assert arm(node, order, LATE_S)["by"] == "systemd's timer gpuassay-undo-m1"
        assert "is stopped" in act(node, {**order, "verb": "inject"})["proof"]
        act(node, {**order, "verb": "undo"})
    finally:
        node.run("sh", "-c", "rm -rf /run/systemd /usr/local/bin/systemd-run /usr/local/bin/systemctl")
    asked = log.read_text(encoding="utf-8")
    assert "systemd-run --quiet --unit=gpuassay-undo-m1 --on-active=600s" in asked
    assert "systemctl is-active gpuassay-undo-m1.timer" in asked
    assert "systemctl stop gpuassay-undo-m1.timer" in asked
