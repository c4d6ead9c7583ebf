"""What is built in: accelerators, their memory protection and their links."""

from gpuassay.fixtures import Fleet, Observe


def test_gpu_count(fleet: Fleet, observe: Observe) -> None:
    """Every GPU that was sold is in the machine, and the driver can use it.

    Three witnesses must name one number: the contract, the PCI bus and the driver. A GPU that only the
    contract knows is missing, one that only the bus shows cannot be used, and a node with fewer than its
    peers stops any job that counts on them all.

    Fix: reset a GPU that is on the bus and not in the driver, and reboot the node if that does not bring
    it back. One that is not on the bus either needs hands: reseat it, or return the node.
    """
    for node in fleet.nodes:
        observe(node, on_bus=node.gpus_on_bus, in_driver=node.gpus_in_driver, usable=node.gpus_seen)
        observe(node, seen=node.gpus_seen, across_pool=node.gpus_on_bus)


def test_ecc_mode(fleet: Fleet, observe: Observe) -> None:
    """Every GPU protects its memory with ECC, now and after the next reset.

    Without ECC a flipped bit goes unnoticed into weights and results. The mode changes only at a reset,
    so a GPU may run protected today and be set to lose its protection at the next boot.

    Fix: switch ECC on for the GPUs named here and reset them; then find what switched it off, often a
    boot script.
    """
    for gpu in fleet.gpus:
        observe(gpu, enabled=gpu.ecc_current, enabled_after_reset=gpu.ecc_pending)


def test_pcie_width(fleet: Fleet, observe: Observe) -> None:
    """Every GPU's PCIe link has all the lanes that it was built with.

    A link that trained with half its lanes has half its bandwidth to the host, to storage and to the
    network card, and nothing reports it: no error, no event. An idle link may run slower to save power,
    but it keeps its width.

    Fix: drain the node and power it off and on. If the link comes back narrow, reseat the GPU and its
    riser or cable, then replace the retimer or the board.
    """
    for gpu in fleet.gpus:
        observe(gpu, width=gpu.pcie_width)


def test_accelerator(fleet: Fleet, observe: Observe) -> None:
    """Every GPU is the product that was sold.

    Products of one family look alike in a rack and in a price list, and differ by half in speed and memory.
    What counts is what the card says of itself: its exact name and its id on the PCI bus.

    Fix: none in place: it is another product. Return the nodes, or change the contract and its price; if
    the site file names the wrong one, correct it.
    """
    for gpu in fleet.gpus:
        observe(gpu, product=gpu.product, across_pool=gpu.product)


def test_accelerator_class(fleet: Fleet, observe: Observe) -> None:
    """Every GPU is of a class that a rating accepts.

    A rating compares providers on what they sell today; a fleet of an older generation can be sound and as
    agreed, and is still not rated.

    Fix: have a cluster of the current generation rated; no setting changes this.
    """
    for gpu in fleet.gpus:
        observe(gpu, product=gpu.product)


def test_accelerators_in_all(fleet: Fleet, observe: Observe) -> None:
    """The cluster has as many accelerators as a rating asks for.

    What goes wrong between nodes shows only where there are enough of them: a rating of two nodes says
    nothing of a cluster.

    Fix: have a larger part of the cluster rated; first bring back GPUs that cannot be used.
    """
    for cluster in fleet.clusters:
        observe(cluster, usable=cluster.accelerators)


def test_identity(fleet: Fleet, observe: Observe) -> None:
    """Every GPU has an identity of its own, and those of a pool are of one make.

    Serial numbers and UUIDs are how a replaced or moved part is told: one that turns up twice was copied,
    and no record of faults can be trusted. Boards or firmware that differ within a pool are often parts
    that came back from repair, and may differ in power and clocks.

    Fix: ask the provider for the record of the parts named here. Bring the firmware of a pool to one
    version at the next maintenance.
    """
    for gpu in fleet.gpus:
        observe(gpu, uuid=gpu.uuid, serial=gpu.serial, board_part=gpu.board_part, vbios=gpu.vbios)


def test_memory(fleet: Fleet, observe: Observe) -> None:
    """Every GPU has the memory of its product.

    Models are cut to fit the memory to the last gigabyte. A GPU that shows less has lost part of it, or is
    a smaller variant under the same name; a job that spans the pool fails at the smallest.

    Fix: compare the board's part number with the contract. A part that shows less than its siblings goes
    back.
    """
    for gpu in fleet.gpus:
        observe(gpu, memory=gpu.memory_mib, across_pool=gpu.memory_mib)


def test_partition_mode(fleet: Fleet, observe: Observe) -> None:
    """Every GPU is whole, or partitioned, as agreed, and stays so after the next reset.

    A partitioned GPU is several small ones: a scheduler that counts eight and a job that wants all of the
    memory both go wrong. The mode changes at a reset only, so it may be set already for the next one.

    Fix: set the mode that was agreed on the GPUs named here and reset them; then find what changed it,
    often a leftover of another tenant.
    """
    for gpu in fleet.gpus:
        observe(gpu, mode=gpu.partition_mode, across_pool=gpu.partition_mode)
        observe(gpu, after_reset=gpu.partition_mode_after_reset)


def test_persistence(fleet: Fleet, observe: Observe) -> None:
    """The driver stays loaded on every GPU between jobs.

    Without persistence the driver lets go of an idle GPU: the next program waits for it to come back,
    and settings such as a power limit are lost.

    Fix: enable nvidia-persistenced on every node.
    """
    for gpu in fleet.gpus:
        observe(gpu, persistence=gpu.persistence)


def test_power_limit(fleet: Fleet, observe: Observe) -> None:
    """Every GPU may draw the power that was agreed, or that its product is made for.

    A limit below the product's own takes speed from every long computation, and no error tells of it. It is
    a way to fit more machines into a room than its power and cooling can feed.

    Fix: set the limit back to its default on the GPUs named here. If less was agreed, declare it in the
    site file: `power_limit_w`, of each GPU.
    """
    for gpu in fleet.gpus:
        observe(gpu, limit=gpu.power_limit_w, across_pool=gpu.power_limit_w)


def test_clock_limits(fleet: Fleet, observe: Observe) -> None:
    """No GPU is held below the clocks of its product.

    Clocks that an administrator or another tenant has set stay until somebody sets them back, and slow down
    every program without a word. What is looked at is the setting: an idle GPU clocks down by itself.

    Fix: reset the applications clocks of the GPUs named here. A part whose highest clock differs from its
    siblings' has other firmware or is another variant: compare their part numbers.
    """
    for gpu in fleet.gpus:
        observe(gpu, compute=gpu.clock_limit_mhz, memory=gpu.memory_clock_limit_mhz)
        observe(gpu, across_pool=gpu.clock_max_mhz)


def test_pcie_generation(fleet: Fleet, observe: Observe) -> None:
    """Every GPU's PCIe link can reach the speed of its product.

    Each generation doubles the speed to the host, to storage and to the network card. A riser, a setting of
    the BIOS or a slot of an older generation takes half of it. What the link can reach counts, not its
    speed now: an idle link may rightly be slow.

    Fix: look for a limit of the link speed in the BIOS of the nodes named here, then for a riser or cable
    of an older generation.
    """
    for gpu in fleet.gpus:
        observe(gpu, possible=gpu.pcie_gen_max, across_pool=gpu.pcie_gen_max)


def test_processors(fleet: Fleet, observe: Observe) -> None:
    """Every node has the processors that were sold, cut up as on its peers.

    A processor that is missing or partly switched off, or another number of NUMA nodes per socket, changes
    which cores feed which GPU: what is pinned well on one node is pinned wrong on the next.

    Fix: compare the BIOS settings of the nodes named here with their peers' (threads, nodes per socket),
    and look for processors that the kernel has taken offline.
    """
    for node in fleet.nodes:
        observe(node, sockets=node.machine.sockets, cores=node.machine.cores, threads=node.machine.threads)
        observe(node, numa_nodes=node.machine.numa_nodes, across_pool=node.machine.processors)


def test_system_memory(fleet: Fleet, observe: Observe) -> None:
    """Every node has the memory that was sold.

    A module that fails its test at boot is left out, and the machine starts without it: with less memory
    and less bandwidth, and the first to notice is a job that needs it all.

    Fix: find the missing module in the BMC's event log and reseat or replace it.
    """
    for node in fleet.nodes:
        observe(node, memory=node.machine.memory_gib, beside_peers=node.machine.memory_gib)


def test_nics(fleet: Fleet, observe: Observe) -> None:
    """Every node has the network adapters of its peers.

    One adapter less is one rail less for every job on that node. Boards of another make under one model
    name take other firmware, and differ where nobody looks.

    Fix: find a missing adapter on the PCI bus; if it is not there, reseat it. For boards that differ ask
    the provider for their record, and bring them to one firmware.
    """
    for node in fleet.nodes:
        observe(node, adapters=node.nic_models, boards=node.nic_boards)


def test_affinity(fleet: Fleet, observe: Observe) -> None:
    """GPUs and the NICs of the fabric sit at the same processors, and do so on every node alike.

    What a GPU sends through a NIC at the other processor crosses the link between them, slower and beside
    everybody else. Libraries choose by what the system says of places; in a virtual machine it often says
    nothing.

    Fix: compare slots and BIOS settings of a node that differs. In a virtual machine have the host pass
    NUMA nodes on, or give the collective library a topology file.
    """
    for node in fleet.nodes:
        observe(node, gpus_unplaced=node.affinity.gpus_unplaced, gpus_far=node.affinity.gpus_far)
        observe(node, across_pool=node.affinity.layout)


def test_nvme(fleet: Fleet, observe: Observe) -> None:
    """Every node has the local drives that were sold.

    Local drives hold data sets, images and checkpoints close to the GPUs. A drive that is gone, or a
    smaller one put in its place, shows only when the cache overflows.

    Fix: look for a missing drive on the PCI bus and in the kernel's log; reseat or replace it.
    """
    for node in fleet.nodes:
        observe(node, drives=node.drives.count, seen=node.drives.count)
        observe(node, capacity=node.drives.capacity_tb, across_pool=node.drives.models)


def test_nvme_wear(fleet: Fleet, observe: Observe) -> None:
    """No local drive is worn out or warns of itself.

    Flash endures a number of writes. Drives that earlier tenants filled with checkpoints may have little
    left, and a worn drive slows down, turns read-only, or loses data.

    Fix: replace the drives named here. Ask for the wear of the others, and what happens when they reach
    their end.
    """
    for node in fleet.nodes:
        observe(node, used=node.drives.worst_used_percent, warning=node.drives.warning)


def test_hbm_exposure(fleet: Fleet, observe: Observe) -> None:
    """The memory of coherent GPUs belongs to the GPU driver, not to the operating system.

    On Grace superchips the system can take the GPUs' memory for its own. Then any process can fill it, pages
    of the kernel and of other users come to lie in it, and the limits of containers do not hold for it.

    Fix: load the NVIDIA kernel module with NVreg_CoherentGPUMemoryMode=driver (R580 and later) on every
    node, and reboot.
    """
    for node in fleet.nodes:
        observe(node, exposed=node.machine.memory_only_gib, mode=node.gpu_memory_mode)


def test_partitions(fleet: Fleet, observe: Observe) -> None:
    """Every GPU is divided like its peers and as agreed, and none of its parts is missing.

    An AMD GPU may be used whole or as up to eight, each with its share of the memory. A job that counts on
    one division does not start, or runs at a fraction of its speed, on another; and a reset or a repair
    sets a GPU back to one whole. A part that its driver does not offer cannot be used at all.

    Fix: set compute and memory partition alike on all GPUs (amd-smi set), in the node's boot or its
    provisioning so that they outlast a reset; reload the driver if a part is missing.
    """
    for gpu in fleet.gpus:
        observe(gpu, compute=gpu.compute_partition, memory=gpu.memory_partition)
        observe(gpu, compute_agreed=gpu.compute_partition, memory_agreed=gpu.memory_partition)
        observe(gpu, offered=gpu.partitions)


def test_xgmi_links(fleet: Fleet, observe: Observe) -> None:
    """Every AMD GPU has all its xGMI links to its peers.

    The GPUs of a node exchange data over direct links, one for each pair. Without one of them the traffic
    of that pair goes through the host at a fraction of the speed, and every collective waits for it.

    Fix: drain the node and power it off and on. If the link stays away, return the node: module or board.
    """
    for gpu in fleet.gpus:
        observe(gpu, links=gpu.xgmi_links)
