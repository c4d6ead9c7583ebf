"""The audit of a real Slurm that keeps accounts: what it says of itself, and a job really submitted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nodes import Rack
from slurmd import LOGIN
from slurmdbd import Accounted, needs_accounts

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = needs_accounts()

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Accounted]:
    """Boot a Slurm of two nodes with accounts."""
    folder = tmp_path_factory.mktemp("accounts")
    with Rack(folder, LOGIN, "n1", "n2") as rack:
        cluster = Accounted(rack, folder / "slurm", {"batch": "Nodes=n[1-2] Default=YES MaxTime=1:00:00"})
        cluster.start()
        yield cluster


def audit(slurm: Accounted, run: Path, *words: str) -> dict[str, Any]:
    """Run the checks of Slurm where one logs in, and give the results."""
    suite = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}")
    checks = (f"{ROOT}/tests_audit/test_slurm.py", "-m", "audit")
    slurm.run(*suite, *checks, "--target=slurm", f"--run-dir={run}", *words, check=False)
    found: dict[str, Any] = json.loads((run / "results.json").read_text())["checks"]
    return found


@pytest.fixture(scope="module")
def checks(slurm: Accounted, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Give the results with consent to touch and load."""
    return audit(slurm, tmp_path_factory.mktemp("runs") / "run", "--allow=touch,load")


def verdict(checks: dict[str, Any], name: str) -> str:
    """Give the verdict of a check of Slurm."""
    return str(checks[f"audit.slurm.{name}"]["verdict"])


def rows(checks: dict[str, Any], name: str) -> dict[str, Any]:
    """Give what a check observed, by metric."""
    return {row["metric"]: row["value"] for row in checks[f"audit.slurm.{name}"]["observations"]}


def test_a_job_is_submitted_and_its_record_found(checks: dict[str, Any], slurm: Accounted) -> None:
    """It ran, its exit status came back, and the database has it with its GPU; none of ours is left."""
    assert rows(checks, "job") == {"ran": True, "accounted": True, "exit_kept": True, "gpus_kept": 1}
    assert verdict(checks, "job") == "pass"
    assert slurm.jobs() == []


def test_the_prolog_is_timed_without_the_queue(checks: dict[str, Any]) -> None:
    """The prolog sleeps for two seconds; the place was found by a clock of whole seconds."""
    seconds = rows(checks, "prolog_time")["prolog_s"]

    assert seconds >= 2


def test_a_job_is_told_of_its_gpu_alone(checks: dict[str, Any]) -> None:
    """Slurm names one; device files of GPUs there are none on these nodes, which is no isolation."""
    assert rows(checks, "gpus_of_a_job")["gpus_named"] == 1
    assert verdict(checks, "gpus_of_a_job") == "error"


def test_what_a_real_slurm_says_of_itself_is_read(checks: dict[str, Any]) -> None:
    """We have set it up: without cgroups, with accounts, a topology and a health check."""
    assert verdict(checks, "accounting") == "pass"
    assert verdict(checks, "topology") == "pass"
    assert verdict(checks, "health_check") == "pass"
    assert verdict(checks, "health_check_of_gpus") == "pass"
    assert verdict(checks, "controllers") == "pass"
    assert verdict(checks, "mpi") == "pass"
    assert rows(checks, "gpu_isolation") == {"isolates_gpus": False, "tracks_by": "proctrack/linuxproc"}
    assert verdict(checks, "version") == "warn"  # 22.05, as Debian 12 has it
    assert verdict(checks, "between_jobs") == "warn"


def test_what_a_killed_job_leaves_is_found_and_ended(checks: dict[str, Any], slurm: Accounted) -> None:
    """This Slurm kills by the tree of processes, so that one gets away; it does not outlive the trial."""
    assert rows(checks, "job_hygiene")["left_processes"] == 1
    assert verdict(checks, "job_hygiene") == "fail"
    slurm.assert_nothing_runs()


def test_without_consent_no_job_is_submitted(slurm: Accounted, tmp_path: Path) -> None:
    """The three checks that need one are not run, and say what they need."""
    checks = audit(slurm, tmp_path / "run")

    names = ("job", "gpus_of_a_job", "prolog_time")
    assert {verdict(checks, name) for name in names} == {"not_run"}
    assert {checks[f"audit.slurm.{name}"]["reason"] for name in names} == {"needs --allow=touch"}
