"""Many small things come and go: what a cluster loses, leaves behind, or takes its time over."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuassay.fixtures import Measure, Observe


def test_pods(measure: Measure, observe: Observe) -> None:
    """Pods that come and go by the hundred all start, soon, and are gone when they are removed.

    Jobs that are restarted and services that grow make many pods at once. What is timed is the cluster's own
    part: the image is there before, and no GPU is asked for.

    Fix: look at the first pod that is named; then at the API server's latency, the scheduler's queue and the
    kubelets' pod start times.
    """
    for storm in measure("kube_churn"):
        pods = storm.pods
        observe(
            pods,
            failed=pods.failed,
            create_p99_s=pods.create_p99_s,
            scheduled_p99_s=pods.scheduled_p99_s,
            ready_p99_s=pods.ready_p99_s,
            gone_p99_s=pods.gone_p99_s,
        )


def test_claims(measure: Measure, observe: Observe) -> None:
    """Volumes that come and go are bound, mounted, written to and removed, and none of them stays.

    A volume that stays when its claim has gone is paid for and seen by nobody; one that stays attached keeps
    a node from taking another. Disks at the cloud below cannot be seen from here.

    Fix: look at the storage driver's provisioner and attacher for the volumes that are named.
    """
    for storm in measure("kube_churn"):
        claims = storm.claims
        observe(
            claims,
            failed=claims.failed,
            bound_p99_s=claims.bound_p99_s,
            mounted_p99_s=claims.mounted_p99_s,
            gone_p99_s=claims.gone_p99_s,
            leaked_volumes=claims.leaked_volumes,
            leaked_attachments=claims.leaked_attachments,
        )


def test_jobs(measure: Measure, observe: Observe) -> None:
    """Of a storm of Slurm jobs none is lost, each is accounted for, and they start as fast as nodes allow.

    Sweeps and evaluations are arrays of short jobs. A controller that cannot keep up delays everybody's jobs,
    and an accounting that loses records loses what is billed and shared by them.

    Fix: look at sdiag and slurmctld.log; raise SchedulerParameters' limits with care; see that slurmdbd keeps
    up (its agent queue).
    """
    for storm in measure("slurm_churn"):
        jobs = storm.jobs
        observe(
            jobs,
            lost=jobs.lost,
            unaccounted=jobs.unaccounted,
            start_p99_s=jobs.start_p99_s,
            cycle_max_s=jobs.cycle_max_s,
        )


def test_steps(measure: Measure, observe: Observe) -> None:
    """Steps of a job start and end well, one after the other, within seconds.

    Every srun inside a job is a step; launchers of tests and evaluations start hundreds of them, and wait for
    each.

    Fix: run one with srun -vvv and see where it waits: name look-ups, a task prolog, or the controller.
    """
    for storm in measure("slurm_churn"):
        observe(storm.steps, failed=storm.steps.failed, step_p99_s=storm.steps.step_p99_s)
