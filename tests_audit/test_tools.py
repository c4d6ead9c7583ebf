"""What the well-known diagnostic tools say of a node, where the user lets them run."""

from gpuassay.fixtures import Measure, Observe


def test_dcgm_diag(measure: Measure, observe: Observe) -> None:
    """NVIDIA's own diagnostic finds no fault, and none of its tests was left out.

    It stresses memory and links for some minutes, and its word carries weight when a GPU is sent back. A test
    that was skipped, or whose plugin is not installed, proves nothing and is said to be missing here.

    Fix: follow what the failed test says; NVIDIA replaces parts on its word. Install the missing plugins
    (datacenter-gpu-manager with its CUDA packages), switch MIG off for the test, and run it again.
    """
    for node in measure("dcgm_diag"):
        for test in node.tests:
            observe(test, failed=test.failed, warned=test.warned)


def test_rvs(measure: Measure, observe: Observe) -> None:
    """AMD's own validation suite finds no fault, and none of its modules was left out.

    It drives memory, links and matrix units of every GPU to figures that AMD has set for the product. A
    module that could not be loaded, or an action that ended with an error, proves nothing and is said to be
    missing here; of a bandwidth it prints no verdict, and only that it ran is told.

    Fix: follow what the failed action says, and have AMD look at a GPU that misses its figure again. Install
    rocm-validation-suite with the libraries of its modules (rocBLAS, hipBLASLt), and run it as root.
    """
    for node in measure("rvs"):
        for test in node.tests:
            observe(test, failed=test.failed)
