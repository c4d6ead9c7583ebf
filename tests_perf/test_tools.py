"""What well-known tools say of performance, beside our own workloads."""

from gpuassay.fixtures import Measure, Observe


def test_nccl_tests(measure: Measure, observe: Observe) -> None:
    """The vendor's own test of collectives finds right values and the known bandwidth on each node.

    It is what a provider is likely to have run: where it differs from our own figure, one of the two has
    other libraries or settings. Its largest message counts; its average is over all sizes, and says little.

    Fix: where the tool is missing, build it into a folder of PATH; where values are wrong, take the node
    out; where it died, read its last line, which is quoted.
    """
    for node in measure("nccl_tests"):
        observe(node, busbw_gbps=node.busbw_gbps, wrong=node.wrong)


def test_nvbandwidth(measure: Measure, observe: Observe) -> None:
    """Copies between each GPU and the host are as fast as the link between them.

    Data comes in, and checkpoints go out, this way. A link of half the width, or a GPU whose host memory lies
    at the other processor, shows here.

    Fix: look at the width and speed of the GPU's PCIe link under load, at which processor it hangs, and at
    the IOMMU; on a virtual machine at how memory is backed. Build the tool where it is missing.
    """
    for node in measure("nvbandwidth"):
        observe(node, to_device_gbps=node.to_device_gbps, to_host_gbps=node.to_host_gbps, broken=node.broken)


def test_nvbandwidth_peers(measure: Measure, observe: Observe) -> None:
    """Each GPU writes to each other one of its node as fast as NVLink can.

    A pair that is slow slows every collective of the node, and whatever splits a model over its GPUs; the
    average over all pairs hides it.

    Fix: look at the NVLink errors and states of the two GPUs that are named; where all pairs are slow, at
    Fabric Manager, and at whether peer access is off.
    """
    for node in measure("nvbandwidth"):
        observe(node, between_gbps=node.between_gbps, between_of_median=node.between_of_median)


def test_mamf_finder(measure: Measure, observe: Observe) -> None:
    """The public tool for matrix products finds what it found on other machines of this product.

    Its results are the ones that people compare. Version 4 has a sustained figure, which decides; version 2
    has none, and its bursts are not taken for it.

    Fix: take version 4 of the tool; where it is slow, compare clocks, power and temperature with our own
    figures in this recording.
    """
    for node in measure("mamf_finder"):
        observe(node, sustained_tflops=node.sustained_tflops, burst_tflops=node.burst_tflops)


def test_hpl_mxp(measure: Measure, observe: Observe) -> None:
    """HPL-MxP solves its equations on each node to the residual that it asks for, and no node lags.

    It multiplies in short formats and refines in long ones, so a GPU that computes wrong is found by the
    residual. Its rate on one node says little, and is compared between nodes only.

    Fix: where the residual failed, test each GPU of the node alone, and return the one that fails.
    """
    for node in measure("hpl_mxp"):
        observe(node, passed=node.passed, per_gpu_tflops=node.per_gpu_tflops)


def test_transferbench(measure: Measure, observe: Observe) -> None:
    """All GPUs of a node copy to all others at once as fast as xGMI can, and every copy arrives as it was.

    It is AMD's own test, and the one of its acceptance: it compares every copy, and what an IOMMU between the
    GPUs does to them is seen by it.

    Fix: where a copy came out wrong, set the IOMMU to pass-through; where it is slow, look at the state and
    errors of the xGMI links.
    """
    for node in measure("transferbench"):
        observe(node, average_gbps=node.average_gbps, wrong=node.wrong)
