"""What carries the traffic between nodes."""

from gpuassay.fixtures import Fleet, Measure, Observe


def test_port_state(fleet: Fleet, observe: Observe) -> None:
    """Every port of the compute fabric has a link and carries traffic.

    A job uses all ports of all its nodes: one that is down stops it, or slows all of it to what the rest
    can carry. The states say where to look: a port that polls has no partner at the other end of its
    cable, one that is stuck in INIT has a link and no subnet manager. Where no ports are declared, every
    InfiniBand port counts, except the bridges to an HGX board's NVSwitches, and of other ports those that
    are active.

    Fix: reseat or replace the cable or transceiver of the port named here, and look at the port of the
    switch that it leads to; for INIT, start the subnet manager. Name the ports of the fabric in the site
    file if this one is not meant to be used.
    """
    for port in fleet.fabric_ports:
        observe(port, link=port.link)


def test_port_rate(fleet: Fleet, observe: Observe) -> None:
    """Every node has the ports that were sold, at the rate that was sold, as all nodes of its pool.

    A link that came up with fewer lanes or at a lower rate works, and nothing reports it: a collective
    over it runs at the speed of its slowest port.

    Fix: reseat the cable of the slow port and set both ends to negotiate; where the rate of all
    ports differs from the contract, the adapters, cables or switches are not those that were sold.
    """
    for node in fleet.nodes:
        fabric = node.fabric
        observe(node, connected=fabric.connected_count, rate=fabric.slowest_gbps, across_pool=fabric.speeds)


def test_link_flaps(fleet: Fleet, observe: Observe) -> None:
    """Links stay up.

    Each time a link goes down, even for a second, the job that uses it stalls or ends. The count is that
    since the boot, by at least three days, because links go up and down while a node boots.

    Fix: clean or replace the transceiver and cable of the port named here, and look at its partner's
    counters; a port that flaps again after that is to be replaced.
    """
    for port in fleet.fabric_ports:
        observe(port, per_day=port.downs_per_day)


def test_symbol_errors(fleet: Fleet, observe: Observe) -> None:
    """InfiniBand links carry their bits without errors that remain after correction.

    A symbol error is one that the link's own correction could not repair. The packet is sent again, which
    costs time, and a link with many of them is about to fail. The rate is an average since the boot: at
    least so many were bad, and now it may be worse.

    Fix: clean or replace the transceiver and cable of the port named here; clear the counters and look
    again under load.
    """
    for port in fleet.infiniband_ports:
        observe(port, bit_error_rate=port.bit_error_rate)


def test_gid_routability(fleet: Fleet, observe: Observe) -> None:
    """Every RoCE port has an address that other nodes can reach, and jobs choose it by themselves.

    A port without an IP address still has link-local ones, which no router forwards: connections are set
    up and the first data is lost, so a job hangs until it times out. On a port that has IPv6 only, NCCL
    looks for IPv4, finds none, and falls back to such an address without a word.

    Fix: give the port named here its IP address, or take it out of the compute fabric's declared ports.
    For a fabric of IPv6 only, set NCCL_IB_ADDR_FAMILY=AF_INET6 for every job, in /etc/nccl.conf or in the
    image.
    """
    for port in fleet.roce_ports:
        observe(port, routable=port.routable_gids, nccl_choice=port.nccl_gid)


def test_gid_pinned(fleet: Fleet, observe: Observe) -> None:
    """An address index that is pinned for all jobs is a good one on every port.

    NCCL_IB_GID_INDEX is one number for all ports of all nodes, and NCCL uses it blindly. The tables that
    it points into are filled in the order in which addresses come up, so it is right until a link flaps
    or an adapter has another layout; then jobs hang or end with "No data available".

    Fix: take NCCL_IB_GID_INDEX out of the place named here; NCCL chooses by itself since 2.21. Where
    another index is needed, set NCCL_IB_ADDR_FAMILY and NCCL_IB_ADDR_RANGE instead.
    """
    for port in fleet.roce_ports:
        observe(port, entry=port.pinned_gid)


def test_gid_equal(fleet: Fleet, observe: Observe) -> None:
    """The RoCE ports of a pool have addresses of the same family, at the same index.

    A port with IPv4 only cannot talk to one with IPv6 only. An index that differs is no fault by itself,
    but UCX, NVSHMEM and the RDMA benchmarks are given one number for all ports.

    Fix: configure the ports of the node named here as those of its peers; for the index, take the
    interface down and up while no job uses it, or restart the node.
    """
    for node in fleet.nodes:
        observe(node, family=node.fabric.gid_families, index=node.fabric.gid_indices)


def test_mtu(fleet: Fleet, observe: Observe) -> None:
    """RoCE ports have the same large MTU on all nodes.

    RDMA cuts its messages into packets of the largest power of two that fits: 4096 bytes need an MTU of
    4192, and with Ethernet's usual 1500 there are only 1024 in each, which costs bandwidth. Where two
    nodes differ, connections fail or large messages are lost. Not only a rail has to agree: a job's
    messages cross from one to another, and an interface on top of a port, such as a VLAN, has its own.

    Fix: set the interface's MTU to 9000, or what the switches allow, on every node and every switch port.
    """
    for port in fleet.roce_ports:
        observe(port, at=port.rail, mtu=port.mtu)
        observe(port, path_mtu=port.path_mtu, across_rails=port.mtu, smaller_above=port.odd_interfaces)


def test_switch_frame(fleet: Fleet, observe: Observe) -> None:
    """Every switch port lets through the largest frame that the RoCE port at its other end sends.

    A switch drops what is too large without a word: small messages arrive, large ones never do, and the
    job hangs. Only the switch knows its limit. It tells it by LLDP, where the node has a daemon that
    listens and this user may ask it.

    Fix: raise the MTU of the switch port named here to 9216, or lower that of all ports of the fabric. To
    have it seen, run lldpd on the nodes and let the switches send the maximum frame size.
    """
    for port in fleet.roce_ports:
        observe(port, frame=port.switch_frame)


def test_planes(fleet: Fleet, observe: Observe) -> None:
    """Each GPU has the planes of the network that were sold, all up, and jobs take none without an address.

    A SuperNIC can be split over several separate networks. One plane less is a part of the bandwidth gone,
    with nothing to be seen but a slow job. The device that stands for all planes may be up and have no
    address: NCCL takes it with the others and hangs at its first message.

    Fix: bring up the plane named here. For a device without a usable address, leave it out of the list of
    adapters for all jobs (NCCL_IB_HCA in /etc/nccl.conf), or install the provider's own network plugin.
    """
    for node in fleet.nodes:
        planes = node.planes
        observe(node, per_gpu=planes.per_gpu, across_pool=planes.per_gpu)
        observe(node, missing=planes.missing, aggregates=planes.aggregates)


def test_fabric_class(fleet: Fleet, observe: Observe) -> None:
    """Each GPU has a network of the class that a rating asks for: 800G RoCE, or XDR InfiniBand.

    A rating compares providers on what they sell today. What counts is what all ports of the fabric
    that carry traffic give each GPU of a node, over all planes.

    Fix: have a cluster with a network of the current generation rated; no setting changes this.
    """
    for node in fleet.nodes:
        observe(node, gbps_per_gpu=node.planes.gbps_per_gpu)


def test_pfc(fleet: Fleet, observe: Observe) -> None:
    """All RoCE ports of a pool pause the same priorities.

    Priority flow control makes a queue lossless, if both ends of every link and all nodes agree on which
    one. A node that differs loses packets under load, or is paused by traffic that is none of its own.
    That no priority is paused is no fault: some fabrics are built to lose packets and recover.

    Fix: set the priorities of the port named here as on its peers (mlnx_qos, dcb, or lldpad), and make it
    last through a reboot.
    """
    for port in fleet.roce_ports:
        observe(port, at=port.rail, priorities=port.lossless)


def test_hca_names(fleet: Fleet, observe: Observe) -> None:
    """The same name is the same adapter on every node.

    Jobs name adapters once for all nodes (NCCL_IB_HCA), and rails are wired by slot: mlx5_3 of one node
    and mlx5_3 of another meet at one switch only if both are in the same slot. The kernel numbers
    adapters in the order in which they answer, which may differ from one boot to the next.

    Fix: name adapters by their slots, with rdma-core's persistent naming rules, on every node.
    """
    for node in fleet.nodes:
        observe(node, by_slot=node.fabric.names_by_slot)


def test_guid_unique(fleet: Fleet, observe: Observe) -> None:
    """No two adapters of the fleet have the same GUID.

    Fabrics tell adapters apart by it. Two with one GUID, as after a board was programmed by copying,
    take each other's connections, or a subnet manager switches one off.

    Fix: program the adapter named here with the GUID of its label, or return it.
    """
    for port in fleet.fabric_ports:
        observe(port, others=fleet.guid_twins(port))


def test_partitions(fleet: Fleet, observe: Observe) -> None:
    """InfiniBand ports are members of the partitions that were agreed, the same on all nodes.

    A full member of the default partition can talk to every other member: on a fabric that tenants share,
    that is no isolation. Nodes without a common partition cannot form a job.

    Fix: have the subnet manager give the port named here the partition of its tenant, and limited
    membership of the default one. What was agreed is `default_partition` in the site file: "limited",
    "none", or "full" for a fabric that nobody shares.
    """
    for port in fleet.infiniband_ports:
        observe(port, default=port.default_partition, across_pool=port.partitions)


def test_fabric_keys(measure: Measure, observe: Observe) -> None:
    """The management of an InfiniBand fabric tells a tenant nothing that is not his.

    Who can send management packets, and meets no M_Key, reads the state of every switch, and sets it; a
    subnet administrator that lists switches shows the whole topology, with all that other tenants have.
    Where this user may not open the management device, none of it is seen: M_Key, SM_Key, SA_Key and the
    profile of the fabric's manager are then the provider's to show.

    Fix: set a random M_Key with protection level 1 or above, SA_Key and SM_Key in the subnet manager, or
    the secured profile of UFM, and leave /dev/infiniband/umad* to root.
    """
    for node in measure("fabric_seat"):
        observe(node, m_key=node.m_key, shows_fabric=node.shows_fabric)


def test_gpudirect(fleet: Fleet, observe: Observe) -> None:
    """Network adapters read and write the memory of GPUs directly.

    Without it every byte between nodes is copied through the host's memory: a fraction of the bandwidth,
    with no error to be seen. It needs the open kernel modules of the driver on Linux 5.12 or newer
    (dma_buf), or the module nvidia_peermem.

    Fix: install the driver's open kernel modules, or load nvidia_peermem at boot.
    """
    for node in fleet.nodes:
        observe(node, by=node.fabric.gpudirect, gdrcopy=node.fabric.gdrcopy)


def test_nccl_config(fleet: Fleet, observe: Observe) -> None:
    """No setting of NCCL is left where it slows or breaks every job, and all nodes have the same.

    A variable that somebody set to find a fault once, in /etc/nccl.conf or in the environment, stays
    until somebody finds it: jobs that use TCP instead of RDMA, or one algorithm for all sizes, run and
    are slow. A list of adapters without "=" takes every name that begins so: mlx5_1 is mlx5_10, too.

    Fix: take the settings named here out of the place named with them.
    """
    for node in fleet.nodes:
        fabric = node.fabric
        observe(node, crippling=fabric.crippling, left_over=fabric.left_over)
        observe(node, across_pool=fabric.settings_text, plugins=fabric.plugins_text)
