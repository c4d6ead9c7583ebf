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
