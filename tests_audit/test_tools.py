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
