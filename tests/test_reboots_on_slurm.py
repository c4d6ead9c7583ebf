"""Nodes of a real Slurm rebooted: all at once, in waves, one that stays away, a controller that is killed."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from rebooting import NODES, Power, Rebooting, rebootable
from slurmd import LOGIN, needs_slurm
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = needs_slurm()
GOOD = dict.fromkeys(("return_time", "same_machine", "mounts_and_data", "scheduler"), "pass")


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Power]:
    """Boot a Slurm of three nodes, once for all tests."""
    with rebootable(tmp_path_factory.mktemp("rack")) as power:
        yield power


@pytest.fixture
def power(booted: Power) -> Iterator[Power]:
    """Give it with all nodes idle and under power, and take care that a test leaves nothing."""
    yield booted
    booted.dead, booted.then = set(), lambda _node: None
    booted.boots.clear()
    booted.slurm.assert_nothing_runs()
    for node in NODES:
        booted.slurm.revive(node)
    assert not [*booted.shared.iterdir()]


def test_whole_cluster_at_once(power: Power, tmp_path: Path) -> None:
    """All nodes go and come back together: their times are told, and all is as it was, with another boot."""
    run = Rebooting(power, tmp_path)
    with run.start("--reboot-wave=all") as process:
        assert power.until_over(process) == 0
    assert run.verdicts() == {**GOOD, "claims": "skip"}


def test_waves_stop_at_the_node_that_does_not_return(power: Power, tmp_path: Path) -> None:
    """The first returns, the second stays off and is left as it is, the third is not rebooted any more."""
    power.dead = {"n2"}
    run = Rebooting(power, tmp_path, return_s=15)
    with run.start() as process:
        assert power.until_over(process) == 1
    ends = {node: run.items(node)["end"] for node in NODES}
    assert [ends[node].asked["state"] for node in NODES] == ["returned", "not returned", "not reached"], [
        end.why for end in ends.values()
    ]
    assert ends["n2"].why == "it was not in service again within 15 s, and is left as it is"
    assert ends["n3"].why == "1 of 2 nodes before it did not return: no more are rebooted"
    assert "order" not in run.items("n3")
    found = run.results()["return_time"]
    assert found["verdict"] == "fail"
    assert "n2: returned is false" in found["reason"]
    assert "REBOOT_ISSUED" in power.slurm.run("scontrol", "show", "node", "n2").stdout
    power.slurm.reboot("n2")  # somebody sees to it
    assert ".gpuassay-reboot-" in run.clean()


def test_killed_controller_leaves_a_story(power: Power, tmp_path: Path) -> None:
    """After SIGKILL nodes that were ordered reboot all the same; recording and `clean` tell of it."""
    run = Rebooting(power, tmp_path)
    with run.start("--reboot-wave=all") as process:
        power.until(lambda: "order" in run.items("n1"))
        run.kill(process)
    said = run.clean(check=False)
    assert "n1: reboot" in said
    assert "was cut after: " in said
    power.until(lambda: len(power.boots) == len(NODES))
    for node in NODES:
        power.slurm.revive(node)
    assert "end" not in run.items("n1")
    run.clean()


def test_killed_before_the_order_reboots_nothing(power: Power, tmp_path: Path) -> None:
    """What is held when the controller dies is released by `clean`, and no node has been restarted."""
    login, asked, run = power.slurm.rack[LOGIN], tmp_path / "asked", Rebooting(power, tmp_path)
    waits = f'[ "$1" = reboot ] && : > "{asked}" && exec sleep 600'
    login.install("scontrol", f'#!/bin/sh\n{waits}\nexec {shutil.which("scontrol")} "$@"\n')
    try:
        with run.start("--reboot-wave=2") as process:
            wait_until(asked.exists)
            run.kill(process)
    finally:
        login.run("rm", "/usr/local/bin/scontrol")
    assert "plan" in run.items("n2")
    assert "order" not in run.items("n1")
    said = run.clean()
    assert "job " in said
    assert "n2: reboot" in said
    power.serve()
    assert not power.boots


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--allow=load"], "needs --allow=break"),
        (["--ticket="], "no ticket is named"),
        (["--window=2020-01-01T00:00Z/2020-01-02T00:00Z"], "is outside the window"),
        (["--break-nodes=n1,login"], "login is no compute node of this cluster"),
    ],
)
def test_without_consent_nothing_is_rebooted(
    power: Power, tmp_path: Path, options: list[str], why: str
) -> None:
    """Each thing that was not agreed is named, and no node is touched for it."""
    run = Rebooting(power, tmp_path)
    with run.start(*options) as process:
        assert power.until_over(process) == 0
    assert not run.items("n1")
    assert why in (run.run_dir / "junit.xml").read_text(encoding="utf-8")


def test_node_that_others_use_spares_its_wave(tmp_path: Path) -> None:
    """One node on which somebody's job runs cannot be held: then none of the wave is touched."""
    with rebootable(tmp_path) as power:
        power.slurm.occupy("n2")
        run = Rebooting(power, tmp_path)
        with run.start("--reboot-wave=all") as process:
            assert power.until_over(process) == 0
        assert set(run.verdicts().values()) == {"not_run", "skip"}
        assert "n2 is not ours alone" in (run.run_dir / "junit.xml").read_text(encoding="utf-8")
        assert not power.boots
