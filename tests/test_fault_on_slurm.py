"""Faults on a real Slurm: injected, watched and mended, with good and bad tooling of a provider beside it."""

from __future__ import annotations

import signal
import sys
import time
from typing import TYPE_CHECKING

import pytest

from breaking import (
    DETECT_S,
    FROZEN,
    NODE,
    NOTICE,
    REPLACED,
    Breaking,
    Tooling,
    broken_at,
    drains,
    end,
    frozen,
    melt,
    start_gpud,
    three_nodes,
    value,
    whole,
)
from gpuassay.judge.fact import Read, Unread
from slurmd import Slurm, needs_slurm
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = needs_slurm()


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """Boot a Slurm of three nodes, once for all tests."""
    with three_nodes(tmp_path_factory.mktemp("rack")) as slurm:
        yield slurm


@pytest.fixture
def slurm(booted: Slurm) -> Iterator[Slurm]:
    """Give it with all nodes idle, and take care that a test leaves nothing broken."""
    yield booted
    assert whole(booted)
    booted.assert_nothing_runs()
    booted.revive(NODE)


def ticket(folder: Path) -> Path:
    """Give a ticket in which nothing of the node stands yet."""
    place = folder / "ticket"
    place.write_text("CHG-1: a fault is to be injected\n", encoding="utf-8")
    return place


def _declared(told: Path) -> str:
    return f'[notices]\nticket = "{told}"\n'


def _python(folder: Path, modules: Path) -> str:
    """Have nodes use a Python that finds what is in a folder before all else, and give how a site says so."""
    place = folder / "python"
    shell = f'#!/bin/sh\nPYTHONPATH="{modules}:$PYTHONPATH" exec {sys.executable} "$@"\n'
    place.write_text(shell, encoding="utf-8")
    place.chmod(0o755)
    return f'python = "{place}"\n'


def _bring_another(slurm: Slurm, run: Breaking) -> None:
    """Give the drained node another boot, as a provider does, and let it in again."""
    wait_until(lambda: run.ended and run.has("watch/slurm-fleet", 2))  # no machine boots in a second
    wait_until(lambda: not slurm.jobs())  # a job that was ending on a node without power keeps it for long
    slurm.reboot(NODE)
    start_gpud(slurm)
    slurm.revive(NODE)


def test_good_tooling_takes_the_node_and_brings_another(slurm: Slurm, tmp_path: Path) -> None:
    """A provider that drains the node, says so, and later boots it anew passes; the times are its own."""
    pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
    told = ticket(tmp_path)
    declares = _python(tmp_path, tmp_path) + _declared(told)
    run = Breaking(slurm, tmp_path, (FROZEN, REPLACED, NOTICE), (30, 5, 60), declares=declares)

    def act() -> None:
        slurm.drain(NODE, "gpud hangs")
        told.write_text(f"{NODE} was drained: gpud hangs\n", encoding="utf-8")

    with Tooling(lambda: frozen(slurm), act, patience_s=2) as tooling, run.start() as process:
        _bring_another(slurm, run)
        back_at = time.time()
        assert process.wait(120) == 0
    passed = ("frozen_scheduler_daemon", "frozen_node_replaced", "notice")
    assert run.verdicts() == dict.fromkeys(passed, "pass")
    (trial,) = run.trials()
    assert end(trial) == "handed over"
    drained, back = (at - broken_at(trial) for at in (tooling.acted_at, back_at))
    assert abs(value(trial.detect_s) - drained) <= 2
    assert abs(value(trial.isolate_s) - drained) <= 2
    assert abs(value(trial.notify_s) - drained) <= 2 + 2  # a ticket is looked at every two seconds
    assert abs(value(trial.replace_s) - back) <= 2
    assert value(trial.well) is True
    assert value(trial.audited) is True
    assert value(trial.loaded) is True


def test_a_replacement_that_lacks_something_is_none(slurm: Slurm, tmp_path: Path) -> None:
    """A node that comes back without a file system that it had passes no audit, and was not replaced."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    slurm.rack[NODE].run("mount", "-t", "tmpfs", "tmpfs", str(scratch))
    declares = _python(tmp_path, tmp_path) + f'[[mount]]\npath = "{scratch}"\nrole = "local"\n'
    run = Breaking(slurm, tmp_path, (REPLACED,), (30, 5, 60), declares=declares)
    with drains(slurm, patience_s=0), run.start() as process:
        _bring_another(slurm, run)  # it boots, and nobody mounts it
        assert process.wait(120) == 1
    (trial,) = run.trials()
    assert value(trial.well) is True
    assert value(trial.audited) is False
    assert isinstance(trial.replaced, Read)
    assert trial.replaced.value is False
    assert f"its audit found less than before: {scratch} is not mounted" in trial.replaced.note
    assert run.verdicts() == {"frozen_node_replaced": "fail"}


_WRONG = """
import sys
sys.path.remove({here!r})
del sys.modules["torch"]
import torch
right = torch.mm
def wrong(*sides, out):
    right(*sides, out=out)[0, 0] += 1e4
torch.mm = wrong
"""
_BROKEN = "raise RuntimeError('the driver does not answer')"


@pytest.mark.parametrize(
    ("torch", "says"),
    [
        (_WRONG, "computed wrong numbers: 1 of 1024 elements were wrong"),
        (_BROKEN, "did not run: RuntimeError: the driver does not answer"),
    ],
    ids=["wrong", "broken"],
)
def test_a_replacement_that_passes_no_load_is_none(
    slurm: Slurm, tmp_path: Path, torch: str, says: str
) -> None:
    """A node that is let in again and then computes wrong numbers, or nothing, was not replaced."""
    pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
    modules = tmp_path / "modules"
    modules.mkdir()
    run = Breaking(slurm, tmp_path, (REPLACED,), (30, 5, 60), declares=_python(tmp_path, modules))
    with drains(slurm, patience_s=0), run.start() as process:
        wait_until(lambda: run.ended)
        (modules / "torch.py").write_text(torch.format(here=str(modules)), encoding="utf-8")
        _bring_another(slurm, run)
        assert process.wait(120) == 1
    (trial,) = run.trials()
    assert value(trial.well) is True
    assert isinstance(trial.replaced, Read)
    assert trial.replaced.value is False
    assert says in trial.replaced.note
    assert run.verdicts() == {"frozen_node_replaced": "fail"}
    assert isinstance(trial.replace_s, Unread)


def test_no_tooling_fails_and_the_node_is_mended(slurm: Slurm, tmp_path: Path) -> None:
    """Where nobody notices or is told it fails, and the node is as it was, by the dead-man if need be."""
    declares = _declared(ticket(tmp_path))
    run = Breaking(slurm, tmp_path, (FROZEN, NOTICE), (4, 6, 60), "slurmd", declares=declares)
    with run.start() as process:
        assert process.wait(120) == 1
    assert run.verdicts() == {"frozen_scheduler_daemon": "fail", "notice": "fail"}
    (trial,) = run.trials()
    assert value(trial.detected) is False
    assert end(trial) == "undone"


def test_late_tooling_fails(slurm: Slurm, tmp_path: Path) -> None:
    """A drain later than the limit is timed, and fails; the node is the provider's all the same."""
    run = Breaking(slurm, tmp_path, (FROZEN,), (30, 5, 1))
    with drains(slurm, patience_s=DETECT_S + 2), run.start() as process:
        assert process.wait(120) == 1
    assert run.verdicts() == {"frozen_scheduler_daemon": "fail"}
    (trial,) = run.trials()
    assert end(trial) == "handed over"
    assert value(trial.detect_s) > DETECT_S
    assert "gpud hangs" in slurm.run("scontrol", "show", "node", NODE).stdout  # the provider's drain stays
    assert frozen(slurm)  # what the provider has taken stays as it is
    melt(slurm)


def test_a_node_that_is_let_in_again_still_broken_fails(slurm: Slurm, tmp_path: Path) -> None:
    """Tooling that drains and then takes its drain back fails: the node is looked at, and is not well."""
    run = Breaking(slurm, tmp_path, (FROZEN,), (20, 10, 20))

    with drains(slurm, patience_s=0), run.start() as process:
        wait_until(lambda: run.ended)
        slurm.run("scontrol", "update", f"nodename={NODE}", "state=resume")
        assert process.wait(120) == 1
    (trial,) = run.trials()
    assert value(trial.detect_s) < DETECT_S
    assert value(trial.stays_out) is False
    melt(slurm)


@pytest.mark.parametrize("moment", ["trial", "arm", "inject"])
def test_a_killed_controller_leaves_nothing_broken(slurm: Slurm, tmp_path: Path, moment: str) -> None:
    """After SIGKILL the dead-man mends the node at its time, and the recording tells how far it came."""
    run = Breaking(slurm, tmp_path, (FROZEN,), (4, 4, 60))
    with run.start() as process:
        wait_until(lambda: run.has(moment))
        run.kill(process)
    wait_until(lambda: whole(slurm))
    (trial,) = run.trials()
    assert isinstance(trial.end, Unread)
    assert "job" in run.clean()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_undoes_at_once(slurm: Slurm, tmp_path: Path, number: int) -> None:
    """Ctrl-C and SIGTERM in the middle of a trial end it with its undo, and the results are written."""
    run = Breaking(slurm, tmp_path, (FROZEN,), (60, 20, 60))
    with run.start() as process:
        wait_until(lambda: run.has("inject"))
        run.signal(number)
        assert process.wait(120) != 0
    (trial,) = run.trials()
    assert end(trial) == "undone"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--allow=load"], "needs --allow=break"),
        (["--ticket="], "no ticket is named"),
        (["--window=2020-01-01T00:00Z/2020-01-02T00:00Z"], "is outside the window"),
        (["--break-nodes=login"], "login is no compute node of this cluster"),
    ],
)
def test_without_consent_nothing_is_touched(
    slurm: Slurm, tmp_path: Path, options: list[str], why: str
) -> None:
    """Each thing that was not agreed is named, and no node is touched for it."""
    run = Breaking(slurm, tmp_path, (FROZEN,), (4, 4, 60))
    with run.start(*options) as process:
        assert process.wait(60) == 0
    assert not run.trials()
    junit = (run.run_dir / "junit.xml").read_text(encoding="utf-8")
    assert why in junit


@pytest.mark.parametrize("daemon", ["etcd", "nfsd", "slurmctld"])
def test_a_node_on_which_others_depend_is_not_touched(slurm: Slurm, tmp_path: Path, daemon: str) -> None:
    """One that serves storage or the control plane is refused before a dead-man is left there."""
    start_gpud(slurm, daemon)
    try:
        run = Breaking(slurm, tmp_path, (FROZEN,), (4, 6, 60))
        with run.start() as process:
            process.wait(60)
        (trial,) = run.trials()
        assert isinstance(trial.end, Unread)
        assert f"other nodes depend on this one: it runs {daemon}" in trial.end.why
        assert run.story() == "trial plan end"
    finally:
        slurm.rack[NODE].run("pkill", "-x", daemon)


def test_a_node_that_others_use_is_not_touched(slurm: Slurm, tmp_path: Path) -> None:
    """A node on which somebody's job runs cannot be held whole, and nothing is broken there."""
    slurm.occupy("n3")
    run = Breaking(slurm, tmp_path, (FROZEN,), (4, 4, 60))
    with run.start("--break-nodes=n3") as process:
        assert process.wait(60) == 0
    assert not run.trials()
    assert "not ours alone" in (run.run_dir / "junit.xml").read_text(encoding="utf-8")


def test_a_second_fault_in_the_cluster_is_refused(slurm: Slurm, tmp_path: Path) -> None:
    """While any run of ours holds a node to break something, no other node may be broken."""
    job = slurm.run(
        "sbatch",
        "--nodelist=n1",
        "--job-name=gpuassay-break-other",
        "--output=/dev/null",
        "--wrap",
        "sleep 600",
    ).stdout
    try:
        run = Breaking(slurm, tmp_path, (FROZEN,), (4, 4, 60))
        with run.start() as process:
            assert process.wait(60) == 0
        assert not run.trials()
        assert "only one fault at a time" in (run.run_dir / "junit.xml").read_text(encoding="utf-8")
    finally:
        slurm.run("scancel", job.split()[-1])
