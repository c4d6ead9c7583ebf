"""What a tenant could reach that is not his."""

from gpuassay.fixtures import Fleet, Measure, Observe


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


def test_nested_virtualization(fleet: Fleet, observe: Observe) -> None:
    """No virtual machine is offered virtualization of its own, and not everybody may start one.

    A guest that may run guests reaches parts of its host's kernel that others do not, and faults there have
    led out of virtual machines (Januscape). Whether its host is mended, a guest cannot see. On any node an
    open /dev/kvm lets each user do the same to the node's own kernel.

    Fix: have the host start the machine without nested virtualization, or get its word on the host's kernel;
    set /dev/kvm to mode 0660 and leave it to the group kvm.
    """
    for node in fleet.nodes:
        virtualization = node.settings.virtualization
        observe(node, offered=virtualization.offered_to_guest, open_to_users=virtualization.open_to_users)


def test_metadata_service(measure: Measure, observe: Observe) -> None:
    """No metadata service hands out what it knows to whoever asks for it.

    The service at 169.254.169.254 knows a machine's credentials and start-up scripts. One that answers a
    plain request gives them to every process and container of the node, and to whoever makes a server there
    fetch an address for him. It was asked once, and what it said was not kept.

    Fix: have it ask for a session token with a hop limit of 1, or switch it off; keep the address away from
    jobs and pods (iptables, network policy).
    """
    for node in measure("metadata"):
        observe(node, answers=node.answers)


def test_exports(measure: Measure, observe: Observe) -> None:
    """Storage is not exported to whoever reaches its server.

    NFS without Kerberos believes what a client says of its users. An export to everybody can be mounted by
    any machine that gets to the server, of another tenant too, and read as any user. The servers' own lists
    were read (showmount -e), and nothing was mounted; whether a firewall stands before them is not seen.

    Fix: export to the addresses of this cluster's nodes alone (exports(5), or the storage's access policy),
    or with sec=krb5.
    """
    for node in measure("exports"):
        for export in node.exports:
            observe(export, for_everybody=export.for_everybody)


def test_observability_isolation(measure: Measure, observe: Observe) -> None:
    """The account of another tenant sees nothing of these nodes in Prometheus and Grafana.

    Metrics tell who trains what, when and how well, and names of jobs, pods and users with them. It takes an
    account of another tenant to see it, whose token the site file names; without one it is said to be unseen.

    Fix: an organisation, or a data source with enforced labels, for each tenant (prom-label-proxy, Mimir's
    or Thanos' tenants); no data source that all can query.
    """
    for service in measure("second_account"):
        observe(service, nodes_seen=service.nodes_seen)
