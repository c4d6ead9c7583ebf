"""Something is broken on purpose, with a stopwatch on what the provider's own tooling makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuassay.fixtures import Measure, Observe


def test_frozen_scheduler_daemon(measure: Measure, observe: Observe) -> None:
    """A node whose slurmd hangs is noticed within two minutes, and no job is sent there any more.

    A node that hangs still answers a ping. Slurm alone waits for SlurmdTimeout, by default five minutes, and
    meanwhile sends jobs that never start.

    Fix: have a health check outside Slurm, or a shorter SlurmdTimeout, drain a node that does not answer.
    """
    for trial in measure("frozen_slurmd"):
        observe(
            trial,
            detected=trial.detected,
            detect_s=trial.detect_s,
            isolated=trial.isolated,
            isolate_s=trial.isolate_s,
            stays_out=trial.stays_out,
            end=trial.end,
        )


def test_frozen_node_replaced(measure: Measure, observe: Observe) -> None:
    """A node that was taken out for its frozen slurmd is back, or a spare in its place, within the hour.

    A node that is only kept out is capacity that is paid for and gone. One that serves again is looked at:
    with another boot or serials it has all its GPUs, and the very same one is seen to be mended. Then it is
    audited, and counts only if it lacks nothing that the failed one had when the run began: GPUs, memory,
    network cards, ports, NVLinks and declared file systems; and if each of its GPUs then computes a product
    that is right.

    Fix: keep a spare for each pool, and let the tooling that drains a node also reboot or replace it.
    """
    for trial in measure("frozen_slurmd"):
        observe(
            trial,
            replaced=trial.replaced,
            replace_s=trial.replace_s,
            well=trial.well,
            restored_s=trial.restored_s,
        )


def test_notice(measure: Measure, observe: Observe) -> None:
    """Whoever uses the cluster is told that a node failed: by an alert, a ticket or a message.

    A node that vanishes without a word leaves its user to find out why a job ended, and whether it may be
    sent again. Looked at is where the site file says that messages come: [notices], and [monitoring].

    Fix: have the tooling that takes a node out open a ticket, or send a message that names the node.
    """
    for trial in measure("frozen_slurmd"):
        observe(trial, notified=trial.notified, notify_s=trial.notify_s)


def test_frozen_kubelet(measure: Measure, observe: Observe) -> None:
    """A node whose kubelet hangs is noticed within two minutes, and no pod is sent there any more.

    Its lease runs out, and Kubernetes marks the node unreachable after 40 to 50 seconds, unless that was
    changed. Until then pods are bound to it that never start.

    Fix: leave node-monitor-grace-period at its default, or have a health check cordon a node that is silent.
    """
    for trial in measure("frozen_kubelet"):
        observe(
            trial,
            detected=trial.detected,
            detect_s=trial.detect_s,
            isolated=trial.isolated,
            isolate_s=trial.isolate_s,
            stays_out=trial.stays_out,
            end=trial.end,
        )


def test_frozen_kubelet_node_replaced(measure: Measure, observe: Observe) -> None:
    """A node that was taken out for its frozen kubelet is back, or a spare in its place, within the hour.

    A node that is only cordoned or deleted is capacity that is paid for and gone. One counts when pods are
    let in there and it gives out all its GPUs again. It is looked at through pods: with another boot it has
    all GPUs on its bus, and the very same one is seen to be mended, by others than our own undo. Then it is
    audited, and counts only if it lacks nothing that the failed one had when the run began: GPUs, memory,
    network cards, ports, NVLinks and declared file systems; and if each of its GPUs then computes a product
    that is right.

    Fix: keep a spare for each pool, and let the controller that cordons a node also repair or replace it.
    """
    for trial in measure("frozen_kubelet"):
        observe(
            trial,
            replaced=trial.replaced,
            replace_s=trial.replace_s,
            well=trial.well,
            restored_s=trial.restored_s,
        )
