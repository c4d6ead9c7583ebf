"""A burn-in over a real Slurm: a flipped bit, a slow rank, one killed, a cut cable: found and named."""

from __future__ import annotations

import subprocess
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from burning_on_slurm import RANKS, argv, beats_aside, burned, cluster, results, row
from gpuassay.evidence.recording import read_measurement
from gpuassay.measure.work.burn_in import FLIP, SLOW
from nodes import needs
from slurmd import needs_slurm
from slurmdbd import Accounted, needs_accounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from slurmd import Slurm

pytestmark = [needs("nsenter", "ip"), needs_slurm(), pytest.mark.timeout(300)]
pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")

_PATIENCE_S = 90.0


def test_a_flipped_bit_and_a_slow_rank_are_named_and_nobody_else_is(tmp_path: Path) -> None:
    """One rank of four has a bit flipped, another waits before each product."""
    with cluster(tmp_path) as slurm:
        found = burned(tmp_path, slurm, "5s", {FLIP: "1:1", SLOW: "2:0.02"})
        slurm.assert_nothing_runs()

    assert found["checks"]["reliability.burn_in.bits"]["verdict"] == "fail"
    ill = row(found, "bits", "wrong_tiles", "n1/cpu1")
    assert (ill["value"], ill["verdict"]) == (1, "fail")
    assert "right each time when computed again alone" in ill["reason"]
    assert row(found, "bits", "wrong_tiles", "n2/cpu0")["verdict"] == "pass"
    speeds = {where: row(found, "stragglers", "tflops", where)["value"] for where in RANKS}
    assert min(speeds, key=lambda where: speeds[where]) == "n2/cpu0"
    assert found["checks"]["reliability.burn_in.alive"]["verdict"] == "pass"


@needs_accounts()
def test_a_qos_cuts_it_into_segments_that_slurm_lets_run(tmp_path: Path) -> None:
    """A job that asks for more than MaxWall waits for ever in Slurm; so none does, and it is said why."""
    with cluster(tmp_path, partial(Accounted, enforced="associations,limits,qos")) as slurm:
        slurm.run("sacctmgr", "-i", "modify", "qos", "normal", "set", "MaxWall=4")
        slurm.run("sacctmgr", "-i", "add", "qos", "long")
        slurm.run("sacctmgr", "-i", "modify", "user", "root", "set", "qos=normal,long")
        site = tmp_path / "site.toml"
        site.write_text(site.read_text() + 'qos = "normal"\n')
        found = burned(tmp_path, slurm, "45s", {})
        slurm.assert_nothing_runs()

    assert found["checks"]["reliability.burn_in.alive"]["verdict"] == "pass"
    items = read_measurement(tmp_path / "run" / "recording", "burn_in", ["n1"])["n1"].items
    assert {item.asked["segment"] for item in items} == {1, 2}
    assert {item.asked["because"] for item in items} == {
        'MaxWall (QOS normal) allows 4 min to a job (with [slurm] qos = "long": any time)'
    }


@contextmanager
def burning(folder: Path, slurm: Slurm) -> Iterator[subprocess.Popen[bytes]]:
    """Begin a burn-in that nobody will wait for, and give it once a beat of each rank was heard of."""
    words = argv(folder, "120s", f"--run-dir={folder / 'run'}")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = slurm.rack["login"].start(*words, env=slurm.environment, **quiet)
    try:
        until = time.monotonic() + _PATIENCE_S
        while not beats_aside(folder / "run"):
            assert time.monotonic() < until, "no beat was heard of"
            time.sleep(0.2)
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def lost(folder: Path, spoil: Callable[[Slurm], object]) -> dict[str, Any]:
    """Burn in, do one thing once it burns, and wait for the end; gives the results."""
    with cluster(folder) as slurm, burning(folder, slurm) as process:
        spoil(slurm)
        process.wait(timeout=250)
        return results(folder)


def test_a_killed_rank_is_named_with_its_last_beat(tmp_path: Path) -> None:
    """By kill -9, on one node; the ranks of the other stopped with it, and are not accused."""

    def kill(slurm: Slurm) -> None:
        ranks = [pid for pid, args in slurm.started("n2").items() if "exec(sys.stdin" in args]
        slurm.rack["n2"].run("kill", "-9", str(max(ranks)))

    found = lost(tmp_path, kill)

    assert found["checks"]["reliability.burn_in.alive"]["verdict"] == "fail"
    (ill,) = (
        each
        for each in found["checks"]["reliability.burn_in.alive"]["observations"]
        if each["metric"] == "alive" and each["verdict"] == "fail"
    )
    assert ill["where"] in ("n2/cpu0", "n2/cpu1")
    assert "last heard of at" in ill["reason"]
    assert "killed by SIGKILL" in ill["reason"]


def test_a_cut_cable_loses_the_ranks_of_that_node_and_no_other(tmp_path: Path) -> None:
    """What they had said until then is kept, for it was sent on while they ran."""
    found = lost(tmp_path, lambda slurm: slurm.rack["n2"].pull_cable())

    for where in ("n2/cpu0", "n2/cpu1"):
        ill = row(found, "alive", "alive", where)
        assert ill["verdict"] == "fail"
        assert "last heard of at beat" in ill["reason"]
    for where in ("n1/cpu0", "n1/cpu1"):
        assert row(found, "alive", "alive", where)["verdict"] == "pass"
