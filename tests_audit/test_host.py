"""How the hosts are set up."""

from gpuassay.fixtures import Fleet, Observe


def test_memlock(fleet: Fleet, observe: Observe) -> None:
    """A process may lock as much memory as RDMA needs.

    RDMA hardware reads and writes memory that must not move, so every buffer is locked. Under a limit,
    registering a buffer fails, and a job ends with "cannot allocate memory" on a machine that has plenty.

    Fix: set `memlock` to unlimited, soft and hard, in /etc/security/limits.d; LimitMEMLOCK=infinity in
    the units of the scheduler's and the container runtime's daemons, which hand their own limit on to
    every job.
    """
    for node in fleet.nodes:
        observe(node, locked_memory=node.memlock)


def test_time_sync(fleet: Fleet, observe: Observe) -> None:
    """Every node keeps its clock by a time source.

    When a fault was detected, when work was moved and when a spare took over are times from different
    machines. They can be compared, and an agreed reaction time enforced, only if the clocks agree;
    tickets and certificates need it as well.

    Fix: run chrony, systemd-timesyncd or PTP with a source that the node can reach. With chrony keep
    `rtcsync` in its configuration: without it the kernel is never told that the clock is right.
    """
    for node in fleet.nodes:
        observe(node, synchronized=node.clock_synchronized, max_error=node.clock_max_error_ms)
