"""Which software runs, and whether it is the same everywhere."""

from gpuassay.fixtures import Fleet, Observe


def test_driver_floor(fleet: Fleet, observe: Observe) -> None:
    """Every node's GPU driver has the published security fixes of its branch.

    The driver runs in the kernel and takes commands from every tenant's program: a known hole in it opens
    the host. A branch that its maker has ended gets no fixes at all, however high its number.

    Fix: drain the nodes and update the driver to the floor of its branch or above; leave an ended branch
    for one that is maintained. If the branch is newer than this table, bring the table up to date.
    """
    for node in fleet.nodes:
        observe(node, version=node.driver_version)


def test_driver_equal(fleet: Fleet, observe: Observe) -> None:
    """All nodes of a pool run the same GPU driver.

    One job runs on many nodes at once. With different drivers it may hang or slow down on some of them
    only, and what was tested on one node was not tested on another.

    Fix: decide which version is meant, update the nodes that differ, and keep the driver in the image or
    the configuration management, out of the reach of automatic upgrades.
    """
    for node in fleet.nodes:
        observe(node, version=node.driver_version)


def test_amdgpu_floor(fleet: Fleet, observe: Observe) -> None:
    """Every node's AMD driver has the published security fixes.

    The driver runs in the kernel and takes commands from every tenant's program: a known hole in it brings
    the host down, or opens it. Of the driver that a distribution's kernel brings along, AMD's bulletins
    name no fixed version.

    Fix: drain the nodes, update AMD's driver to the version named here or above, and reboot. For a
    distribution's own driver, have the provider show which fix it has.
    """
    for node in fleet.nodes:
        observe(node, version=node.amdgpu.release)


def test_rocm_equal(fleet: Fleet, observe: Observe) -> None:
    """All nodes of a pool have the same ROCm.

    One job runs on many nodes at once, and its libraries come from the host where no container brings
    them. With different ones it may hang or slow down on some nodes only.

    Fix: decide which version is meant, update the nodes that differ, and keep ROCm in the image.
    """
    for node in fleet.nodes:
        observe(node, version=node.amdgpu.rocm)
