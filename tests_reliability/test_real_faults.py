"""Real faults: a GPU, a port, a daemon or a file system fails, with a stopwatch on who notices.

None of them needs a declaration: whoever runs nodes has to see them, by whatever means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuassay.fixtures import Measure, Observe


def test_fallen_gpu(measure: Measure, observe: Observe) -> None:
    """A node that loses a GPU is taken out of service within two minutes, and no job is sent there any more.

    The bus of one GPU is reset behind the driver's back: it falls off the bus, as broken ones do (Xid 79).
    Nothing but a restart brings it back, so the node is given up for this.

    Fix: have the tooling that watches nodes drain one that lost a GPU, and restart or replace it.
    """
    for trial in measure("real_xid_79"):
        observe(
            trial,
            detected=trial.detected,
            detect_s=trial.detect_s,
            isolated=trial.isolated,
            isolate_s=trial.isolate_s,
            stays_out=trial.stays_out,
            end=trial.end,
        )


def test_lost_fabric_port(measure: Measure, observe: Observe) -> None:
    """A node whose fabric port goes down is noticed within two minutes.

    Jobs that span nodes hang or end on one such port, and the scheduler by itself sees nothing of it: the
    node answers, and its GPUs are well.

    Fix: have the tooling that watches nodes look at the state of every port of the compute fabric.
    """
    for trial in measure("downed_port"):
        observe(
            trial,
            detected=trial.detected,
            detect_s=trial.detect_s,
            let_in_broken=trial.let_in_broken,
            end=trial.end,
        )


def test_frozen_fabric_manager(measure: Measure, observe: Observe) -> None:
    """A node whose fabric manager hangs is noticed.

    Without it GPUs that were reset do not join the NVLink fabric again, and errors of switches go unanswered.

    Fix: have the tooling that watches nodes ask nvidia-fabricmanager for a sign of life.
    """
    for trial in measure("frozen_fabric_manager"):
        observe(trial, detected=trial.detected, let_in_broken=trial.let_in_broken, end=trial.end)


def test_reset_gpu(measure: Measure, observe: Observe) -> None:
    """A node stays in service when an idle GPU is reset and comes back.

    A reset is the ordinary remedy for many errors; tooling that takes it for a lost GPU costs nodes, and the
    time of whoever looks into them.

    Fix: have the tooling look again after a minute before it drains a node that misses a GPU.
    """
    for trial in measure("reset_gpu"):
        observe(trial, taken_out=trial.taken_out, end=trial.end)


def test_killed_rank(measure: Measure, observe: Observe) -> None:
    """A node stays in service when a process of a job on it is killed.

    Programs run out of memory, crash and are killed all day long. It is the job's loss; tooling that takes
    the node for it makes every bug of a user's a hole in the cluster.

    Fix: have the tooling drain for what the node itself says, and not for how a job's processes end.
    """
    for trial in measure("killed_rank"):
        observe(trial, taken_out=trial.taken_out, end=trial.end)


def test_frozen_rank(measure: Measure, observe: Observe) -> None:
    """A node stays in service when a process of a job on it hangs.

    A rank that waits for another one hangs as well, on a node that is well; the other's node is the one to
    look at, if any.

    Fix: have the tooling drain for what the node itself says, and not for a process that does nothing.
    """
    for trial in measure("frozen_rank"):
        observe(trial, taken_out=trial.taken_out, end=trial.end)


def test_amd_uncorrected_error(measure: Measure, observe: Observe) -> None:
    """A node on which an AMD GPU has an uncorrectable error is taken out of service within two minutes.

    The driver injects the error itself and resets the GPU; whatever ran on it is lost, and what has written
    wrong numbers elsewhere is not told.

    Fix: have the tooling that watches nodes read the RAS counters, and drain on an uncorrectable error.
    """
    for trial in measure("amd_uncorrected"):
        observe(
            trial,
            detected=trial.detected,
            detect_s=trial.detect_s,
            isolated=trial.isolated,
            isolate_s=trial.isolate_s,
            stays_out=trial.stays_out,
            end=trial.end,
        )


def test_full_scratch(measure: Measure, observe: Observe) -> None:
    """A node whose scratch is full is noticed.

    The next job there ends with an error that nobody takes for the node's, and so does the one after it, for
    as long as nobody looks.

    Fix: have the tooling warn of file systems that are nearly full, and clean scratch after each job.
    """
    for trial in measure("full_scratch"):
        observe(trial, detected=trial.detected, let_in_broken=trial.let_in_broken, end=trial.end)


def test_hung_storage(measure: Measure, observe: Observe) -> None:
    """A node on which shared storage hangs is noticed.

    Jobs there neither go on nor end, and what only asks whether something is mounted sees nothing: the mount
    is there, and gives no answer.

    Fix: have the tooling touch each shared file system, with a time limit, and drain where none answers.
    """
    for trial in measure("hung_storage"):
        observe(trial, detected=trial.detected, let_in_broken=trial.let_in_broken, end=trial.end)
