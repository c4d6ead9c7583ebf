"""Ten minutes of burn-in on processors: products and gloo's all-to-all, four ranks over a real Slurm."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from burning_on_slurm import RANKS, argv, burned, cluster, results, row
from gpuassay.evidence.recording import read_measurement
from nodes import needs
from slurmd import needs_slurm

if TYPE_CHECKING:
    from pathlib import Path

    from gpuassay.evidence.item import Item

LENGTH = os.environ.get("GPUASSAY_BURN_IN", "10m")
pytestmark = [needs("nsenter", "ip"), needs_slurm(), pytest.mark.timeout(3600)]
pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")


def test_ten_minutes_of_burn_in_find_nothing_where_nothing_was_planted(tmp_path: Path) -> None:
    """Every rank alive, every bit right, both at once; the whole of it, and nothing is left behind."""
    with cluster(tmp_path) as slurm:
        found = burned(tmp_path, slurm, LENGTH, {})
        slurm.assert_nothing_runs()

    for check in ("alive", "bits", "restarts"):
        assert found["checks"][f"reliability.burn_in.{check}"]["verdict"] == "pass", check
    assert row(found, "length", "whole", "")["value"] is True
    for where in RANKS:
        assert row(found, "overlap", "both_share", where)["value"] > 0.8
    print(json.dumps(_figures(found), indent=1))


def test_segments_fit_into_what_a_partition_allows(tmp_path: Path) -> None:
    """Jobs of four minutes at most: several segments, all of it in the end, and each says why it is short."""
    with cluster(tmp_path, limit="4") as slurm:
        found = burned(tmp_path, slurm, "80s", {})
        slurm.assert_nothing_runs()

    asked = [item.asked for item in _recorded(tmp_path)]
    assert {one["segment"] for one in asked} > {1}
    assert {one["because"] for one in asked} == {"partition batch allows 4 min to a job"}
    assert row(found, "length", "whole", "")["value"] is True
    assert found["checks"]["reliability.burn_in.alive"]["verdict"] == "pass"


def test_segments_fit_into_what_is_left_of_an_allocation(tmp_path: Path) -> None:
    """Within a job of somebody's own: a segment is as short as what is left of that, and says so."""
    with cluster(tmp_path) as slurm:
        inside = ["salloc", "--nodes=2", "--exclusive", "--time=5", "--gres=gpu:8", "--quiet"]
        words = argv(tmp_path, "80s", f"--run-dir={tmp_path / 'run'}")
        done = slurm.rack["login"].run(*inside, *words, env=slurm.environment, check=False)
        assert (tmp_path / "run" / "results.json").exists(), done.stdout + done.stderr
        slurm.assert_nothing_runs()

    found, reasons = results(tmp_path), {item.asked["because"] for item in _recorded(tmp_path)}
    assert reasons
    assert all("min are left of job " in why for why in reasons)
    assert row(found, "length", "whole", "")["value"] is True


def test_a_limit_in_which_nothing_useful_fits_is_said(tmp_path: Path) -> None:
    """Nothing runs, and the reason names the partition and how much is missing."""
    with cluster(tmp_path, limit="2") as slurm:
        found = burned(tmp_path, slurm, "80s", {})
        slurm.assert_nothing_runs()

    told = found["checks"]["reliability.burn_in.alive"]
    assert told["verdict"] == "not_run"
    assert "partition batch allows 2 min to a job, and a segment of the burn-in needs" in told["reason"]
    assert not (tmp_path / "run" / "recording" / "measure").exists()


def _recorded(folder: Path) -> list[Item]:
    """Give what is recorded of all ranks in all segments."""
    found = read_measurement(folder / "run" / "recording", "burn_in", ["n1", "n2"])
    return [item for own in found.values() for item in own.items]


def _figures(found: dict[str, object]) -> dict[str, dict[str, object]]:
    """Give what was measured of each rank."""
    shown = (("overlap", "both_share"), ("overlap", "efficiency"), ("stragglers", "tflops"))
    shown += (("drift", "products"), ("drift", "exchange"), ("alive", "stall_s"))
    return {
        where: {metric: row(found, check, metric, where)["value"] for check, metric in shown}
        for where in RANKS
    }
