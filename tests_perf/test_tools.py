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
