"""What a tenant could reach that is not his."""

from gpuassay.fixtures import Fleet, Observe


def test_bmc_path(fleet: Fleet, observe: Observe) -> None:
    """No user of a node can command its management controller.

    The IPMI device asks for no password: whoever can open it can switch the machine off, add accounts to
    its BMC and replace its firmware, which then outlives every reinstallation and meets the next tenant.
    Where tenants are root of a physical machine, its mere presence is that way; only the provider can
    say whether they are, so that is told and not counted. The BMC's own network is not seen from here.

    Fix: leave /dev/ipmi* to root alone (mode 0600). Where tenants are root, disable the host's system
    interface in the BMC.
    """
    for node in fleet.nodes:
        exposure = node.exposure
        observe(node, open_to_users=exposure.ipmi_open_to_users, open_to_root=exposure.ipmi_open_to_root)


def test_dpu_path(fleet: Fleet, observe: Observe) -> None:
    """No way leads from a node into its DPU.

    A BlueField keeps tenants apart only as long as they cannot reach it. Its management interface on the
    host, rshim, gives a console, a network into its operating system, and lets root replace its boot
    image.

    Fix: stop rshim on the host, and restrict the host from the DPU: mlxprivhost -d <device> r
    --disable_rshim --disable_tracer --disable_counter_rd --disable_port_owner, then a power cycle.
    """
    for node in fleet.nodes:
        exposure = node.exposure
        observe(
            node,
            networks=exposure.rshim_networks,
            open_to_users=exposure.rshim_open_to_users,
            functions=exposure.rshim_functions,
        )


def test_open_secrets(fleet: Fleet, observe: Observe) -> None:
    """Keys that admit to the cluster are not readable by everybody.

    With munge's or Slurm's key a user is any other user; with an administrator's configuration of
    Kubernetes or Ceph he has all the cluster, or all its data. Only modes and owners were looked at, of a
    short list of files, and of the folders above them.

    Fix: chmod o-rwx the file named here, and replace the key: it has to be taken for known.
    """
    for node in fleet.nodes:
        observe(node, files=node.exposure.readable_secrets)


def test_open_control(fleet: Fleet, observe: Observe) -> None:
    """Nothing that starts or shows other users' work is open to everybody.

    Who can write to the socket of a container runtime, or reach Docker's port without TLS, is root of the
    node. The kubelet's read-only port shows what every pod runs, to anybody. DCGM's engine obeys whoever
    connects. Nothing was connected to: ports are told from the kernel's list.

    Fix: set the socket's mode to 0660; serve Docker by TLS or not at all; set the kubelet's readOnlyPort
    to 0; bind nv-hostengine to 127.0.0.1 or to a Unix socket.
    """
    for node in fleet.nodes:
        exposure = node.exposure
        observe(
            node,
            sockets=exposure.writable_sockets,
            ports=exposure.unauthenticated_ports,
            hostengine=exposure.open_hostengines,
        )
