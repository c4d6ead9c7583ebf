"""A burn-in on Kubernetes: a pod on each of two nodes, which meet by the name that the first has there."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from burning_on_slurm import beats_aside, results, row
from gpuassay.judge.names import expand
from gpuassay.measure.work.burn_in import FLIP
from kubeapi import cluster
from kubeapi.rig import IMAGE, clusters
from kubeapi.store import Key
from nodes import Rack, needs
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kubeapi.server import ApiServer

pytestmark = [needs("nsenter", "ip"), pytest.mark.timeout(300)]
pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")

ROOT = Path(__file__).parents[1]
NAMES = ("gpu1", "gpu2")


@dataclass
class Place:
    """Two nodes without GPUs, each a namespace with an address of its own."""

    server: ApiServer
    rack: Rack
    folder: Path

    def start(self, seconds: str) -> subprocess.Popen[bytes]:
        """Start a burn-in with two ranks on each node."""
        config = self.server.kubeconfig(self.folder / "kubeconfig")
        reach = f'[kubernetes]\nkubeconfig = "{config}"\nimage = "{IMAGE}"\nwait = "2s"\n'
        site = f'[cluster]\nname = "two"\n[[pool]]\nnodes = "gpu[1-2]"\nhas = ["kubernetes"]\n{reach}'
        (self.folder / "site.toml").write_text(f'{site}python = "{sys.executable}"\n', encoding="utf-8")
        words = [str(ROOT / "tests_reliability" / "test_burn_in.py"), "-c", str(ROOT / "pyproject.toml")]
        how = ["--target=kubernetes", f"--site={self.folder / 'site.toml'}", "--allow=load", "--deadline=20s"]
        how += [f"--burn-in={seconds}", f"--run-dir={self.folder / 'run'}", "-p", "no:cacheprovider"]
        with (self.folder / "out").open("wb") as out:
            return subprocess.Popen([sys.executable, "-m", "pytest", *words, *how], stdout=out, stderr=out)


@contextmanager
def place(folder: Path, **spoilt: str) -> Iterator[Place]:
    """Start such a cluster, whose pods have these names in their environment."""
    with Rack(folder, *NAMES) as rack, clusters(folder) as start:
        server = start(*(cluster.node(name) for name in NAMES))
        server.kubelet.environment = {**server.kubelet.environment, **spoilt}
        server.kubelet.within = {name: rack[name].argv for name in NAMES}
        server.kubelet.publish = lambda pod, name: rack.alias(rack[pod["spec"]["nodeName"]], name)
        yield Place(server, rack, folder)


def test_a_flipped_bit_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    """Four ranks of two pods burn in together; one of them has a bit flipped."""
    with place(tmp_path, **{FLIP: "1:1"}) as two:
        two.start("5s").wait(timeout=200)
        assert two.server.store.ours() == []
        assert two.server.kubelet.running == []

    found = results(tmp_path)
    ill = row(found, "bits", "wrong_tiles", "gpu1/cpu1")
    assert (ill["value"], ill["verdict"]) == (1, "fail")
    assert row(found, "bits", "wrong_tiles", "gpu2/cpu0")["verdict"] == "pass"
    assert found["checks"]["reliability.burn_in.alive"]["verdict"] == "pass"


@pytest.mark.parametrize("end", ["killed", "evicted"])
def test_lost_ranks_are_named_with_their_last_beat(tmp_path: Path, end: str) -> None:
    """A rank is killed, or its pod deleted by somebody else; those of the other node are not accused."""
    spoils: dict[str, Callable[[Place], object]] = {"killed": kill_a_rank, "evicted": delete_a_pod}
    with place(tmp_path) as two:
        burning = two.start("120s")
        try:
            wait_until(lambda: beats_aside(tmp_path / "run") > 0, "no beat was heard of", 120)
            spoils[end](two)
            burning.wait(timeout=200)
        finally:
            burning.kill()
        assert two.server.store.ours() == []

    alive = results(tmp_path)["checks"]["reliability.burn_in.alive"]
    lost = [one for one in alive["observations"] if one["metric"] == "alive" and one["verdict"] == "fail"]
    assert {place for one in lost for place in expand(one["where"])} <= {"gpu2/cpu0", "gpu2/cpu1"}
    assert lost, alive
    assert all("last heard of at" in one["reason"] for one in lost)


def kill_a_rank(two: Place) -> None:
    """End one of the two ranks of a node, as the kernel does that runs out of memory."""
    node = two.rack["gpu2"]
    ranks = [pid for pid, args in node.processes().items() if "exec(sys.stdin" in args]
    node.run("kill", "-9", str(max(ranks)))


def delete_a_pod(two: Place) -> None:
    """Remove the pod of a node, as ``kubectl drain`` does."""
    (pod,) = (one for one in two.server.store.select("pods") if one["spec"].get("nodeName") == "gpu2")
    key = Key("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
    two.server.kubelet.stop(key)
    two.server.store.remove(key)
