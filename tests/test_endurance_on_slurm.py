"""Loads that last over a real Slurm of two nodes: each node has its curves."""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from burning_on_slurm import RANKS, ROOT, cluster, results
from nodes import needs
from slurmd import needs_slurm

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [needs("nsenter", "ip"), needs_slurm(), pytest.mark.timeout(300)]
pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")

PREFIX = "reliability.endurance."


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed: apt-get install fio")
def test_fabric_storage_and_checkpoints_are_loaded_from_both_nodes(tmp_path: Path) -> None:
    """Four ranks go round, fio loads a folder from both nodes, writers are killed on both; all is told."""
    mount = tmp_path / "data"
    mount.mkdir()
    with cluster(tmp_path) as slurm:
        with (tmp_path / "site.toml").open("a") as site:
            site.write(f'[[mount]]\npath = "{mount}"\nrole = "scratch"\nshared = true\n')
        words = [str(ROOT / "tests_reliability" / "test_endurance.py"), "-c", str(ROOT / "pyproject.toml")]
        how = ["--target=slurm", f"--site={tmp_path / 'site.toml'}", "--allow=load", "--endurance=12s"]
        more = [f"--run-dir={tmp_path / 'run'}", "--deadline=20s", "-p", "no:cacheprovider"]
        argv = [sys.executable, "-m", "pytest", *words, *how, *more]
        done = slurm.rack["login"].run(*argv, env=slurm.environment, check=False)
        assert (tmp_path / "run" / "results.json").exists(), done.stdout + done.stderr
        slurm.assert_nothing_runs()

    found = results(tmp_path)["checks"]
    alive = found[f"{PREFIX}fabric_alive"]
    assert alive["verdict"] == "pass", json.dumps(alive)
    assert {one["where"] for one in found[f"{PREFIX}fabric_drift"]["series"]} >= set(RANKS)
    assert {one["where"] for one in found[f"{PREFIX}storage_drift"]["series"]} == {
        f"n1{mount}",
        f"n2{mount}",
    }
    for name in ("checkpoint_last_good", "checkpoint_ends"):
        assert found[f"{PREFIX}{name}"]["verdict"] == "pass", json.dumps(found[f"{PREFIX}{name}"])
    assert not list(mount.iterdir())
