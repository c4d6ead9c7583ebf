"""A burn-in where a scheduler bounds its jobs: segments that fit, said as such, or a word that none does."""

from __future__ import annotations

import json
import math
import time
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.evidence.item import Item
from gpuassay.gathering import bounder
from gpuassay.judge.site import undeclared
from gpuassay.session import Request
from gpuassay.target import Bound, Job, TargetError
from test_burn_in import CATALOG, value
from test_burn_in_cut import Played, journal
from test_target_slurm_plan import planner

if TYPE_CHECKING:
    from pathlib import Path

    from gpuassay.target import Results

_WHY = "partition batch allows 5 min to a job"


class Bounded(Played):
    """A burn-in that is played, whose jobs may take so long."""

    def __init__(self, folder: Path, seconds: float, bound: Bound) -> None:
        super().__init__(folder, seconds)
        self.bound, self.jobs = bound, list[Job]()

    def go(self) -> list[dict[str, Any]]:
        """Burn in to its end; gives what each job's ranks were ordered to do."""
        self.burning.go(self.ordered, 600.0, lambda nodes: self.bound if nodes == ("n1",) else Bound())
        return [_order(job) for job in self.jobs]

    def ordered(self, job: Job) -> Results:
        """Be under load for as long as was ordered."""
        self.jobs.append(job)
        beats = math.ceil(_order(job)["seconds"] / 10)
        at = 1_796_112_000.0 + 3600 * len(self.jobs)
        return {("n1", local): Item("rank", 1, out=journal(at, beats, {})) for local in (0, 1)}


def _order(job: Job) -> dict[str, Any]:
    """Unpack what a job's ranks are ordered to do."""
    packed: dict[str, Any] = json.loads(zlib.decompress(job.feed.partition(b"\n")[2]))
    order: dict[str, Any] = packed["arguments"][0]
    return order


def test_segments_are_as_short_as_jobs_have_to_be(tmp_path: Path) -> None:
    """Each job stays within the bound, its ranks end by themselves before, and the record says why."""
    played = Bounded(tmp_path, 300.0, Bound(240.0, _WHY))
    orders = played.go()

    assert len(orders) == 3
    assert [job.deadline_s for job in played.jobs] == [240.0] * 3
    assert {order["within"] for order in orders} == {131.0}, "60 s to start, 34 s for a hang, 15 s to end"
    assert [order["called"] for order in orders[:1]] == [f"segment 1, at most 131 s: {_WHY}"]
    asked = [item.asked for item in played.recorded()]
    assert all((one["within"], one["because"]) == (131.0, _WHY) for one in asked)
    assert value(played.read().whole) is True


def test_a_bound_that_is_long_enough_changes_nothing(tmp_path: Path) -> None:
    """A job may take a day: the segment, its deadline and the record are as if nobody bounded it."""
    played = Bounded(tmp_path, 300.0, Bound(86_400.0, _WHY))
    (order,) = played.go()

    assert (order["seconds"], order["within"], order["called"]) == (300.0, None, "segment 1")
    assert [job.deadline_s for job in played.jobs] == [900.0 + 2 * 300.0]
    assert "because" not in played.recorded()[0].asked


def test_a_bound_that_is_too_short_is_said_before_anything_runs(tmp_path: Path) -> None:
    """By whom it is bounded, how much is missing, and what to do; nothing is recorded."""
    played = Bounded(tmp_path, 300.0, Bound(90.0, _WHY))
    with pytest.raises(TargetError, match=f"{_WHY}, and a segment of the burn-in needs 1 min more"):
        played.go()
    assert (played.jobs, played.recorded()) == ([], [])


@pytest.mark.parametrize(
    ("words", "bound"),
    [
        ({}, Bound(3540.0, "partition batch allows 60 min to a job")),
        ({"partition": "long", "partitions": "long"}, Bound()),
        ({"time_limit_s": 1200.0}, Bound(1140.0, "[slurm] time_limit of the site file is 20 min")),
        ({"time_limit_s": 7200.0}, Bound(3540.0, "partition batch allows 60 min to a job")),
        ({"partitions": "off"}, Bound()),
    ],
)
def test_who_bounds_a_job_of_slurm(words: dict[str, Any], bound: Bound) -> None:
    """The partition, or the site file where that is shorter; nobody where there is no limit, or no way."""
    assert planner(**words).bound(["n1"]) == bound


def test_the_budget_bounds_it_too(tmp_path: Path) -> None:
    """What is left of it counts where nobody else bounds a job, and says so."""
    request = Request(root=tmp_path, until=time.monotonic() + 600)
    bound = bounder(request, undeclared(CATALOG))(["n1"])

    assert 500 < bound.seconds <= 600
    assert bound.why.endswith("min are left of the budget")
