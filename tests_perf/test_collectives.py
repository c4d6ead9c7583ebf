"""How the accelerators of all nodes exchange data: first contact, right values, speed by size and group."""

from gpuassay.fixtures import Measure, Observe


def test_first_contact(measure: Measure, observe: Observe) -> None:
    """Every GPU reaches others out of the box, over RDMA, without a setting that one has to know.

    Pairs of nodes meet round by round, with no setting of the collective library in the environment, as a
    user's first job does. A library that picks an address that is not routed hangs here; one that finds no
    RDMA takes sockets, which work and are many times slower.

    Fix: set what the provider's documentation asks for in /etc/nccl.conf or in the image, so that users need
    not: the network plugin, the GID index or address family, the interface of the hosts.
    """
    for job in measure("first_contact"):
        for gpu in job.gpus:
            observe(gpu, broken=gpu.broken, sockets=gpu.sockets, wrong=gpu.wrong)


def test_defaults(measure: Measure, observe: Observe) -> None:
    """Without any setting, pairs of nodes exchange as fast as with the site's own.

    Whoever does not know the settings, which is most users on their first day, gets the former, and
    mostly takes it for what the cluster can do.

    Fix: put the settings where every job finds them.
    """
    for cluster in measure("first_contact"):
        observe(cluster, of_site=cluster.share_of(measure("collectives")))


def test_values(measure: Measure, observe: Observe) -> None:
    """Every element of every collective is what it must be, before and under the load.

    A corrupted gradient ruins a training run and is found weeks later, if at all; a figure of a collective
    that is wrong counts for nothing.

    Fix: take the node that is named out of service; exchange cable, card or GPU, and measure again.
    """
    for job in measure("collectives"):
        for gpu in job.gpus:
            observe(gpu, wrong=gpu.wrong)


def test_transport(measure: Measure, observe: Observe) -> None:
    """Between nodes, data goes over RDMA, straight from and to the memory of the GPU.

    Proven by what the library says it connected, never by a setting. Through the host's memory, data crosses
    PCIe twice and takes the processors' time.

    Fix: load nvidia-peermem, or take a kernel and driver with DMA-BUF; turn off ACS redirection; see that
    the container has the RDMA devices and the plugin.
    """
    for job in measure("collectives"):
        for gpu in job.gpus:
            observe(gpu, sockets=gpu.sockets, direct=gpu.direct)


def test_rails(measure: Measure, observe: Observe) -> None:
    """Each GPU exchanges with its partners in other nodes at nearly the rate of its link, and none lags.

    Each is held to the partner that it is fastest with, so a slow one does not spoil the others' figures.
    One slow rail sets the pace of every job that includes it.

    Fix: look at the port beside this GPU: its rate, width, errors and cable, and the switch that it ends at.
    """
    for job in measure("collectives"):
        for gpu in job.gpus:
            observe(gpu, across_gbps=gpu.across_gbps, across_of_line=gpu.across_of_line)
            observe(gpu, within_gbps=gpu.within_gbps)


def test_domain(measure: Measure, observe: Observe) -> None:
    """Within an NVLink or xGMI domain, large collectives reach what is known of this product.

    Far below, the library goes without NVLink SHARP (about three quarters of it), or through PCIe or the
    network cards (about a tenth).

    Fix: look at NVLink state and errors, Fabric Manager, IMEX on racks, and at settings that switch NVLS,
    P2P or cuMem off.
    """
    for job in measure("collectives"):
        for gpu in job.gpus:
            observe(gpu, all_reduce_gbps=gpu.all_reduce_gbps, all_gather_gbps=gpu.all_gather_gbps)
            observe(gpu, reduce_scatter_gbps=gpu.reduce_scatter_gbps, all_to_all_gbps=gpu.all_to_all_gbps)


def test_sizes(measure: Measure, observe: Observe) -> None:
    """Bandwidth grows with the message, from 8 bytes on, and does not fall again.

    Training sends messages of many sizes. A dip is where the library changes its algorithm too early or too
    late, or where buffers of the network run over.

    Fix: look at the library's version and tuner plugin, and at pause frames and discards at this size.
    """
    for cluster in measure("collectives"):
        for point in cluster.points:
            observe(point, at=point.at, busbw_gbps=point.busbw_gbps)


def test_groups(measure: Measure, observe: Observe) -> None:
    """A group of nodes is as fast as a smaller one, from the two that are fastest in pairs up to all.

    Where it gets slower, what was added is why: a node, a rack behind a bad link, or a fabric that is
    oversubscribed there.

    Fix: take the nodes that are named one by one against a good one; look at the links between the switches.
    """
    for cluster in measure("scale_out"):
        for group in cluster.grown:
            observe(cluster, at=group.at, of_smaller=group.of_smaller)


def test_scale_out(measure: Measure, observe: Observe) -> None:
    """What leaves a node comes close to what its ports can carry, with NVLink between nodes switched off.

    Judged by bytes on the wire, for the figure that is mostly quoted counts what stays within the node: of n
    ranks, k in a node, an all-to-all sends (n-k)/(n-1) of it. More than the ports can carry means that
    another way was open.

    Fix: look at the slow rails; then at adaptive routing, congestion settings and oversubscription.
    """
    for cluster in measure("scale_out"):
        for one in cluster.leaving:
            observe(cluster, at=one.at, of_line=one.of_line)


def test_scale_out_infiniband(measure: Measure, observe: Observe) -> None:
    """InfiniBand carries what leaves a node at nearly its rate, with NVLink between nodes switched off.

    Judged like any fabric, but by what is known of this kind, which is more. Of an all-to-all over 32 nodes
    or more there is no public figure: there it is held to the figure of any fabric alone.

    Fix: look at the slow rails; then at the adaptive routing of the subnet manager, its routing engine, and
    how many links join leaf and spine switches.
    """
    for cluster in measure("scale_out"):
        for one in cluster.leaving_by_rdma:
            observe(cluster, at=one.at, of_line=one.of_line)


def test_scale_out_roce(measure: Measure, observe: Observe) -> None:
    """RoCE carries what leaves a node at nearly its rate, with NVLink between nodes switched off.

    Judged like any fabric, but by what is known of this kind, which is more. Of an all-to-all over 32 nodes
    or more there is no public figure: there it is held to the figure of any fabric alone.

    Fix: look at the slow rails; then at pause frames, congestion marking, how flows are spread over the
    links, and how many links join leaf and spine switches.
    """
    for cluster in measure("scale_out"):
        for one in cluster.leaving_by_rdma:
            observe(cluster, at=one.at, of_line=one.of_line)


def test_nvlink_off(measure: Measure, observe: Observe) -> None:
    """With NVLink between nodes switched off, the bytes really went through the network cards.

    A switch that does nothing gives beautiful figures of a network that was never used. The cards' own
    counters tell.

    Fix: find what sets the library's variables after us (/etc/nccl.conf, the image's entry point), and
    measure again.
    """
    for job in measure("scale_out"):
        for node in job.counted:
            observe(node, through_cards=node.through_cards)
