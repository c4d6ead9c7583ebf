"""How nodes are restarted: by Slurm where it may, else by themselves, and what is said where neither may."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from gpuassay.evidence.item import Item
from gpuassay.judge.fact import Read
from gpuassay.target import TargetError
from gpuassay.target.slurm_restart import restart

if TYPE_CHECKING:
    from gpuassay.target import Job, Results
    from gpuassay.target.restarts import Ordered

NODES = ("n1", "n2")
DENIED = Item("scontrol", 0, "failed", why="scontrol ended with 1: Access/permission denied")
NOT_ROOT = {"refused": "it takes root on the node, and this runs as user 1000"}


def ordered(program: str, scontrol: Item, *said: dict[str, str]) -> tuple[Ordered, list[tuple[str, ...]]]:
    """Order a restart from a Slurm and nodes that answer so; give also what was called."""
    called: list[tuple[str, ...]] = []

    def call(*argv: str) -> Item:
        called.append(argv)
        return scontrol

    def run(job: Job) -> Results:
        pairs = zip(job.nodes, said, strict=True)
        return {(node, 0): Item("rank0", 1, out=json.dumps(one).encode()) for node, one in pairs}

    cluster = SimpleNamespace(setting=lambda _name: Read(program), find=lambda _node: None)
    client = cast("Any", SimpleNamespace(run=call))
    return restart(client, cast("Any", cluster), NODES, run), called


def test_slurm_drains_and_restarts_them() -> None:
    """With a RebootProgram one call orders it for all; our own job has to let them go then."""
    found, called = ordered("/sbin/reboot", Item("scontrol", 0))
    assert found.by_scheduler
    (argv,) = called
    assert argv[:4] == ("scontrol", "reboot", "ASAP", "nextstate=RESUME")
    assert argv[-1] == "n1,n2"


def test_nodes_restart_themselves_where_slurm_has_no_program() -> None:
    """Nothing is asked of Slurm; each node has its own answer, and one that refuses is denied."""
    found, called = ordered("", DENIED, {"by": "systemctl reboot in 3 s"}, NOT_ROOT)
    assert not found.by_scheduler
    assert not called
    assert [found.items[node].status for node in NODES] == ["ok", "denied"]


def test_what_is_not_permitted_says_what_was_tried() -> None:
    """With neither way the error names both, and no node is restarted."""
    with pytest.raises(TargetError, match=r"permission denied; on the nodes themselves: it takes root"):
        ordered("/sbin/reboot", DENIED, NOT_ROOT, NOT_ROOT)
