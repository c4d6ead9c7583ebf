"""How each node of a Slurm is asked, decided from what Slurm says."""

from __future__ import annotations

import math
from typing import Any

import pytest

from facts_evidence import evidence
from gpuassay.facts.slurm import Slurm
from gpuassay.judge.reach import SlurmReach
from gpuassay.target import TargetError
from gpuassay.target.channel import Ending
from gpuassay.target.slurm import worded
from gpuassay.target.slurm_plan import Allocation, Planner, Refusal, Visit

PARTITIONS = """\
PartitionName=batch Default=YES MaxTime=1:00:00 RootOnly=NO OverSubscribe=NO State=UP

PartitionName=long MaxTime=UNLIMITED RootOnly=NO OverSubscribe=NO State=UP

PartitionName=short MaxTime=00:05:00 RootOnly=NO OverSubscribe=EXCLUSIVE State=UP

PartitionName=admin MaxTime=UNLIMITED RootOnly=YES State=UP

PartitionName=off MaxTime=UNLIMITED State=INACTIVE
"""


NO_PLACE = "srun: error: Unable to allocate resources: Requested nodes are busy"
USUAL = {
    "partitions": "batch",
    "gres": "gpu:h200:8(S:0-1)",
    "used": "",
    "config": "",
    "jobs": "12 n1\n7 n[1-2]\n",
    "allocation": None,
}


def planner(state: str = "IDLE", **words: Any) -> Planner:
    """Plan for a Slurm with one node, n1: ``words`` change what is usual there, or in the site file."""
    said = USUAL | {name: words.pop(name) for name in USUAL if name in words}
    where = f"Partitions={said['partitions']} \n   Gres={said['gres']}\n   GresUsed={said['used']}\n"
    node = f"NodeName=n1 NodeHostName=h1 State={state} {where}"
    items = {"nodes": node, "partitions": PARTITIONS, "config": said["config"], "jobs": said["jobs"]}
    slurm = Slurm(evidence({f"slurm/{name}": text for name, text in items.items()}))
    return Planner(slurm, SlurmReach(**words), 900.0, "gpuassay-x", said["allocation"])


def visit(plan: Planner) -> Visit:
    """Plan for the node, which must be asked."""
    planned = plan.plan("n1")
    assert isinstance(planned, Visit), planned
    return planned


def refusal(plan: Planner, node: str = "n1") -> tuple[str, str]:
    """Plan for a node that must not be asked."""
    planned = plan.plan(node)
    assert isinstance(planned, Refusal), planned
    return planned.status, planned.why


def test_a_free_node() -> None:
    """It is asked as a whole, with all its GPUs, in bounded time, as the site file wants it."""
    found = visit(planner(account="a", qos="q", reservation="r", constraint="c", arguments=("--comment=x",)))
    assert set(found.options) == {
        *("--nodes=1", "--ntasks=1", "--nodelist=n1", "--exclusive", "--no-kill", "--mpi=none"),
        *("--gres=gpu:8", "--job-name=gpuassay-x", "--immediate=30", "--time=16", "--partition=batch"),
        *("--account=a", "--qos=q", "--reservation=r", "--constraint=c", "--comment=x"),
    }
    assert (found.limit_s, found.blind) == (960.0, "")


def test_a_node_without_gpus_in_slurm() -> None:
    """Where Slurm manages no GPU it is asked for none, and what is seen is believed."""
    found = visit(planner(gres="(null)"))
    assert not any(option.startswith("--gres") for option in found.options)
    assert found.blind == ""


def test_a_busy_node() -> None:
    """Beside a job it is asked for little and no GPU; where there is no room it is not asked."""
    found = visit(planner("MIXED", used="gpu:h200:2(IDX:0-1)"))
    assert found.blind == "busy: held by job 7, 12"
    assert not any(option.startswith(("--gres", "--exclusive")) for option in found.options)
    assert refusal(planner("ALLOCATED")) == ("denied", "busy: held by job 7, 12")
    assert refusal(planner("MIXED", partitions="short")) == ("denied", "busy: held by job 7, 12")


def test_a_busy_node_whose_gpus_are_idle() -> None:
    """Beside a job that holds none of its GPUs it is given all; where that is not said, none."""
    found = visit(planner("MIXED", used="gpu:h200:0(IDX:N/A)"))
    assert found.blind == ""
    assert {"--gres=gpu:8", "--cpus-per-task=1"} <= {*found.options}
    assert "--exclusive" not in found.options
    assert visit(planner("MIXED")).blind == "busy: held by job 7, 12"
    whole = planner("MIXED", used="gpu:h200:0(IDX:N/A)").whole("n1")
    assert whole == Refusal("n1", "denied", "busy: held by job 7, 12")


def test_a_busy_node_whose_jobs_are_hidden() -> None:
    """It is said that they are."""
    hidden = planner("ALLOCATED", config="PrivateData = jobs\n", jobs="")
    assert refusal(hidden)[1].endswith("its jobs are not shown to us (PrivateData=jobs)")


@pytest.mark.parametrize(
    ("state", "status", "words"),
    [
        ("IDLE+DRAIN", "denied", "Slurm says IDLE+DRAIN"),
        ("DOWN*", "failed", "Slurm says DOWN+NOT_RESPONDING"),
        ("UNKNOWN", "failed", "Slurm says UNKNOWN"),
        ("INVAL", "failed", "Slurm says IDLE+INVALID_REG"),
        ("IDLE+POWERED_DOWN", "denied", "asking would start it"),
        ("IDLE+MAINTENANCE", "denied", "[slurm] reservation"),
    ],
)
def test_nodes_that_are_not_asked(state: str, status: str, words: str) -> None:
    """Each has the reason, in Slurm's words."""
    told, why = refusal(planner(state))
    assert told == status
    assert words in why


def test_a_reservation() -> None:
    """With its name, the nodes that are held for it are asked."""
    assert "--reservation=audit" in visit(planner("IDLE+RESERVED", reservation="audit")).options


def test_a_node_that_slurm_does_not_list() -> None:
    """It is not found, unless Slurm hides nodes."""
    assert refusal(planner(), "n9")[0] == "not_found"
    assert refusal(planner(config="PrivateData = nodes,jobs\n"), "n9")[0] == "denied"
    assert isinstance(planner().plan("h1"), Visit)


@pytest.mark.parametrize(
    ("partitions", "wanted", "taken"),
    [
        ("short,batch,long", "", "batch"),
        ("short,long,off", "", "long"),
        ("admin,short", "", "short"),
        ("short,batch", "short", "short"),
        ("short,batch", "long,short", "short"),
    ],
)
def test_partitions(partitions: str, wanted: str, taken: str) -> None:
    """The site file's, else the default, else the one with the most time; never one that is closed."""
    assert f"--partition={taken}" in visit(planner(partitions=partitions, partition=wanted)).options


@pytest.mark.parametrize(
    ("partitions", "wanted", "words"),
    [
        ("off", "", "no partition leads to it: off is INACTIVE"),
        ("admin", "", "no partition leads to it: admin is UP"),
        ("batch", "long", "it is not in partition long, which the site file names"),
        ("hidden", "", "it is in no partition that is shown to us"),
    ],
)
def test_no_partition(partitions: str, wanted: str, words: str) -> None:
    """Where none leads to a node, it is said which do not."""
    status, why = refusal(planner(partitions=partitions, partition=wanted))
    assert status == "failed"
    assert words in why


def test_a_partition_with_little_time() -> None:
    """The job asks for what it may have, we wait no longer, and the plan says so."""
    found = visit(planner(partitions="short"))
    assert "--time=5" in found.options
    assert found.limit_s == 300.0
    assert found.how.endswith("at most 5 min, which is all that partition short allows")


@pytest.mark.parametrize(
    ("held", "gres", "blind"),
    [
        (8, ["--gres=gpu:8"], ""),
        (4, ["--gres=gpu:4"], "job 5 holds 4 of its 8 GPUs"),
        (0, [], "job 5 holds none of its 8 GPUs"),
    ],
)
def test_a_step(held: int, gres: list[str], blind: str) -> None:
    """In a job it is asked with what that holds; GPUs that it does not hold are not missing."""
    found = visit(planner("ALLOCATED", allocation=Allocation("5", {"n1": held})))
    assert [option for option in found.options if option.startswith("--gres")] == gres
    assert {"--jobid=5", "--overlap", "--no-kill"} <= {*found.options}
    assert (found.blind, found.limit_s) == (blind, math.inf)


def test_outside_the_allocation() -> None:
    """A node that the job does not hold was not asked; a drained one is drained also within."""
    elsewhere = planner(allocation=Allocation("5", {"n2": 8}))
    assert refusal(elsewhere) == ("failed", "it was not asked: job 5 does not hold it")
    assert "DRAIN" in refusal(planner("MIXED+DRAIN", allocation=Allocation("5", {"n1": 8})))[1]


def test_a_workload_gets_all_of_a_node_or_nothing() -> None:
    """Beside another job there is no place for it, nor with a part of the GPUs."""
    assert isinstance(planner().whole("n1"), Visit)
    held = planner("ALLOCATED", allocation=Allocation("5", {"n1": 4})).whole("n1")
    assert held == Refusal("n1", "denied", "job 5 holds 4 of its 8 GPUs")
    assert planner("MIXED").whole("n1") == Refusal("n1", "denied", "busy: held by job 7, 12")


def test_a_job_that_may_not_run_so_long() -> None:
    """It is not begun, for it would be cut."""
    words = "may take 15 min, and is given 5, which is all that partition short"
    with pytest.raises(TargetError, match=words):
        planner(partitions="short").together(["n1"], 900.0)


@pytest.mark.parametrize(
    ("said", "status", "why"),
    [
        (
            f"srun: job 3 queued and waiting for resources\n{NO_PLACE}\n",
            "denied",
            f"was given no place in time: {NO_PLACE}",
        ),
        (
            "srun: error: Unable to allocate resources: Invalid account\n",
            "failed",
            "ended early: exit 1: srun: error: Unable to allocate resources: Invalid account",
        ),
        ("python3: not found\n", "failed", "ended early: exit 1"),
    ],
)
def test_what_slurm_complains_of(said: str, status: str, why: str) -> None:
    """No place is no fault of the node; what is wrong with the request is an error, with Slurm's words."""
    ending = worded(Ending("failed", "ended early: exit 1", said))
    assert (ending.status, ending.why) == (status, why)
