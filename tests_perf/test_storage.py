"""How fast the storage that was bought is, in every tier, and whether it gives back what it was given."""

from gpuassay.fixtures import Measure, Observe


def test_shared(measure: Measure, observe: Observe) -> None:
    """One node alone reads and writes each shared file system as fast as is known of good ones.

    A data set has to be read, and a checkpoint written, while the GPUs of the node wait. Providers size
    file systems by capacity, so speed may grow with the volume: its size stands beside each figure.

    Fix: look at the mount options (nconnect, rsize, stripes), at the node's storage network, and at how much
    speed was bought with the capacity; the sweep in the report shows whether more in flight would help.
    """
    for each in measure("fio_alone"):
        for volume in each.shared_unpromised:
            observe(volume, at=volume.at, read_gbps=volume.read_gbps, write_gbps=volume.write_gbps)


def test_local(measure: Measure, observe: Observe) -> None:
    """The drives of each node's own are as fast as is known of good ones.

    Data that are read again and again are copied there, next to the GPUs; where drives are slow, loaders
    go back to shared storage, and every node waits for it.

    Fix: look at the drives: their number, health and link width, and the RAID that they form.
    """
    for each in measure("fio_local"):
        for volume in each.unpromised:
            observe(volume, at=volume.at, read_gbps=volume.read_gbps, write_gbps=volume.write_gbps)


def test_local_even(measure: Measure, observe: Observe) -> None:
    """No node's own drives are slower than those of the others.

    A node with a worn or missing drive makes every job wait that includes it, and nothing fails: its peers
    only seem to have become slower.

    Fix: look at the drives of the slow node: their number, health, wear and link width.
    """
    for node in measure("fio_local"):
        observe(
            node, at=node.at, read_of_fastest=node.read_of_fastest, write_of_fastest=node.write_of_fastest
        )
        observe(node, at=node.at, iops_of_fastest=node.iops_of_fastest)


def test_together(measure: Measure, observe: Observe) -> None:
    """All nodes at once get alike from shared storage, and more together than one alone.

    Training does just that: every node reads its part, or writes its part of a checkpoint, in the same
    moment. What one node gets by itself says little of it.

    Fix: where one node is slow, look at its links and mount; where all are, at the servers, the storage
    network and what was bought.
    """
    for node in measure("fio_together"):
        observe(
            node, at=node.at, read_of_fastest=node.read_of_fastest, write_of_fastest=node.write_of_fastest
        )
        observe(node, at=node.at, read_scaling=node.read_scaling(measure("fio_alone")))
        observe(node, at=node.at, write_scaling=node.write_scaling(measure("fio_alone")))


def test_sweep(measure: Measure, observe: Observe) -> None:
    """With more in flight, by deeper queues or more jobs, storage does not get slower.

    Where it does, locks, a full queue or one server are in the way, and a data loader with more workers
    makes matters worse. The knee is from where on more in flight gains less than a tenth.

    Fix: keep what is in flight below the point where it falls; look at the client's threads and slots, the
    stripes, and the servers' queues.
    """
    for volume in measure("fio_alone"):
        for point in volume.points:
            observe(point, at=point.at, gbps=point.gbps)
        for line in volume.lines:
            observe(volume, at=line.at, knee=line.value)


def test_integrity(measure: Measure, observe: Observe) -> None:
    """Storage gives back what was written, all of it.

    Files are written with a checksum in each block and read back. A store that loses or alters a block under
    load spoils data sets and checkpoints without a word.

    Fix: stop writing there, and show the provider the file and offset in the recording.
    """
    for volume in measure("fio_alone"):
        observe(volume, at=volume.at, corrupt=volume.corrupt, short=volume.short)
    for volume in measure("fio_local"):
        observe(volume, at=volume.at, corrupt=volume.corrupt, short=volume.short)
    for volume in measure("fio_together"):
        observe(volume, at=volume.at, corrupt=volume.corrupt, short=volume.short)


def test_as_sold(measure: Measure, observe: Observe) -> None:
    """Each mount of which the contract promises a speed has it.

    What a node gets that has the store for itself is held to the contract; of each node's own storage, all
    nodes are. The size of the volume stands beside the figure, for speed is mostly sold with it.

    Fix: show the provider the figure, the command and the volume; another size of volume may have another
    speed.
    """
    for volume in measure("fio_alone"):
        for figure in volume.promised:
            observe(volume, at=figure.at, of_promised=figure.value)
    for volume in measure("fio_local"):
        for figure in volume.promised:
            observe(volume, at=figure.at, of_promised=figure.value)


def test_small_files(measure: Measure, observe: Observe) -> None:
    """Many small files are made, found, read and removed fast, and each is what was written.

    Data sets of images, Python environments and caches of compilers are small files by the hundred thousand.
    A file system that streams well may take milliseconds to open one, and an import then takes half a minute.

    Fix: keep environments in container images or on local drives; ask the provider for more metadata servers,
    or for client caches of names and attributes (actimeo, lookupcache).
    """
    for volume in measure("small_files"):
        observe(
            volume, at=volume.at, open_ms=volume.open_ms, missing_ms=volume.missing_ms, wrong=volume.wrong
        )
        for figure in volume.figures:
            observe(volume, at=figure.at, rate=figure.value)


def test_small_files_together(measure: Measure, observe: Observe) -> None:
    """All nodes at once make and read many small files on shared storage, and none waits for the others.

    Data are generated, packages imported and caches filled on all nodes in the same moment, and it is the
    metadata servers that decide. A node that has them for itself tells nothing of that.

    Fix: where one node is slow, look at its mount options and its way to the servers; where all are slower
    than one alone (perf.storage.small_files), ask for more metadata servers, or spread directories over them.
    """
    for node in measure("small_files_together"):
        observe(node, at=node.at, open_ms=node.open_ms, wrong=node.wrong)
        observe(
            node, at=node.at, create_of_fastest=node.create_of_fastest, read_of_fastest=node.read_of_fastest
        )


def test_ior(measure: Measure, observe: Observe) -> None:
    """Ior writes a file for each task to shared storage, and reads it back from another without an error.

    It is what supercomputing centres compare file systems by, so a provider is likely to have figures of it.

    Fix: where it is missing, build it into a folder of PATH; where data were wrong, stop writing there.
    """
    for volume in measure("ior"):
        observe(volume, at=volume.at, wrong=volume.wrong)
        for figure in volume.figures:
            observe(volume, at=figure.at, rate=figure.value)


def test_mdtest(measure: Measure, observe: Observe) -> None:
    """Mdtest makes, finds, reads and removes files on shared storage without an error.

    It is what supercomputing centres compare metadata servers by, so a provider is likely to have figures.

    Fix: where it is missing, build it (it comes with ior); where it complains, its words are quoted.
    """
    for volume in measure("mdtest"):
        observe(volume, at=volume.at, wrong=volume.wrong)
        for figure in volume.figures:
            observe(volume, at=figure.at, rate=figure.value)


def test_elbencho(measure: Measure, observe: Observe) -> None:
    """Elbencho writes and reads large files on shared storage, past the page cache, without an error.

    Where it differs much from fio on the same mount, one of the two has other settings: both commands are
    in the recording.

    Fix: where it is missing, take the static program into a folder of PATH; where it complains, its words
    are quoted.
    """
    for volume in measure("elbencho"):
        observe(volume, at=volume.at, wrong=volume.wrong)
        for figure in volume.figures:
            observe(volume, at=figure.at, rate=figure.value)


def test_mlperf_au(measure: Measure, observe: Observe) -> None:
    """Shared storage keeps an emulated H100 busy, by the loaders and rules of MLPerf Storage.

    DLIO reads as PyTorch and TensorFlow do for 3D U-Net, ResNet-50 and CosmoFlow, and sleeps where an H100
    would work; what is below the minimum of the rules, an accelerator waits for. It is one accelerator and
    one pass, so this is no MLPerf result, and what fails here fails for a whole node too.

    Fix: where it is missing, install it with an MPI into an environment of PATH; where data may be cached,
    nothing is judged: let them be dropped from memory. Where an accelerator waits, look at mount options
    (nconnect, rsize, read-ahead) and at the loaders' processors, then at perf.storage.shared.
    """
    for volume in measure("mlperf"):
        observe(volume, at=volume.at, unet3d_au=volume.unet3d_au)
        observe(volume, at=volume.at, resnet50_au=volume.resnet50_au, cosmoflow_au=volume.cosmoflow_au)


def test_objects_read(measure: Measure, observe: Observe) -> None:
    """Every node reads objects that another has written as fast as the others do, and small ones at once.

    Data sets and checkpoints are fetched from object storage by all nodes in the same moment, each with many
    requests under way. A node with a slow link or a detour through a proxy makes all others wait for it.

    Fix: where one node is slow, look at its way to the store (routes, MTU, proxy); where all are, at the
    store's gateways and load balancer, and at what was bought.
    """
    for node in measure("object_speed"):
        for moved in node.streamed:
            observe(node, at=moved.at, read_gbps=moved.read_gbps, read_of_fastest=moved.read_of_fastest)
        for moved in node.small:
            observe(node, at=moved.at, read_ms=moved.read_ms, read_p99_ms=moved.read_p99_ms)


def test_objects_write(measure: Measure, observe: Observe) -> None:
    """Every node writes objects as fast as the others do, large ones in parts, and small ones at once.

    Checkpoints and results go to object storage from all nodes in the same moment, and the GPUs wait, or the
    host's memory fills up. What one node gets by itself says little of it.

    Fix: where one node is slow, look at its way to the store (routes, MTU, proxy); where all are, at the
    store's gateways and load balancer, and at what was bought.
    """
    for node in measure("object_speed"):
        for moved in node.streamed:
            observe(node, at=moved.at, write_gbps=moved.write_gbps, write_of_fastest=moved.write_of_fastest)
        for moved in node.small:
            observe(node, at=moved.at, write_ms=moved.write_ms, write_p99_ms=moved.write_p99_ms)


def test_objects_whole(measure: Measure, observe: Observe) -> None:
    """Under load, object storage takes every request, and gives every object back as it was written.

    A store that answers well to one client may refuse, lose or mix up objects when all nodes write at once;
    a loader that meets such answers stops, or trains on what is not there.

    Fix: show the provider the words of the store, which are quoted. Many answers of 503 ask for fewer
    requests, or for more of a prefix's share of the store.
    """
    for node in measure("object_speed"):
        for moved in node.moved:
            observe(node, at=moved.at, wrong=moved.wrong, missing=moved.missing, unmoved=moved.unmoved)
            observe(node, at=moved.at, refused_share=moved.refused_share, slowed_share=moved.slowed_share)


def test_objects_together(measure: Measure, observe: Observe) -> None:
    """All nodes together get many times what one does from object storage, and what was made for it is gone.

    The best of the sizes counts, with every node moving objects in the same moment, each round from the first
    request to the last answer. A store's gateways set this figure, which a trial by one client never shows.

    Fix: where it is low and every node is alike, look at the gateways and the load balancer. What was left in
    the store is named: remove it by its prefix.
    """
    for node in measure("object_speed"):
        for volume in node.totals:
            observe(volume, read_gbps=volume.read_gbps, write_gbps=volume.write_gbps)
            observe(volume, left_behind=volume.left_behind)


def test_objects_as_sold(measure: Measure, observe: Observe) -> None:
    """Object storage gives all nodes together the speed that the contract promises.

    What a tenant buys is what a job gets that runs on all of them; capacity alone promises nothing, and one
    client's rate says little of it.

    Fix: show the provider the figure of each node and size; a promise for other sizes, or for a region or
    bucket of its own, belongs into the contract.
    """
    for node in measure("object_speed"):
        for volume in node.totals:
            for figure in volume.promised:
                observe(volume, at=figure.at, of_promised=figure.value)
