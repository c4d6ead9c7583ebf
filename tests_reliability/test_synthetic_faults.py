"""Faults are told of and not made: in the kernel log and through DCGM, with a stopwatch on who reads there.

No device is touched. What a provider's tooling is said to read stands in the site file, ``[remediation]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuassay.fixtures import Measure, Observe


def test_fallen_gpu_line(measure: Measure, observe: Observe) -> None:
    """A node whose kernel log says that a GPU fell off the bus is taken out of service within two minutes.

    Xid 79 means that a GPU answers no more; only a restart of the node brings it back. The line is ours,
    marked as such, in both forms that readers of the log know.

    Fix: have the tooling that watches nodes drain one whose kernel log shows Xid 79.
    """
    for trial in measure("line_xid_79"):
        observe(
            trial,
            detected=trial.detected,
            detect_s=trial.detect_s,
            isolated=trial.isolated,
            isolate_s=trial.isolate_s,
            end=trial.end,
        )


def test_memory_error_lines(measure: Measure, observe: Observe) -> None:
    """A node whose kernel log tells of memory errors that were not contained is taken out of service.

    After Xid 48 with 95 whatever ran on the GPU may hold wrong numbers, and the GPU has to be reset before
    anybody else gets it.

    Fix: have the tooling that watches nodes drain one whose kernel log shows Xid 48 or 95.
    """
    for trial in measure("line_xid_48_95"):
        observe(
            trial,
            detected=trial.detected,
            detect_s=trial.detect_s,
            isolated=trial.isolated,
            isolate_s=trial.isolate_s,
            end=trial.end,
        )


def test_fatal_switch_line(measure: Measure, observe: Observe) -> None:
    """A node whose kernel log tells of a fatal NVSwitch error is taken out of service within two minutes.

    GPUs behind a switch whose link is lost cannot reach each other: collectives hang or end, on this node and
    on all others of the job.

    Fix: have the tooling that watches nodes read SXids beside Xids, and drain on those that say Fatal.
    """
    for trial in measure("line_sxid_fatal"):
        observe(
            trial,
            detected=trial.detected,
            detect_s=trial.detect_s,
            isolated=trial.isolated,
            isolate_s=trial.isolate_s,
            end=trial.end,
        )


def test_application_error_lines(measure: Measure, observe: Observe) -> None:
    """A node stays in service when its kernel log tells of errors that programs make.

    Xids 13, 31 and 43 come of a user's own mistakes. Where they drain a node, anybody can empty the cluster
    with a wrong pointer.

    Fix: have the tooling leave nodes alone on Xid 13, 31 and 43, or count them before it acts.
    """
    for trial in measure("line_xid_13_31_43"):
        observe(trial, taken_out=trial.taken_out, end=trial.end)


def test_corrected_switch_line(measure: Measure, observe: Observe) -> None:
    """A node stays in service when its kernel log tells of an NVSwitch error that was corrected.

    Single-bit errors that a switch corrects do no harm; a node that is drained for one is lost for nothing.

    Fix: have the tooling tell SXids that say Non-fatal from fatal ones.
    """
    for trial in measure("line_sxid_nonfatal"):
        observe(trial, taken_out=trial.taken_out, end=trial.end)


def test_fallen_gpu_in_dcgm(measure: Measure, observe: Observe) -> None:
    """A node on which DCGM shows Xid 79 is taken out of service within two minutes.

    Tooling that asks DCGM and not the kernel log has to act on the Xids that it finds there: on many clusters
    it is the only one that looks.

    Fix: have the tooling connect to the node's own nv-hostengine, and drain on a serious Xid (field 230).
    """
    for trial in measure("dcgm_xid_79"):
        observe(
            trial,
            detected=trial.detected,
            detect_s=trial.detect_s,
            isolated=trial.isolated,
            isolate_s=trial.isolate_s,
            end=trial.end,
        )


def test_double_bit_errors_in_dcgm(measure: Measure, observe: Observe) -> None:
    """A node on which DCGM counts a double-bit memory error is taken out of service within two minutes.

    An error that ECC could not correct stands in a counter, also where no line tells of it, and a job that
    goes on there computes with wrong numbers.

    Fix: have the tooling watch DCGM's counters of uncorrectable errors (fields 319 and 311).
    """
    for trial in measure("dcgm_double_bit"):
        observe(
            trial,
            detected=trial.detected,
            detect_s=trial.detect_s,
            isolated=trial.isolated,
            isolate_s=trial.isolate_s,
            end=trial.end,
        )
