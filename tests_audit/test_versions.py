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


def test_driver_library(fleet: Fleet, observe: Observe) -> None:
    """The GPU driver's libraries are of the version of the kernel module that is loaded.

    An upgrade that replaces the libraries below a loaded module leaves running programs alone and stops
    every new one: no GPU can be opened until the module is of the same version again.

    Fix: drain the node and reload the module or reboot; keep the driver out of automatic upgrades.
    """
    for node in fleet.nodes:
        observe(node, fits=node.versions.library_fits_module)


def test_fabric_manager(fleet: Fleet, observe: Observe) -> None:
    """The Fabric Manager is of the driver's version, wherever it is installed.

    It sets up the NVLink switches and refuses to start for a driver of another version. Without it no
    program on such a board can use a GPU.

    Fix: install the Fabric Manager of the driver's version together with it; remove it from machines
    without NVLink switches.
    """
    for node in fleet.nodes:
        observe(node, version=node.versions.fabric_manager)


def test_container_toolkit(fleet: Fleet, observe: Observe) -> None:
    """The toolkit that gives containers their GPUs has no published hole that is overdue.

    It runs as root on the host for every container that asks for a GPU: a hole in it lets a tenant's
    container write to the host.

    Fix: update the toolkit to the version named, or the operator that installs it; then restart the
    container runtime.
    """
    for node in fleet.nodes:
        observe(node, version=node.versions.container_toolkit)


def test_runc(fleet: Fleet, observe: Observe) -> None:
    """What starts containers, runc, has no published hole that is overdue.

    It starts every container, as root and with the host still in sight: known holes in it are the
    classic way out of a container. What a distribution has mended in an old version counts as mended.

    Fix: update it to the version named, from where it was installed. If no advisory speaks of that
    package, bring the table of advisories up to date.
    """
    for node in fleet.nodes:
        observe(node, version=node.versions.runc)


def test_containerd(fleet: Fleet, observe: Observe) -> None:
    """The container runtime containerd has no published hole that is overdue.

    It unpacks and starts every container of the node as root. What a distribution has mended in an old
    version counts as mended.

    Fix: update it to the version named, from where it was installed. If no advisory speaks of that
    package, bring the table of advisories up to date.
    """
    for node in fleet.nodes:
        observe(node, version=node.versions.containerd)


def test_crio(fleet: Fleet, observe: Observe) -> None:
    """CRI-O has no published hole that is overdue.

    It unpacks and starts every container of the node as root. What a distribution has mended in an old
    version counts as mended.

    Fix: update it to the version named, from where it was installed. If no advisory speaks of that
    package, bring the table of advisories up to date.
    """
    for node in fleet.nodes:
        observe(node, version=node.versions.crio)


def test_docker(fleet: Fleet, observe: Observe) -> None:
    """Docker Engine has no published hole that is overdue.

    Its daemon is root on the node, and everyone who may use it has a way to become root. What a
    distribution has mended in an old version counts as mended.

    Fix: update it to the version named, from where it was installed. If no advisory speaks of that
    package, bring the table of advisories up to date.
    """
    for node in fleet.nodes:
        observe(node, version=node.versions.docker)


def test_dcgm(fleet: Fleet, observe: Observe) -> None:
    """DCGM has no published hole that is overdue.

    The daemon runs as root on every GPU node, and programs from other hosts may ask it: what stops or
    misleads it stops or misleads the health checks of the whole cluster.

    Fix: update DCGM to the version named, and restart its daemon and exporter.
    """
    for node in fleet.nodes:
        observe(node, version=node.versions.dcgm)


def test_dcgm_exporter(fleet: Fleet, observe: Observe) -> None:
    """The DCGM exporter has no published hole that is overdue.

    It answers over the network, mostly without asking who is there: a hole in it is open to everyone
    who reaches the port.

    Fix: update the exporter to the version named; close its port to all but the monitoring.
    """
    for node in fleet.nodes:
        observe(node, version=node.versions.dcgm_exporter)


def test_cuda_toolkit(fleet: Fleet, observe: Observe) -> None:
    """What the installed CUDA toolkit builds can run on the installed driver.

    A toolkit of a newer major version than the driver's needs a compatibility package; without it every
    program that it builds stops at its start. An older toolkit is no fault. Its own advisories are
    shown for information.

    Fix: update the driver, install the cuda-compat package of the toolkit's version, or install a
    toolkit of the driver's major version.
    """
    for node in fleet.nodes:
        observe(node, runs=node.versions.cuda_toolkit_runs, version=node.versions.cuda_toolkit)


def test_nic_firmware(fleet: Fleet, observe: Observe) -> None:
    """Every ConnectX and BlueField card has the published security fixes of its firmware train.

    The firmware takes commands from every virtual machine that has a part of the card: a known hole in
    it reaches the card, and with it all traffic. Cards of one board with different firmware behave
    differently in one job.

    Fix: update the firmware to the floor of its train or above; leave a train without a fixed release
    for one that has one. If the train is newer than this table, bring the table up to date.
    """
    for nic in fleet.nics:
        observe(nic, train=nic.firmware)
        observe(nic, at=nic.kind, across_pool=nic.firmware)


def test_virtio_net(fleet: Fleet, observe: Observe) -> None:
    """The virtio-net controller of every BlueField-3 has its published security fixes.

    It serves the network devices of virtual machines from the card: a hole in it lets a virtual machine
    run code on the card.

    Fix: update the controller on the card to the version named (DOCA); take evidence on the card, as
    its host cannot see it.
    """
    for node in fleet.nodes:
        observe(node, version=node.versions.virtio_net)


def test_qemu(fleet: Fleet, observe: Observe) -> None:
    """QEMU has no published hole that is overdue.

    It holds a tenant's virtual machine inside: a hole in it is a way to the host and to its neighbours,
    and to every GPU that is passed through to them.

    Fix: update QEMU from the distribution, then restart or migrate the virtual machines that still run
    the old one.
    """
    for node in fleet.nodes:
        observe(node, version=node.versions.qemu)


def test_kernel_fixes(fleet: Fleet, observe: Observe) -> None:
    """The running kernel has the fixes for Fragnesia, Januscape and VMSCAPE.

    Each lets a local user, or a guest, take over the host or read it. A fix has another version number
    in every flavour of a distribution's kernel, so each is compared with its own; of a kernel that no
    advisory here speaks of nothing is claimed.

    Fix: update the kernel to the version named and reboot. If no advisory speaks of it, bring the table
    of advisories up to date.
    """
    for node in fleet.nodes:
        observe(
            node,
            fragnesia=node.versions.kernel.package,
            januscape=node.versions.kernel.package,
            vmscape=node.versions.kernel.package,
        )


def test_kernel_current(fleet: Fleet, observe: Observe) -> None:
    """The newest kernel that is installed is the one that runs.

    Security fixes that are installed and wait for a reboot protect nobody, and the next reboot brings a
    kernel on which nothing was tested.

    Fix: drain the node and reboot it; remove a kernel that is not meant to run.
    """
    for node in fleet.nodes:
        observe(node, newest=node.versions.kernel.is_newest)


def test_software_equal(fleet: Fleet, observe: Observe) -> None:
    """All nodes of a pool run the same kernel, system, container runtime and network driver.

    One job runs on many nodes at once: what differs between them shows up as a hang or a slow rank on
    some, and what was tested on one node was not tested on another.

    Fix: decide what is meant, update the nodes that differ, and keep all of it in the image, out of the
    reach of automatic upgrades.
    """
    for node in fleet.nodes:
        observe(
            node,
            kernel=node.versions.kernel.release,
            system=node.versions.system,
            container_runtime=node.versions.container_runtime,
            rdma_driver=node.versions.rdma_driver,
        )


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
