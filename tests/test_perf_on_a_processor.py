"""The performance phase on a machine without an accelerator: all of it is real, and none of it is judged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")

ROOT = Path(__file__).parents[1]
# A check of each workload, the cheap ones; `.venv/bin/pytest -m perf --allow=load` runs all of them.
CHEAP = "test_fp32 or test_bandwidth or test_prefill or test_fp8_prefill or test_llama or test_answers"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run them as a user does."""
    if list(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/kfd").exists():
        pytest.skip("this machine has an accelerator")
    run = tmp_path_factory.mktemp("perf") / "run"
    words = ["-m", "perf", "-k", CHEAP, "--allow=load", f"--run-dir={run}", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    argv = [
        sys.executable,
        "-m",
        "pytest",
        str(ROOT / "tests_perf"),
        "-c",
        str(ROOT / "pyproject.toml"),
        *words,
    ]
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads((run / "results.json").read_text())
    return found


def rows(results: dict[str, Any], check: str) -> list[dict[str, Any]]:
    """Give what a check observed."""
    found: list[dict[str, Any]] = results["checks"][f"perf.{check}"]["observations"]
    return found


@pytest.mark.parametrize(
    ("check", "metric"),
    [("gemm.fp32", "tflops"), ("memory.bandwidth", "triad_gbps"), ("grouped_gemm.prefill", "of_dense")],
)
def test_real_numbers_are_shown(results: dict[str, Any], check: str, metric: str) -> None:
    """More than nothing, and right: no element was wrong."""
    shown = [row["value"] for row in rows(results, check) if row["metric"] == metric]
    assert shown
    assert all(value > 0 for value in shown)
    assert {row["value"] for row in rows(results, check) if row["metric"] == "wrong"} == {0}


def test_no_row_is_judged(results: dict[str, Any]) -> None:
    """There is no accelerator, so each is skipped, and says so."""
    ran = [found for found in results["checks"].values() if found["observations"]]
    assert {row["verdict"] for found in ran for row in found["observations"]} == {"skip"}
    assert all("the node shows none" in row["reason"] for found in ran for row in found["observations"])


def test_what_is_not_installed_is_said_with_how_to_get_it(results: dict[str, Any]) -> None:
    """Torchtitan is no part of the tests' environment."""
    reasons = {row["reason"] for row in rows(results, "training.llama")}
    if any(row["value"] for row in rows(results, "training.llama")):
        pytest.skip("torchtitan is installed here")
    assert all("pip install torchtitan==0.3.0" in reason for reason in reasons)


def test_an_endpoint_that_is_not_declared_is_not_asked(results: dict[str, Any]) -> None:
    """It is skipped on this ground."""
    found = results["checks"]["perf.inference.answers"]
    assert (found["verdict"], found["observations"]) == ("skip", [])
    assert "inference" in found["reason"]


def test_the_tier_is_unavailable(results: dict[str, Any]) -> None:
    """Numbers of a processor win nothing."""
    assert results["tier"]["state"] == "unavailable"
    assert results["tier"]["won"] is None
