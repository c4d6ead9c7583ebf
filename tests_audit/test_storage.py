"""Storage: file systems for all nodes, those of each node's own, and objects."""

from gpuassay.fixtures import Fleet, Measure, Observe


def test_network_mounts(fleet: Fleet, observe: Observe) -> None:
    """Every network file system that a node has mounted answers, and is mounted as work needs it.

    Whatever touches a mount whose server is gone waits for ever: a login, `df`, a job. Mounted soft, NFS
    hands a program an error, or lost writes, where it should wait. Locks that stay on one node protect
    nothing: two nodes write the same file, and package caches and checkpoints break.

    Fix: bring the server back, or unmount what is stale (umount -f, then -l) and mount it again. Mount NFS
    `hard`, and with locks (no `nolock` or `local_lock`; on Lustre `flock`).
    """
    for node in fleet.nodes:
        for volume in node.network_mounts:
            observe(volume, answers=volume.answers, mounted_soft=volume.soft, local_locks=volume.local_locks)


def test_shared_mounts(fleet: Fleet, observe: Observe) -> None:
    """Every node has the shared storage that was bought mounted, takes writes, and mounts it like the others.

    A node without the shared home writes to its own disk instead: the job runs, and its results are on one
    node, or lost. Other versions, transports or numbers of connections make one node slower than its peers.

    Fix: mount it on that node (and by /etc/fstab or the provisioning of all); remount it for writing, or
    waive this where data are offered read-only on purpose. Take the mount options from one place.
    """
    for node in fleet.nodes:
        for volume in node.shared_mounts:
            observe(volume, at=volume.at, mounted=volume.shared, read_only=volume.read_only)
            observe(volume, at=volume.at, mounted_as=volume.mounted_as)


def test_same_everywhere(fleet: Fleet, observe: Observe) -> None:
    """All nodes have the same file system there, and not one each of that name.

    Two exports at one path look alike until a job on one node does not find what another has written.
    Nodes are compared by the number that the server has for it, what is exported, its top folder and size.

    Fix: mount the same export on all nodes. Where one file system has several addresses, a file written on
    one node and read on the others proves that it is one.
    """
    for volume in fleet.shared_volumes:
        observe(volume, file_systems=volume.file_systems, unproven=volume.unproven)
        observe(volume, size_spread=volume.size_spread)


def test_room(fleet: Fleet, observe: Observe) -> None:
    """Shared storage has room for more data and more files.

    A full file system ends every job at its next checkpoint, and most slow down long before. Many small
    files use up its inodes while it looks half empty.

    Fix: remove what nobody needs, extend it, or set quotas. Let the provider show snapshots of what
    cannot be made again; a folder for them that is empty keeps nothing.
    """
    for volume in fleet.shared_volumes:
        observe(volume, free_share=volume.free_share, free_inodes=volume.free_inodes)
        observe(volume, snapshots=volume.snapshots)


def test_local_scratch(fleet: Fleet, observe: Observe) -> None:
    """Each node has the storage of its own that was bought, and can write to it.

    Where it is missing there is a folder of that name on the system's disk: it is small, others need it,
    and filling it stops the node.

    Fix: make the file system on the node's own drives, and mount it there for writing.
    """
    for node in fleet.nodes:
        for volume in node.local_mounts:
            observe(volume, mounted=volume.own, read_only=volume.read_only)


def test_scratch_on_nvme(fleet: Fleet, observe: Observe) -> None:
    """On a node with NVMe drives, its own storage lies on them.

    Data that are read again and again belong next to the GPUs: on drives that are many times as fast as
    a disk for the system.

    Fix: make the file system on the NVMe drives; RAID 0 of all of them, as a rule.
    """
    for node in fleet.nodes:
        for volume in node.local_mounts:
            observe(volume, on_nvme=volume.on_nvme)


def test_s3_objects(measure: Measure, observe: Observe) -> None:
    """Object storage keeps what it is given, shows it at once, and lets go of what is deleted.

    Checkpoints and data sets are written by one program and read by the next. What is listed late, read
    old, or lost after the store has confirmed it breaks a job that did nothing wrong. Some twenty objects are
    put, read whole and in part, listed, replaced, sent in parts and deleted; all of it is removed again.

    Fix: show the provider the operation and its error. A gateway or cache before the store is the usual cause
    of what is late or old.
    """
    for volume in measure("s3"):
        observe(volume, refused=volume.refused, lost=volume.lost, wrong_bytes=volume.wrong_bytes)
        observe(volume, not_listed=volume.not_listed, undeleted=volume.undeleted)
        observe(volume, other_tags=volume.other_tags, left_behind=volume.left_behind)


def test_s3_access(measure: Measure, observe: Observe) -> None:
    """Nobody reads, lists or writes objects without a key, and the way to them is encrypted.

    A bucket that answers everybody gives away data sets and weights, or lets strangers put their own in
    their place. Over plain HTTP, whoever is on the way can read them and change them.

    Fix: block public access to the bucket, and take away grants to everybody. Use an https:// endpoint with
    a certificate that programs can verify; for one of your own authority set AWS_CA_BUNDLE.
    """
    for volume in measure("s3"):
        observe(volume, read_by_anybody=volume.read_by_anybody, listed_by_anybody=volume.listed_by_anybody)
        observe(volume, written_by_anybody=volume.written_by_anybody, encrypted=volume.encrypted)
