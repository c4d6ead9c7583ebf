"""Checkpoints: the state of a training job, saved to each declared file system and loaded again."""

from gpuassay.fixtures import Measure, Observe


def test_whole(measure: Measure, observe: Observe) -> None:
    """A checkpoint that was reported as saved is whole, as each node sees it.

    A job that resumes takes the newest checkpoint. If a file of it is missing, empty or cut, the job dies,
    starts again, and dies again; what was computed since the last whole one is lost either way.

    Fix: resume from the last whole checkpoint, which is named. Let the provider show why files that were
    synced are not there: caches of clients or servers that acknowledge too early, a full quota, a node lost.
    """
    for node in measure("checkpoint"):
        observe(node, at=node.at, lacking=node.lacking)


def test_save(measure: Measure, observe: Observe) -> None:
    """Saving a checkpoint is as fast as training needs it, and saved aside it hardly stops the job.

    All GPUs stand still while a checkpoint is saved, and as nodes fail it has to be saved often. Saved aside,
    by copying it to the host's memory first, a job goes on after the copy.

    Fix: compare with fio and ior on the same file system: where these are fast, look at stripes and at how
    many files a server takes at once; where not, it is too small or shared with others. Where saving aside
    blocks for long, look at the host's free memory and at the link from GPU to host.
    """
    for node in measure("checkpoint"):
        observe(node, at=node.at, save_gbps=node.save_gbps, blocked_share=node.blocked_share)


def test_load(measure: Measure, observe: Observe) -> None:
    """What is loaded is what was saved, bit by bit, by other ranks and by half as many; and it comes fast.

    Weights that come back changed do not crash a job: they spoil it. Jobs go on with more or fewer GPUs than
    they were saved with, so each part is also read into other places than it was written from. After every
    failure all GPUs wait for this, and all nodes read at once.

    Fix: do not use a file system that changes data; load on one node alone, then on the others, to find the
    path. Where it is only slow and one node alone is fast, stripe files over more servers.
    """
    for node in measure("checkpoint"):
        observe(node, at=node.at, wrong=node.wrong, wrong_anew=node.wrong_anew)
        observe(node, at=node.at, load_gbps=node.load_gbps)


def test_as_sold(measure: Measure, observe: Observe) -> None:
    """Checkpoints get much of the speed that the contract promises of the file system that they are on.

    A promise that fio alone can reach, with large blocks and many of them in flight, helps no job: what waits
    for storage writes and reads checkpoints. What is promised to one node, all nodes get at least together.

    Fix: compare with fio on the same mount (perf.storage.as_sold): where that is fast, look at the number of
    files and stripes; where it is not, show the provider both figures.
    """
    for volume in measure("checkpoint"):
        for figure in volume.promised:
            observe(volume, at=figure.at, of_promised=figure.value)
