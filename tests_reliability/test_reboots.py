"""Nodes are rebooted on purpose, one after the other, in waves or all at once, and looked at again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuassay.fixtures import Measure, Observe


def test_return_time(measure: Measure, observe: Observe) -> None:
    """Every node that is rebooted is in service again within the hour, and nobody has to see to it.

    A kernel update or a power cut reboots all nodes at once. One that waits for a key at its console, for a
    file system or for a license is capacity that is paid for and gone until somebody notices.

    Fix: look at the console of the node that is named; raise ResumeTimeout above the time that a boot takes.
    """
    for reboot in measure("reboot"):
        observe(reboot, returned=reboot.returned, return_s=reboot.return_s)


def test_same_machine(measure: Measure, observe: Observe) -> None:
    """A node has all that it had before its reboot: GPUs, network cards, links, kernel and driver.

    A GPU or an NVLink that was hanging by a thread does not survive a restart. A kernel that was installed
    and never booted, or a driver that was never loaded, shows itself now, on one node or on all.

    Fix: return what did not come back; build images anew so that what is installed is what was tested.
    """
    for reboot in measure("reboot"):
        observe(
            reboot,
            boot_changed=reboot.boot_changed,
            gpus_lost=reboot.gpus_lost,
            nics_lost=reboot.nics_lost,
            links_lost=reboot.links_lost,
            software_changed=reboot.software_changed,
        )


def test_mounts_and_data(measure: Measure, observe: Observe) -> None:
    """After a reboot every file system is mounted as before, and what was written to it reads the same.

    A mount that was made by hand is gone after a boot, and jobs then fill the system's disk. A file that was
    synced and reads otherwise, or not at all, was never safe.

    Fix: have systemd or the automounter mount it before the scheduler's daemon starts.
    """
    for reboot in measure("reboot"):
        observe(reboot, mounts_lost=reboot.mounts_lost, files_damaged=reboot.files_damaged)


def test_claims(measure: Measure, observe: Observe) -> None:
    """What a pod wrote into a volume of its own reads the same once its node has been rebooted.

    A volume on the node's own disk may be gone with a boot, and one that the network brings may be attached
    to the node no more. Either way the pod that comes back finds no data, or does not start.

    Fix: have the default storage class keep its volumes beside the nodes; look at its driver's attachments.
    """
    for reboot in measure("reboot"):
        observe(reboot, claim_same=reboot.claim_same)


def test_scheduler(measure: Measure, observe: Observe) -> None:
    """The scheduler knows a node after its reboot as it did before: resources, labels and topology.

    Labels that were set by hand may be lost when a node registers anew, and so may its place in the
    topology, or a taint comes. Jobs that ask for them never start, or are spread over racks.

    Fix: keep labels, features and topology in the configuration from which nodes are made.
    """
    for reboot in measure("reboot"):
        observe(reboot, scheduler_changed=reboot.scheduler_changed)
