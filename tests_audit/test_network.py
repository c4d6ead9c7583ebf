"""What carries the traffic between nodes."""

from gpuassay.fixtures import Fleet, Observe


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
