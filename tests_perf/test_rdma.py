"""How fast the ports of the compute fabric are, between pairs of nodes and without a collective."""

from gpuassay.fixtures import Measure, Observe


def test_bandwidth(measure: Measure, observe: Observe) -> None:
    """Each port writes, reads and sends at nearly its line rate, all ports of a node at once, and none lags.

    By the tool that every network engineer knows, without any library of collectives: where a collective is
    slow and this is not, the library or its settings are at fault; where this is slow, the port is. Messages
    go up to what the tool and the port take; what became of larger ones, up to 16 GiB, is said.

    Fix: look at the rate, width, errors and cable of the port, at the switch it ends at, and at the PCIe link
    of its card. Where the tool is missing, install it.
    """
    for port in measure("perftest"):
        observe(port, write_of_line=port.write_of_line, read_of_line=port.read_of_line)
        observe(port, send_of_line=port.send_of_line, write_gbps=port.write_gbps)
        observe(port, largest_gib=port.largest_gib)


def test_gpu_memory(measure: Measure, observe: Observe) -> None:
    """Each port writes from the memory of one GPU to that of another at nearly its line rate.

    Without GPUDirect, or with PCIe traffic that is sent by way of the processor, it is half of it or less.

    Fix: load nvidia-peermem, or take a kernel and driver with DMA-BUF; turn off ACS redirection; where the
    tool knows no GPU memory, build it with it.
    """
    for port in measure("perftest"):
        observe(port, gpu_write_of_line=port.gpu_write_of_line)


def test_latency(measure: Measure, observe: Observe) -> None:
    """A small message is on the other node within a few microseconds, from each port alike.

    Small collectives, which are most of them in serving, take as long as their slowest hop; a port that is
    routed by a detour shows here and in no bandwidth.

    Fix: look at how many switches lie between the nodes, at congestion and pause frames, and at power
    states of the processors.
    """
    for port in measure("perftest"):
        observe(port, write_us=port.write_us, beside_pool=port.write_us)
