"""A storm of jobs on a real Slurm that keeps accounts; and what is read where jobs are lost."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.evidence.item import Item
from gpuassay.facts.slurm_churn import JobChurn, StepChurn
from gpuassay.judge.fact import Read, Unread
from kubeapi.rig import Answers
from nodes import Rack
from slurmd import LOGIN
from slurmdbd import Accounted, needs_accounts

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Accounted]:
    """Boot a Slurm of two nodes with accounts."""
    with Rack(tmp_path, LOGIN, "n1", "n2") as rack:
        parts = {"batch": "Nodes=n[1-2] Default=YES MaxTime=1:00:00"}
        cluster = Accounted(rack, tmp_path / "slurm", parts, prolog_s=0)
        cluster.start()
        yield cluster


@needs_accounts()
def test_a_storm_on_a_real_slurm(slurm: Accounted, tmp_path: Path) -> None:
    """All jobs end and are accounted for, all steps end, and nothing is left of either."""
    tables = (ROOT / "thresholds.toml").read_text(encoding="utf-8")
    fewer = tables.replace("jobs = 1000, steps = 50", "jobs = 24, steps = 3")
    assert fewer != tables
    (tmp_path / "thresholds.toml").write_text(fewer, encoding="utf-8")
    suite = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}")
    words = ("--target=slurm", f"--run-dir={tmp_path / 'run'}", "--allow=disrupt")
    checks = (f"{ROOT}/tests_reliability/test_churn.py", f"--thresholds={tmp_path / 'thresholds.toml'}")
    said = slurm.run(*suite, *checks, *words, check=False)
    found: dict[str, Any] = json.loads((tmp_path / "run" / "results.json").read_text())["checks"]
    assert found["reliability.churn.jobs"]["verdict"] == "pass", said.stdout
    assert found["reliability.churn.steps"]["verdict"] == "pass", said.stdout
    rows = {row["metric"]: row for row in found["reliability.churn.jobs"]["observations"]}
    assert rows["lost"]["value"] == 0
    assert rows["unaccounted"]["value"] == 0
    slurm.assert_nothing_runs()


def told(queue: str, accounts: Item) -> JobChurn:
    """Read an array of three jobs."""
    made = Item("array", 1, asked={"jobs": 3}, out=b"7\n")
    return JobChurn(Answers([made, Item("queue", 2, out=queue.encode()), accounts]))


def test_a_job_that_nobody_knows_any_more_is_lost() -> None:
    """It is neither in the queue's memory nor in the accounts; one that failed counts too."""
    accounts = Item("accounts", 3, out=b"7_0|COMPLETED|100|101\n")
    jobs = told("7_0|COMPLETED|100|101\n7_1|NODE_FAIL|100|130\n", accounts)
    assert isinstance(jobs.lost, Read)
    assert jobs.lost.value == 2
    assert jobs.lost.note == "of 3: NODE_FAIL, not known any more"
    assert isinstance(jobs.unaccounted, Read)
    assert jobs.unaccounted.value == 2
    assert isinstance(jobs.start_p99_s, Read)
    assert jobs.start_p99_s.value == 30


def test_a_job_that_the_controller_forgot_is_known_by_the_accounts() -> None:
    """MinJobAge is no loss."""
    accounts = Item("accounts", 3, out=b"7_0|COMPLETED|1|2\n7_1|COMPLETED|1|2\n7_2|COMPLETED|1|2\n")
    jobs = told("7_2|COMPLETED|1|2\n", accounts)
    assert isinstance(jobs.lost, Read)
    assert jobs.lost.value == 0


def test_without_accounts_nothing_is_said_of_them() -> None:
    """Unseen is what cannot be seen."""
    off = Item("accounts", 3, "failed", why="sacct ended with 1: Slurm accounting storage is disabled")
    jobs = told("7_0|COMPLETED|1|2\n7_1|COMPLETED|1|2\n7_2|COMPLETED|1|2\n", off)
    assert isinstance(jobs.unaccounted, Unread)
    assert jobs.unaccounted.kind == "denied"
    assert isinstance(jobs.lost, Read)
    assert jobs.lost.value == 0


def test_steps() -> None:
    """Each line is a step; what is none makes all of it unreadable."""
    out = b"1796025600.1 1796025600.6 0\n1796025601.0 1796025603.0 1\n"
    steps = StepChurn(Answers([Item("steps", 1, out=out)]))
    assert isinstance(steps.failed, Read)
    assert steps.failed.value == 1
    assert isinstance(steps.step_p99_s, Read)
    assert steps.step_p99_s.value == pytest.approx(2.0)
    assert isinstance(StepChurn(Answers([Item("steps", 1, out=b"error\n")])).failed, Unread)
