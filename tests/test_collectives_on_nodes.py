"""Collectives between real processes of several nodes, by ssh and by Slurm: a slow port, a lost pair."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nodes import Rack, needs
from slurmd import Slurm, needs_slurm
from sshd import Access

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

pytestmark = needs("sshd", "ssh", "ssh-keygen", "tc")
pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")

ROOT = Path(__file__).parents[1]
SLOW = "n2"


@pytest.fixture(scope="module", params=["ssh", pytest.param("slurm", marks=needs_slurm())])
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the checks of collectives on three nodes, of which one sends at 50 Mbit/s, by each target."""
    shape = ["rate", "50mbit", "burst", "64kb", "limit", "16mb"]
    command = ["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", *shape]
    return judged(tmp_path_factory.mktemp("slow"), request.param, lambda rack: rack[SLOW].run(*command))


def judged(folder: Path, target: str, spoil: Callable[[Rack], object]) -> dict[str, Any]:
    """Run the checks on three nodes of a rack after one thing was done to it; gives the results."""
    with Rack(folder, "login", "n1", "n2", "n3") as rack:
        reach, environment = reached(folder, rack, target)
        spoil(rack)
        site = folder / "site.toml"
        site.write_text(
            f'[cluster]\nname = "three"\n[[pool]]\nname = "all"\nnodes = "n[1-3]"\n[{target}]\n{reach}\n'
            f'python = "{sys.executable}"\n'
        )
        run = folder / "run"
        words = [str(ROOT / "tests_perf" / "test_collectives.py"), "-c", str(ROOT / "pyproject.toml")]
        how = [f"--target={target}", f"--site={site}", f"--run-dir={run}", "--allow=load"]
        argv = [sys.executable, "-m", "pytest", *words, *how, "-p", "no:cacheprovider"]
        done = rack["login"].run(*argv, env=environment, check=False)
        assert (run / "results.json").exists(), done.stdout + done.stderr
        found: dict[str, Any] = json.loads((run / "results.json").read_text())
        return found


def reached(folder: Path, rack: Rack, target: str) -> tuple[str, Mapping[str, str]]:
    """Start what leads to the nodes; gives what the site file says of it, and the environment for it."""
    if target == "slurm":
        slurm = Slurm(rack, folder / "slurm", {"batch": "Nodes=n[1-3] Default=YES State=UP"})
        slurm.start()
        return 'wait = "20s"', slurm.environment
    access = Access.create(folder)
    for name in ("n1", "n2", "n3"):
        access.serve(rack[name])
    path = os.pathsep.join(filter(None, sys.path))
    return f'config = "{access.config}"', {**os.environ, "PYTHONPATH": path}


def rows(results: dict[str, Any], check: str, metric: str) -> dict[str, Any]:
    """Give the rows of a metric by place."""
    listed = results["checks"][f"perf.collectives.{check}"]["observations"]
    return {row["where"]: row for row in listed if row["metric"] == metric}


def test_the_slow_node_is_the_one_that_is_slow_with_every_partner(results: dict[str, Any]) -> None:
    """Each node is held to its best partner, so the two others are not spoilt by it."""
    speeds = {where: row["value"] for where, row in rows(results, "rails", "across_gbps").items()}

    assert min(speeds, key=lambda where: speeds[where]) == f"{SLOW}/cpu"
    assert sorted(speeds.values())[1] > 3 * speeds[f"{SLOW}/cpu"]


def test_the_group_that_it_joins_gets_slow_and_names_it(results: dict[str, Any]) -> None:
    """The two fast ones come first; then it is added, and said to be."""
    listed = results["checks"]["perf.collectives.groups"]["observations"]
    shares = {row["at"]["nodes"]: row for row in listed}

    assert shares["2"]["value"] == 1.0
    assert shares["3"]["value"] < 0.5
    assert f"GB/s with {SLOW}" in shares["3"]["reason"]


def test_every_value_came_out_right_and_nothing_hung(results: dict[str, Any]) -> None:
    """Over gloo, on three processes; and what has no accelerator is shown and not judged."""
    assert {row["value"] for row in rows(results, "values", "wrong").values()} == {0}
    assert {row["value"] for row in rows(results, "first_contact", "broken").values()} == {False}
    verdicts = {
        check: found["verdict"] for check, found in results["checks"].items() if "collectives" in check
    }
    assert set(verdicts.values()) == {"skip"}


def test_a_curve_is_drawn_over_all_sizes(results: dict[str, Any]) -> None:
    """From 8 bytes to 16 GiB by name; on a processor the largest are made small."""
    listed = results["checks"]["perf.collectives.sizes"]["observations"]
    sizes = {(row["at"]["collective"], row["at"]["size"]) for row in listed if row["value"]}

    assert len(sizes) == 4 * 12
    assert {"8 B", "16 GiB"} <= {size for _, size in sizes}


# Run on the login node: first contact of three nodes, with a patience of seconds in place of minutes.
CONTACT = """
import json, sys
from pathlib import Path
from types import SimpleNamespace
from gpuassay.judge.catalog import load_catalog
from gpuassay.judge.reach import SshReach
from gpuassay.measure import errand
from gpuassay.measure.collectives import Collectives
from gpuassay.target import Job
from gpuassay.target.progress import Tally
from gpuassay.target.ssh import Ssh
root, config = Path(sys.argv[1]), sys.argv[2]
args = load_catalog(root / "thresholds.toml", root / "advisories.toml").measurements["first_contact"].args
nodes = [SimpleNamespace(name=name, gpus=()) for name in ("n1", "n2", "n3")]
order = Collectives().order({**args, "patience_s": 6}, nodes)
job = Job("contact", errand.ARGV, ("n1", "n2", "n3"), feed=errand.pack(order), deadline_s=100.0)
ssh = Ssh(job.nodes, SshReach(config=config, python=sys.executable))
found = ssh.run(job, Tally(3, lambda _line: None))
print(json.dumps({node: json.loads(item.out) for (node, _), item in found.items()}))
"""


def test_two_nodes_that_cannot_reach_each_other_are_named_and_the_rest_is_let_go(tmp_path: Path) -> None:
    """Each has a way to the first node, so all of them start; the pair without a way is told by its names."""
    with Rack(tmp_path, "login", "n1", "n2", "n3") as rack:
        access = Access.create(tmp_path)
        for name in ("n1", "n2", "n3"):
            access.serve(rack[name])
        rack["n2"].run("ip", "route", "add", "blackhole", f"{rack['n3'].address}/32")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        words = [sys.executable, "-c", CONTACT, str(ROOT), str(access.config)]
        done = rack["login"].run(*words, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)

    broken = told["n2"].get("broken", "") + told["n3"].get("broken", "")
    assert "first contact of n2/0 with n3/0" in broken or "first contact of n3/0 with n2/0" in broken
    assert "first contact of n" in told["n1"]["ended"]
    assert "broken" not in told["n1"]
