"""What is read from trials with jobs: any bytes give facts or reasons; what did not run passes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from facts_evidence import evidence, unread, value
from gpuassay.evidence.item import Item
from gpuassay.facts.slurm_trial import JobTrial, KilledTrial
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from gpuassay.evidence.item import Status

FACTS = [name for name, made in vars(JobTrial).items() if isinstance(made, property) and name[0] != "_"]
SAID = "began=1796025602.5\njob=7\nnode=n1\nCUDA_VISIBLE_DEVICES=0\ndevice=/dev/nvidia0\nopens=/dev/nvidia0\n"


def job(said: str = SAID, status: Status = "failed", code: int | None = 3, gpus: int = 1) -> Item:
    """Make what came of the job."""
    return Item("job", 0, status, {"gpus": gpus}, code, out=said.encode(), why="srun ended")


def trial(
    first: Item, start: str = "1796025600", record: str = "7|FAILED|3:0|cpu=1,gres/gpu=1\n"
) -> JobTrial:
    """Make a trial."""
    return JobTrial(evidence({"job": first, "start": start, "sacct": record}))


def test_a_job_that_went_well() -> None:
    """Each fact is what was there."""
    found = trial(job())

    assert [value(fact) for fact in (found.ran, found.accounted, found.exit_kept)] == [True] * 3
    assert [value(fact) for fact in (found.gpus_named, found.gpus_open, found.gpus_kept)] == [1] * 3
    assert value(found.prolog_s) == 2.5


def test_the_record_is_that_of_the_job_and_not_of_its_step() -> None:
    """A step has a dot in its number; another job's record is no record of ours."""
    step = "7.0|COMPLETED|0:0|cpu=1,gres/gpu=8\n7|FAILED|3:0|gres/gpu=1,node=1\n"
    assert value(trial(job(), record=step).gpus_kept) == 1
    assert unread(trial(job(), record="8|FAILED|3:0|cpu=1\n").exit_kept).kind == "garbled"
    assert value(trial(job(), record="").accounted) is False


@pytest.mark.parametrize(("status", "code"), [("denied", 1), ("timed_out", None)])
def test_a_job_that_found_no_place_says_nothing(status: Status, code: int | None) -> None:
    """That is nobody's fault, or not known whose: no fact is made of it."""
    found = trial(job("", status, code))

    assert unread(found.ran).kind == status
    assert unread(found.gpus_open).kind == status
    assert unread(found.prolog_s).kind == status


def test_a_job_without_gpus_says_nothing_of_them() -> None:
    """Where Slurm gives out none, none was asked for."""
    found = trial(job(gpus=0))

    assert {unread(fact).kind for fact in (found.gpus_named, found.gpus_open, found.gpus_kept)} == {"denied"}


def test_an_empty_variable_names_no_gpu() -> None:
    """A job that is told of none may use none, or all."""
    assert value(trial(job(SAID.replace("DEVICES=0", "DEVICES="))).gpus_named) == 0


def test_a_killed_job_that_said_nothing_proves_nothing() -> None:
    """Only one that had left its process behind can be looked for."""
    silent = KilledTrial(evidence({"killed": Item("", 0, "failed", exit=1, why="no"), "look": "left=0\n"}))
    heard = KilledTrial(
        evidence({"killed": Item("", 0, "failed", exit=137, out=b"held=no\n"), "look": "left=2\n"})
    )

    ended = KilledTrial(evidence({"killed": Item("", 0, out=b"held=yes\n"), "look": "left=0\n"}))
    assert unread(silent.left_processes).kind == unread(ended.left_processes).kind == "failed"
    assert value(heard.left_processes) == 2
    assert unread(heard.gpu_programs).kind == "denied"


@given(noise=st.binary(max_size=200), code=st.sampled_from([0, 1, 3, None]))
def test_any_bytes_give_facts_or_reasons(noise: bytes, code: int | None) -> None:
    """Noise is no exception, and never a job that ran."""
    assume(b"job=" not in noise)
    first = Item("job", 0, "failed", {}, code, out=noise)
    found = JobTrial(evidence({"job": first, "start": noise, "sacct": noise}))

    for name in FACTS:
        assert isinstance(getattr(found, name), (Read, Unread))
    assert not (isinstance(found.ran, Read) and found.ran.value)
