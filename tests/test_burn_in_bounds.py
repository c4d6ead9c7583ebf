"""A burn-in where a scheduler bounds its jobs: segments that fit, said as such, or a word that none does."""

from __future__ import annotations

import json
import math
import time
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from facts_evidence import absent, evidence
from gpuassay.evidence.item import Item
from gpuassay.facts.slurm import CONFIG, PARTITIONS, Slurm
from gpuassay.facts.slurm_limits import ACCOUNTS, OWN, OWN_COLUMNS, QOS, QOS_COLUMNS, Limits
from gpuassay.gathering import bounder
from gpuassay.judge.site import undeclared
from gpuassay.session import Request
from gpuassay.target import Bound, Job, TargetError
from test_burn_in import CATALOG, value
from test_burn_in_cut import Played, journal
from test_facts_slurm_limits import table
from test_target_slurm_plan import PARTITIONS as BATCHES
from test_target_slurm_plan import planner

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpuassay.target import Results
    from gpuassay.target.slurm_plan import Planner

TEAM = {"Account": "team", "QOS": "normal,brief,over"}
NORMAL = {"Name": "normal"}
BRIEF = {"Name": "brief", "MaxWall": "00:10:00"}
OVER = {"Name": "over", "MaxWall": "02:00:00", "Flags": "DenyOnLimit,PartitionTimeLimit"}
_UNSEEN = "partition batch allows 60 min to a job (what accounts and QOSes allow was not seen"
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


def limited(
    *rows: Mapping[str, str],
    own: tuple[Mapping[str, str], ...] = (TEAM,),
    enforce: str = "associations,limits,qos",
    **words: Any,
) -> Planner:
    """Plan for a user with these associations, where these are the QOSes; or what is ``lost``."""
    seen = {
        CONFIG: f"AccountingStorageEnforce = {enforce}\n",
        PARTITIONS: BATCHES,
        OWN: table(OWN_COLUMNS, *own),
        ACCOUNTS: table(OWN_COLUMNS, *({**row, "QOS": ""} for row in own)),
        QOS: words.pop("lost", table(QOS_COLUMNS, *rows)),
    }
    said = evidence(seen)
    return replace(planner(**words), limits=Limits(Slurm(said), said))


@pytest.mark.parametrize(
    ("words", "minutes", "why"),
    [
        (
            {},
            10,
            'MaxWall (QOS brief) allows 10 min to a job (with [slurm] qos = "over": 120 min)',
        ),
        (
            {"qos": "normal"},
            60,
            'partition batch allows 60 min to a job (with [slurm] qos = "over": 120 min)',
        ),
        ({"qos": "over"}, 120, "MaxWall (QOS over) allows 120 min to a job"),
        ({"qos": "over", "time_limit_s": 5400.0}, 90, "[slurm] time_limit of the site file is 90 min"),
        ({"enforce": "associations,qos"}, 60, "partition batch allows 60 min to a job"),
        ({"enforce": "all,nolimits"}, 60, "partition batch allows 60 min to a job"),
        ({"account": "another"}, 60, "partition batch allows 60 min to a job"),
        (
            {"lost": absent("failed", "sacctmgr ended with 1")},
            60,
            f"{_UNSEEN}: sacctmgr ended with 1)",
        ),
        (
            {"lost": "what?", "enforce": "safe"},
            60,
            f"{_UNSEEN}: slurm/qos is no table: what?)",
        ),
    ],
)
def test_qos_and_account_bound_a_job_of_slurm(words: dict[str, Any], minutes: int, why: str) -> None:
    """The shortest of what Slurm may choose counts, where limits hold; what would allow longer is named."""
    assert limited(NORMAL, BRIEF, OVER, **words).bound(["n1"]) == Bound(minutes * 60.0 - 60.0, why)


def test_a_limit_of_an_association_bounds_a_job_too() -> None:
    """Unless a QOS comes before it; that for the partition alone goes before that for the whole account."""
    own = {**TEAM, "QOS": "normal", "MaxWall": "00:20:00"}
    here = {**own, "Partition": "batch", "MaxWall": "00:40:00"}
    other = {**own, "Account": "other", "MaxWall": "1-00:00:00"}

    assert limited(NORMAL, own=(own,)).bound(["n1"]).why == (
        "MaxWall (account team, this user) allows 20 min to a job"
    )
    assert limited(NORMAL, own=(own, here)).bound(["n1"]).seconds == 2340.0
    assert limited({**NORMAL, "MaxWall": "00:50:00"}, own=(own,)).bound(["n1"]).seconds == 2940.0
    assert (
        limited(NORMAL, own=(own, other))
        .bound(["n1"])
        .why.endswith('20 min to a job (with [slurm] account = "other": 60 min)')
    )


def test_a_partition_without_a_limit_and_a_qos_without_one() -> None:
    """Nobody bounds the job; beside a QOS that does, the one without is named. Rubbish is no limit."""
    words = {"partition": "long", "partitions": "long"}
    assert limited(NORMAL, OVER, own=({**TEAM, "QOS": "normal"},), **words).bound(["n1"]) == Bound()
    assert limited({**NORMAL, "MaxWall": "soon"}, own=({**TEAM, "QOS": "normal"},), **words).bound(
        ["n1"]
    ) == (Bound())
    assert (
        limited(NORMAL, BRIEF, own=({**TEAM, "QOS": "normal,brief"},), **words)
        .bound(["n1"])
        .why.endswith('10 min to a job (with [slurm] qos = "normal": any time)')
    )


def test_a_job_is_refused_only_where_no_choice_allows_it() -> None:
    """What Slurm will choose is not known: a short QOS beside others refuses nothing; alone it does.

    A QOS that goes over the partition counts once the site file names it.
    """
    assert "--time=52" in limited(NORMAL, BRIEF).together(["n1"], 3060.0)[0]
    with pytest.raises(TargetError, match=r"given 10, which is all that MaxWall \(QOS brief\) allows"):
        limited(NORMAL, BRIEF, qos="brief").together(["n1"], 3060.0)
    with pytest.raises(TargetError, match="given 60, which is all that partition batch allows"):
        limited(NORMAL, OVER).together(["n1"], 5400.0)
    assert "--time=91" in limited(NORMAL, OVER, qos="over").together(["n1"], 5400.0)[0]


def test_the_budget_bounds_it_too(tmp_path: Path) -> None:
    """What is left of it counts where nobody else bounds a job, and says so."""
    request = Request(root=tmp_path, until=time.monotonic() + 600)
    bound = bounder(request, undeclared(CATALOG))(["n1"])

    assert 500 < bound.seconds <= 600
    assert bound.why.endswith("min are left of the budget")
