"""Who lags is measured once more, alone; the second figure decides, and both are recorded and shown."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.evidence.recording import read_measurement, read_recording
from gpuassay.evidence.sums import write_sums
from gpuassay.facts import fleet
from gpuassay.judge.fact import Read
from gpuassay.judge.robust import deviation
from gpuassay.judge.site import undeclared
from gpuassay.measuring import Measure
from gpuassay.suite import load_suite
from gpuassay.target import TargetError
from recorded import build

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuassay.evidence.item import Item
    from gpuassay.target import Job, Results

ROOT = Path(__file__).parents[1]
NAME = "gemm_bf16"
LAGGING = ("gpu002", 5)


class Cluster:
    """The measured cluster without its figures, on which a job answers as they were, slowed as asked."""

    def __init__(self, folder: Path, slow: Callable[[int, str, int], float]) -> None:
        """Take ``slow``: by how much a rank is slowed, by the number of the job, its node and its rank."""
        self.folder = folder / "recording"
        shutil.copytree(build("hgx-b200-measured"), self.folder)
        shutil.rmtree(self.folder / "measure" / NAME)
        write_sums(self.folder)
        self.slow = slow
        self.jobs: list[tuple[str, tuple[str, ...]]] = []

    def run(self, job: Job) -> Results:
        """Answer a job."""
        self.jobs.append((job.name, job.nodes))
        told = read_measurement(build("hgx-b200-measured"), NAME, job.nodes)
        return {
            (node, rank): slowed(item, self.slow(len(self.jobs), node, rank))
            for node, own in told.items()
            for rank, item in enumerate(own.items)
        }

    def measure(self, *, live: bool = True) -> dict[str, Any]:
        """Give what a check would get, by place."""
        suite = load_suite(ROOT)
        site = undeclared(suite.catalog)
        nodes = fleet(read_recording(self.folder), site).nodes
        run = self.run if live else None
        return {gpu.where: gpu for gpu in Measure(site, nodes, self.folder, run, frozenset({"load"}))(NAME)}


def slowed(item: Item, by: float, **more: object) -> Item:
    """Give what a rank printed, with its times longer by a factor."""
    document = json.loads(item.out)
    for row in document["rows"]:
        row["seconds"] = [by * one for one in row["seconds"]]
        row.update(more)
    return replace(item, out=json.dumps(document).encode() + b"\n")


def lagging(*jobs: int) -> Callable[[int, str, int], float]:
    """Slow one GPU in the jobs of these numbers."""
    return lambda job, node, rank: 1.15 if (node, rank) == LAGGING and job in jobs else 1.0


def test_a_straggler_is_measured_again_and_the_second_figure_decides(tmp_path: Path) -> None:
    """Only its node, alone; a replay of the recording finds the same without running anything."""
    cluster = Cluster(tmp_path, lagging(1))
    found = cluster.measure()

    assert cluster.jobs == [(NAME, ("gpu001", "gpu002")), (f"{NAME}_again", ("gpu002",))]
    again = found["gpu002/gpu5"].tflops
    assert isinstance(again, Read)
    assert again.value == pytest.approx(1450, rel=0.01)
    assert "measured again, its node alone: the first time 12" in again.note
    assert "again" in again.evidence
    assert "again" not in found["gpu001/gpu5"].tflops.note
    assert cluster.measure(live=False)["gpu002/gpu5"].tflops == again
    assert read_recording(cluster.folder).seal == "sealed"


def test_a_straggler_that_lags_twice_is_slow(tmp_path: Path) -> None:
    """And says both figures."""
    found = Cluster(tmp_path, lagging(1, 2)).measure()["gpu002/gpu5"].tflops
    assert isinstance(found, Read)
    assert found.value == pytest.approx(1450 / 1.15, rel=0.01)
    assert found.note.count("12") >= 1


def test_nobody_who_keeps_up_is_measured_again(tmp_path: Path) -> None:
    """A fleet that is slow as a whole has no straggler: its floor is another limit's."""
    cluster = Cluster(tmp_path, lambda *_: 2.0)
    cluster.measure()
    assert len(cluster.jobs) == 1


def test_noise_is_measured_again(tmp_path: Path) -> None:
    """Repeats that lie too far apart are no figure, and one disturbance need not be the end of it."""
    cluster = Cluster(tmp_path, lambda *_: 1.0)
    calm = cluster.run

    def run(job: Job) -> Results:
        results = dict(calm(job))
        if len(cluster.jobs) == 1:
            results["gpu001", 2] = slowed(results["gpu001", 2], 1.0, seconds=[0.01, 0.02, 0.01])
        return results

    cluster.run = run  # type: ignore[method-assign]
    found = cluster.measure()
    assert [name for name, _ in cluster.jobs] == [NAME, f"{NAME}_again"]
    assert "the first time" in found["gpu001/gpu2"].tflops.note


def test_what_was_wrong_at_first_stays_wrong(tmp_path: Path) -> None:
    """A second run that is right takes back no wrong result of the first."""
    cluster = Cluster(tmp_path, lagging(1))
    right = cluster.run

    def run(job: Job) -> Results:
        results = dict(right(job))
        if len(cluster.jobs) == 1:
            results[LAGGING] = slowed(results[LAGGING], 1.15, wrong=7)
        return results

    cluster.run = run  # type: ignore[method-assign]
    wrong = cluster.measure()["gpu002/gpu5"].wrong
    assert isinstance(wrong, Read)
    assert wrong.value > 0


def test_the_first_figures_stand_where_a_second_run_could_not_be_had(tmp_path: Path) -> None:
    """The cluster was given to somebody else meanwhile; a fail is not lost by that."""
    cluster = Cluster(tmp_path, lagging(1))
    first = cluster.run

    def run(job: Job) -> Results:
        if cluster.jobs:
            raise TargetError("no room")
        return first(job)

    cluster.run = run  # type: ignore[method-assign]
    found = cluster.measure()["gpu002/gpu5"].tflops
    assert isinstance(found, Read)
    assert found.value == pytest.approx(1450 / 1.15, rel=0.01)


def test_the_robust_deviation_is_not_moved_by_one_that_lies_far_off() -> None:
    """Of equals it is at least half a percent, or the least difference would be an outlier."""
    assert deviation([100.0, 100.0, 100.0, 10.0]) == pytest.approx(0.5)
    assert deviation([98.0, 99.0, 100.0, 101.0, 102.0]) == pytest.approx(1.4826)
