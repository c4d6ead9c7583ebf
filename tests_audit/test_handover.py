"""What is handed over, against the contract, or against what a rating asks of every provider."""

from gpuassay.fixtures import Fleet, Measure, Observe


def test_storage_capacity(fleet: Fleet, observe: Observe) -> None:
    """Every file system is as large as it was sold.

    The size is what the file system says of itself, the smallest that any node sees. Where the provider has
    set no quota, that is the room of the whole system, of which others have a share: ask for the quota. That
    of the user who asks is told beside it: one of many users is meant to have less than all.

    Fix: extend the file system, or its quota, to what the contract says.
    """
    for volume in fleet.sold_volumes:
        observe(volume, capacity=volume.capacity_tb, quota=volume.quota_tb)


def test_shared_storage_request(fleet: Fleet, observe: Observe) -> None:
    """The shared file systems hold as much as a rating asks for.

    What measurements of storage say depends on the size of what was tested, so a rating asks every provider
    for the same least size. What two mounts have of one file system is counted once.

    Fix: extend the shared storage, or its quota.
    """
    for volume in fleet.all_shared:
        observe(volume, in_all=volume.capacity_tb)


def test_object_storage_request(fleet: Fleet, observe: Observe) -> None:
    """Object storage as large as a rating asks for was bought.

    S3 has no question for the room that is left, so the site file's word is all that can be judged, and
    the room itself is said to be unseen.

    Fix: agree on more, and write it down as `capacity_tb` of [s3] in the site file.
    """
    for volume in fleet.object_stores:
        observe(volume, sold=volume.sold_tb, room=volume.capacity_tb)


def test_dashboard(measure: Measure, observe: Observe) -> None:
    """The dashboard that was promised answers.

    It is the one view of the cluster that every user has, from the first day on, and ClusterMAX asks each
    provider for one.

    Fix: hand over a Grafana that is up, with its address and a login.
    """
    for cluster in measure("grafana"):
        observe(cluster, answers=cluster.answers)
