"""Loads that last: storage, fabric and checkpoints are at the end what they were at the begin."""

from gpuassay.fixtures import Measure, Observe


def test_storage_drift(measure: Measure, observe: Observe) -> None:
    """Each file system is as fast after an hour of load from all nodes as it was at its begin.

    What a benchmark of minutes finds may be a cache that fills, or credits for bursts that run out; training
    reads and writes for weeks. The slowest tenth of the time is told too, wherever it lies.

    Fix: show the provider the curve; ask what is guaranteed without bursts, and by which size of volume.
    """
    for volume in measure("sustained_storage"):
        observe(volume, at=volume.at, last_of_first=volume.last_of_first)
        observe(volume, at=volume.at, lowest_of_median=volume.lowest_of_median)
        observe.show(volume, gbps=volume.all_gbps)


def test_storage_stalls(measure: Measure, observe: Observe) -> None:
    """Under load no read or write fails, and no node waits for storage while nothing comes.

    A server that is failed over, a client that loses its session or a full queue shows as seconds without a
    byte: every rank of a job stands still as long.

    Fix: look into the kernel log of the node that is named and the servers' logs for the minute that is told.
    """
    for volume in measure("sustained_storage"):
        observe(volume, at=volume.at, stalled_s=volume.stalled_s, errors=volume.errors)


def test_storage_even(measure: Measure, observe: Observe) -> None:
    """Under load from all nodes no node gets much less of a file system than the others, for an hour.

    In a short run a slow node may hide behind caches. A job reads as fast as its slowest node, and nothing
    fails: the others only seem to have become slower.

    Fix: look at the links, the mount options and the drives of the node that is named.
    """
    for volume in measure("sustained_storage"):
        observe(volume, at=volume.at, of_fastest=volume.of_fastest)


def test_storage_length(measure: Measure, observe: Observe) -> None:
    """The load on each file system lasts for an hour, and for as long as was asked.

    What is asked for in a CI is shorter: that shows that it works, and little of the storage. Caches of
    servers and credits for bursts last for many minutes.

    Fix: leave --endurance away, or go on with a run that was cut by --resume=DIR.
    """
    for volume in measure("sustained_storage"):
        observe(volume, at=volume.at, minutes=volume.minutes, whole=volume.whole)


def test_objects_drift(measure: Measure, observe: Observe) -> None:
    """Object storage is as fast after an hour of load from all nodes as it was at its begin, both ways.

    Gateways that fill their caches, tiers that move objects while others come, credits that run out: a run of
    minutes sees none of it, and a job that loads and saves for weeks meets it in its first hour.

    Fix: show the provider the curve; ask what is guaranteed without bursts, and for how many requests.
    """
    for node in measure("object_endurance"):
        observe(node, read_last_of_first=node.read_last_of_first)
        observe(node, write_last_of_first=node.write_last_of_first)
        observe(node, read_lowest_of_median=node.read_lowest_of_median)
        observe(node, write_lowest_of_median=node.write_lowest_of_median)
        observe.show(node, read_gbps=node.read_gbps, write_gbps=node.write_gbps)


def test_objects_whole(measure: Measure, observe: Observe) -> None:
    """For an hour of load the store gives each object back as it was written last, and takes every request.

    The same objects are written again and again, and read in between: a store that gives an older one, or
    none, was overtaken by its own replication. A request is tried again before it counts as given up. A
    gateway that is failed over shows as a time in which objects do not come.

    Fix: show the provider the words of the store, which are quoted.
    """
    for node in measure("object_endurance"):
        observe(node, wrong=node.wrong, missing=node.missing, unmoved=node.unmoved)
        observe(node, refused_share=node.refused_share, slowed_share=node.slowed_share)
        observe(node, longest_s=node.longest_s)


def test_objects_removed(measure: Measure, observe: Observe) -> None:
    """What was written into the store for an hour is gone from it afterwards.

    Whoever keeps what nobody wants is paid for it; and a store that takes deletions under load and does not
    do them keeps other things as well.

    Fix: remove by its prefix what is named, and show the provider the words of the store.
    """
    for node in measure("object_endurance"):
        for volume in node.volumes:
            observe(volume, left_behind=volume.left_behind)


def test_objects_length(measure: Measure, observe: Observe) -> None:
    """The load on object storage lasts for an hour, and for as long as was asked.

    What is asked for in a CI is shorter: that shows that it works, and little of the store, whose caches and
    credits last for many minutes.

    Fix: leave --endurance away.
    """
    for node in measure("object_endurance"):
        observe(node, minutes=node.minutes, whole=node.whole)


def test_fabric_alive(measure: Measure, observe: Observe) -> None:
    """Every rank comes through all rounds of collectives, and every value arrives as it was sent.

    A fabric that hangs once in an hour stops a job of thousands of GPUs once in an hour. A rank that falls
    silent is named with its last round, and those that only stopped with it are told apart.

    Fix: look at kernel log, NIC and cable of the rank that is named for that moment, and at its switch port.
    """
    for whole in measure("fabric_loop"):
        for gpu in whole.gpus:
            observe(gpu, alive=gpu.alive, wrong=gpu.wrong)


def test_fabric_drift(measure: Measure, observe: Observe) -> None:
    """Collectives, and each adapter with its partners, are as fast in the last tenth of the time as at first.

    Optics that grow warm, a link that is trained down, a switch whose routes change: none of it shows in a
    benchmark of minutes. What one adapter loses, all ranks wait for.

    Fix: look at rate, temperature and error counters of the adapter that is named, and at its switch port.
    """
    for whole in measure("fabric_loop"):
        observe(whole, all_reduce=whole.all_reduce.last_of_first)
        observe(whole, all_to_all=whole.all_to_all.last_of_first)
        observe.show(whole, all_reduce_gbps=whole.all_reduce.gbps, all_to_all_gbps=whole.all_to_all.gbps)
        for gpu in whole.gpus:
            observe(gpu, pair=gpu.pair_last_of_first)
            observe.show(gpu, pair_gbps=gpu.pair_gbps)


def test_fabric_tail(measure: Measure, observe: Observe) -> None:
    """No round takes much longer than the usual one: not even the slowest of a thousand.

    A link that flaps, or packets that are lost and sent again after a timeout, leave medians as they are and
    make single rounds slow. A job of thousands of ranks meets one in every step.

    Fix: look at port counters and kernel log of the adapter that is named for that round, on both ends.
    """
    for whole in measure("fabric_loop"):
        observe(whole, all_reduce=whole.all_reduce.tail, all_to_all=whole.all_to_all.tail)
        for gpu in whole.gpus:
            observe(gpu, pair=gpu.pair_tail)


def test_fabric_pairs(measure: Measure, observe: Observe) -> None:
    """No adapter is slower with its partners than the others are with theirs, over all rounds.

    Each rank meets its like on every other node in turn. One that is slow with all of them has a bad link of
    its own; the slowest partner is named too.

    Fix: look at width, rate, PCIe link and cable of the adapter that is named.
    """
    for whole in measure("fabric_loop"):
        for gpu in whole.gpus:
            observe(gpu, of_median=gpu.of_median)


def test_fabric_links(measure: Measure, observe: Observe) -> None:
    """No port of the compute fabric loses its link in the course of the rounds.

    Counters are read before and after. One flap stops a job, however short it is: a transport gives up after
    seconds, and every rank of the job goes with it.

    Fix: clean or exchange cable and transceiver of the port that is named, and look at the switch port.
    """
    for whole in measure("fabric_loop"):
        for node in whole.nodes:
            for port in node.fabric.ports:
                observe(port, downs=port.since.downs)


def test_fabric_length(measure: Measure, observe: Observe) -> None:
    """The rounds go on for an hour, and for as long as was asked.

    What is rare does not show in minutes: the slowest of a thousand rounds takes a thousand rounds. What is
    asked for in a CI is shorter, and shows only that all of it works.

    Fix: leave --endurance away, or go on with a run that was cut by --resume=DIR.
    """
    for whole in measure("fabric_loop"):
        observe(whole, hours=whole.hours, whole=whole.whole)


def test_checkpoint_torn(measure: Measure, observe: Observe) -> None:
    """A checkpoint whose writer was killed is never loaded as if it were whole.

    Jobs are killed in the middle of a save: by a failed GPU, a time limit, a scheduler. What they leave must
    be refused by who resumes, or training goes on from numbers that nobody has computed.

    Fix: show the provider the checkpoint and the kill in the recording; look at mount options that reorder
    writes and renames (async, nobarrier, client caches).
    """
    for volume in measure("checkpoint_kills"):
        observe(volume, at=volume.at, unnoticed=volume.unnoticed, torn=volume.torn)


def test_checkpoint_last_good(measure: Measure, observe: Observe) -> None:
    """The last checkpoint before a kill loads, and has the same bits, after its files have left memory.

    The writer was told that it is on storage (fsync). A file system that says so and loses it costs the hours
    since the one before, or the job.

    Fix: show the provider which file differs; look for unprotected write caches, on servers and clients.
    """
    for volume in measure("checkpoint_kills"):
        observe(volume, at=volume.at, lost=volume.lost)


def test_checkpoint_ends(measure: Measure, observe: Observe) -> None:
    """Writers were killed for as long as was asked, and nothing of theirs is left on the file system.

    What killed writers leave would fill a file system in time. The folder is removed at the end, by a keeper
    that outlives whoever is killed.

    Fix: remove what is named; go on with a run that was cut by --resume=DIR.
    """
    for volume in measure("checkpoint_kills"):
        observe(volume, at=volume.at, whole=volume.whole, left=volume.left)
