"""What joins the GPUs: NVLink in a machine, and between the machines of a rack."""

from gpuassay.fixtures import Fleet, Observe


def test_links(fleet: Fleet, observe: Observe) -> None:
    """Every NVLink that a GPU was built with is up, at one speed.

    A GPU with a link less slows every collective that it takes part in, and one without any talks through
    the host's memory: a job still runs, at a fraction of the speed. How many links there must be is known
    by the exact product; a list that is short, or empty, never speaks for itself.

    Fix: drain the node and reset all of its GPUs together, then reboot. A link that stays down, or comes
    up slow, is a fault of GPU, board or cable: return the node.
    """
    for gpu in fleet.gpus:
        observe(gpu, up=gpu.nvlink.up, slow=gpu.nvlink.slow, speed_mbps=gpu.nvlink.speed_mbps)


def test_errors(fleet: Fleet, observe: Observe) -> None:
    """The NVLinks of every GPU carry data without errors.

    A marginal link is up and at full speed, and sends everything twice. The error rate behind the
    correction is a fault by itself. Counters only say what has happened since the driver was loaded,
    so they warn: whether it goes on shows when they are read again.

    Fix: read the counters again after a load. If they have grown, drain the node and reset the GPUs; if
    they grow on, return the node: connector, cable cartridge or GPU.
    """
    for gpu in fleet.gpus:
        link = gpu.nvlink
        observe(gpu, effective_ber=link.effective_ber, packet_errors=link.packet_errors)
        observe(gpu, recoveries=link.recoveries, replays=link.replays, crc_errors=link.crc_errors)


def test_fabric_state(fleet: Fleet, observe: Observe) -> None:
    """Every GPU behind NVLink switches is registered with them, and its routes are healthy.

    Until the fabric manager has let a GPU in, CUDA does not start on it (error 802). It may also have been
    turned away, or let in with part of its bandwidth. The GPU's own state says all of this, whether the
    manager runs on this machine, on its host or in the rack's switches.

    Fix: CUDA's error 802 (system not yet initialized) ends when the fabric is up. On a machine with its own
    switches, see that nvidia-fabricmanager runs in the driver's version; then reset the GPUs. In a rack or
    a virtual machine this is the provider's to do. With no NVSwitch there is nothing to do: neither cards
    nor a Grace Hopper need a fabric manager.
    """
    for gpu in fleet.gpus:
        observe(gpu, state=gpu.fabric.state, status=gpu.fabric.status)
        observe(gpu, faults=gpu.fabric.faults, unsettled=gpu.fabric.unsettled)


def test_domain(fleet: Fleet, observe: Observe) -> None:
    """All GPUs of a node in a rack are in one multi-node NVLink domain.

    A domain is named by cluster UUID and clique together: racks may have equal cliques. If one GPU has no
    domain, NCCL gives up NVLink between machines for the whole job and says nothing.

    Fix: take the node out of service, and have the provider look at its place in the rack: partition,
    NVLink cabling of the tray, state of the switches' fabric manager.
    """
    for node in fleet.nodes:
        observe(node, domains=node.rack.domains, outside=node.rack.outside)


def test_placement(fleet: Fleet, observe: Observe) -> None:
    """The nodes of a pool share one NVLink domain.

    NVLink ends with its domain, mostly a rack. A job that is spread over two without knowing it hangs
    while it sets up, or runs at the speed of the network. A node that is alone in its domain has none of
    what makes a rack.

    Fix: have the nodes placed in one rack. If two are what was bought, declare a pool for each, and make
    the scheduler keep jobs inside: a block for each domain in Slurm's topology, ComputeDomain in Kubernetes.
    """
    for cluster in fleet.rack_pools:
        observe(cluster, domains=cluster.domains, alone=cluster.alone)


def test_imex(fleet: Fleet, observe: Observe) -> None:
    """The IMEX domain is up on all of its nodes, and each is connected with every other.

    GPUs of different machines share memory only through this daemon. One that is down, of another version
    or with another list of nodes makes jobs fail or hang at their first step, though every NVLink is up.

    Fix: give all nodes of a domain the same nodes_config.cfg and the driver's version of nvidia-imex, and
    restart the daemon where the finding names it. A machine that no rack joins to others needs none.
    """
    for node in fleet.nodes:
        observe(node, running=node.imex.running, domain=node.imex.domain, members=node.imex.members)
        observe(node, unready=node.imex.unready, unconnected=node.imex.unconnected)
        observe(node, other_versions=node.imex.other_versions)
