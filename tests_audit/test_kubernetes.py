"""What Kubernetes says of the cluster."""

from gpuassay.fixtures import Fleet, Observe


def test_drain_and_cordon(fleet: Fleet, observe: Observe) -> None:
    """Slurm and Kubernetes hold the same nodes out of service.

    Where Slurm runs on Kubernetes, a node that only Kubernetes has cordoned, or lost, still gets Slurm's
    jobs, and one that only Slurm has drained still gets pods: while somebody repairs it.

    Fix: cordon and drain together, as the Slurm operator does where it is let, and undo both together.
    """
    for node in fleet.agreements:
        observe(node, agree=node.agree)
