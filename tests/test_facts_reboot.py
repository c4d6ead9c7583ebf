"""When a node is back, and what of it its scheduler has forgotten."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpuassay.evidence.item import Item
from gpuassay.facts import reboot
from gpuassay.facts.fault_sights import Sight
from gpuassay.facts.reboot import came_back
from gpuassay.facts.reboot_parts import links_lost
from gpuassay.facts.reboot_scheduler import scheduler_changed
from gpuassay.facts.seats import Seats
from gpuassay.judge.fact import Read, Unread

SENT_S = 10.0


def sight(at_s: float, *, out: bool | None, whole: bool | None = None, boot: str = "a") -> Sight:
    """Give what was seen of a node."""
    return Sight(at_s, at_s - 1, "node", "…", "#1", out=out, whole=whole, identity=boot)


@pytest.mark.parametrize(
    ("after", "back_s"),
    [
        ([sight(12, out=True), sight(60, out=False)], 60),
        ([sight(12, out=False)], None),  # it was never away, nor has it booted
        ([sight(60, out=False, boot="b")], 60),  # too short an absence for the scheduler to notice
        ([sight(12, out=True), sight(60, out=False, whole=False), sight(75, out=False, whole=True)], 75),
        ([sight(12, out=True), sight(60, out=None)], None),  # the scheduler gave no answer
        ([sight(12, out=True)], None),
    ],
)
def test_node_is_back_when_work_can_go_there_again(after: list[Sight], back_s: float | None) -> None:
    """It was out of service or has booted, is in service now, and all its GPUs can be given out."""
    found = came_back([sight(8, out=False), *after], SENT_S)
    assert (found.at_s if found else None) == back_s


def seats(**items: bytes) -> Seats:
    """Give what a scheduler said."""
    kept = {key.replace("_", "/"): Item(key, 1, out=out) for key, out in items.items()}
    evidence = SimpleNamespace(problems=(), item=kept.get, ref=lambda item: item.id)
    return Seats(cast("Any", evidence))


def compared(then: Seats, now: Seats) -> Read[int] | Unread:
    """Compare what was known of a node with what is."""
    return scheduler_changed(
        cast("Any", SimpleNamespace(name="n1", orchestrator=then)),
        cast("Any", SimpleNamespace(name="n1", orchestrator=now)),
    )


def slurm(gres: str, features: list[str], partitions: list[str], state: str = "IDLE") -> Seats:
    """Give a Slurm of one node, in JSON."""
    node = {"name": "n1", "gres": gres, "active_features": features, "partitions": partitions}
    return seats(slurm_nodes=json.dumps({"nodes": [{**node, "state": [state]}]}).encode())


def test_everything_that_slurm_has_forgotten_is_named() -> None:
    """Resources, features, partitions, and that it is out of service now, each in words."""
    then = slurm("gpu:b200:8", ["rack7", "b200"], ["batch", "big"])
    assert compared(then, then) == Read(0)
    found = compared(then, slurm("gpu:b200:7", ["b200"], ["batch"], "DRAIN"))
    assert isinstance(found, Read)
    assert found.value == 4
    for words in ("Gres was gpu:b200:8, and is gpu:b200:7", "feature rack7 is gone", "partition big is gone"):
        assert words in found.note
    assert "DRAIN" in found.note


def test_what_slurm_does_not_say_any_more_is_not_the_same() -> None:
    """A node that is not listed has changed; a Slurm that does not answer leaves it unknown."""
    then = slurm("gpu:b200:8", [], [])
    gone = json.dumps({"nodes": [{"name": "n2", "state": ["IDLE"]}]}).encode()
    found = compared(then, seats(slurm_nodes=gone))
    assert (found.value, found.note) == (1, "Slurm lists the node no more")  # type: ignore[union-attr]
    assert isinstance(compared(then, seats()), Unread)
    assert isinstance(compared(seats(), seats()), Unread)


def kubernetes(labels: dict[str, str]) -> Seats:
    """Give a Kubernetes of one node."""
    ready = {"type": "Ready", "status": "True"}
    node = {"metadata": {"name": "n1", "labels": labels}, "spec": {}, "status": {"conditions": [ready]}}
    return seats(kubernetes_nodes=json.dumps({"items": [node]}).encode())


def test_label_that_tells_the_time_of_a_boot_is_no_change() -> None:
    """GPU Feature Discovery writes anew when it looked; all other labels are to stay."""
    then = kubernetes({"nvidia.com/gfd.timestamp": "1", "nvidia.com/gpu.count": "8"})
    assert compared(then, kubernetes({"nvidia.com/gfd.timestamp": "2", "nvidia.com/gpu.count": "8"})) == Read(
        0
    )
    found = compared(then, kubernetes({"nvidia.com/gpu.count": "7"}))
    assert (found.value, found.note) == (1, "label nvidia.com/gpu.count was 8, and is 7")  # type: ignore[union-attr]


def port(name: str = "mlx5_0/1", rate: float = 400.0, *, up: bool = True, gids: int = 1) -> Any:
    """Give a port of the compute fabric."""
    link = Read("ACTIVE" if up else "DOWN")
    has = {"line_rate_gbps": Read(rate), "routable_gids": Read(gids)}
    return SimpleNamespace(name=name, connected=up, link=link, **has)


@pytest.mark.parametrize(
    ("now", "words"),
    [
        ([port()], "of 1 ports"),
        ([port(rate=800.0, gids=2)], "of 1 ports"),
        ([port(rate=200.0)], "port mlx5_0/1 runs at 200 Gb/s, 400 before"),
        ([port(up=False)], "port mlx5_0/1 is DOWN"),
        ([port(gids=0)], "port mlx5_0/1 has 0 routable GIDs, 1 before"),
        ([port("mlx5_1/1")], "port mlx5_0/1 is gone"),
    ],
)
def test_port_that_comes_back_with_less_is_named(now: list[Any], words: str) -> None:
    """Without its link or its address, or at a lower rate, as a link that trained with fewer lanes."""
    before = SimpleNamespace(fabric=SimpleNamespace(connected=[port()]), gpus=[])
    found = links_lost(
        cast("Any", before), cast("Any", SimpleNamespace(ports_unread=None, ports=now, gpus=[]))
    )
    assert isinstance(found, Read)
    assert words in found.note
    assert found.value == (0 if words.startswith("of") else 1)


def test_boot_that_slurm_has_not_ordered_is_no_fail() -> None:
    """A node that restarted itself and that Slurm therefore keeps out is not said to be lost."""
    why = "Reason=Node unexpectedly rebooted [slurm@2026-11-30T08:10:00]"
    shown = f"NodeName=n1\n   State=DOWN\n   BootTime=2026-11-30T08:09:00\n   {why}\n"
    items = [
        Item(reboot.ORDER, 1, asked={"at_s": 5.0, "since_s": 4.0}),
        Item("watch/slurm-node", 2, asked={"at_s": 60.0, "since_s": 59.0}, out=shown.encode()),
        Item("end", 3, asked={"state": reboot.NOT_RETURNED}, why="it was not in service again"),
    ]
    found = reboot.Reboot("n1", [(one, one.id) for one in items], cast("Any", None), cast("Any", None))
    assert isinstance(found.returned, Unread)
    assert "unexpectedly rebooted" in found.returned.why
    assert isinstance(found.gpus_lost, Unread)
