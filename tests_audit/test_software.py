"""Software for jobs on the nodes of a Slurm cluster: libraries, compilers and how they are found."""

from gpuassay.fixtures import Fleet, Observe


def test_nccl(fleet: Fleet, observe: Observe) -> None:
    """NCCL is installed for all users, in the same version on every node.

    Programs that bring no NCCL of their own take the system's. Two versions within one job may hang it, or
    end it with an error that names neither.

    Fix: install libnccl2 and libnccl-dev from NVIDIA's repository, held to one version.
    """
    for node in fleet.nodes:
        observe(node, installed=node.equipment.has_nccl, version=node.equipment.nccl)


def test_hpc_sdk(fleet: Fleet, observe: Observe) -> None:
    """NVIDIA's HPC SDK is installed on every node.

    It has compilers for Fortran and OpenACC, HPC-X, and the mathematical libraries in versions that fit.

    Fix: install nvhpc, and offer it by a module.
    """
    for node in fleet.nodes:
        observe(node, installed=node.equipment.hpc_sdk)


def test_modules(fleet: Fleet, observe: Observe) -> None:
    """Shells on every node know environment modules (Lmod).

    Without them users hunt for compilers and MPI below /opt, and each finds another version. Which modules
    there are is not looked at.

    Fix: install lmod, and write modules for CUDA, MPI (HPC-X), NCCL and the HPC SDK.
    """
    for node in fleet.nodes:
        observe(node, installed=node.equipment.lmod)
