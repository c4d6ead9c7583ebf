"""Who may use a Slurm cluster, and how one gets from node to node."""

from gpuassay.fixtures import Fleet, Measure, Observe


def test_users(fleet: Fleet, observe: Observe) -> None:
    """The user of a job has a name on every node, and all nodes look for users in the same places.

    Where a node does not know a user, his jobs fail there, ssh and MPI with them, and his files belong to a
    number. How easily users are added, and to which groups, only the provider's own tools can show.

    Fix: take users of all nodes from one service (sssd with LDAP or an identity provider), or keep one list.
    """
    for node in fleet.nodes:
        observe(node, known=node.equipment.user_known, sources=node.equipment.user_sources)


def test_identity_provider(fleet: Fleet, observe: Observe) -> None:
    """Users come from a service, and not from a file of each node.

    Accounts in files outlive the people who had them. Which service stands behind the node's configuration,
    and whether it is the customer's own, is not seen from here.

    Fix: connect the cluster to the customer's identity provider (OIDC, SAML or LDAP), by sssd or the like.
    """
    for node in fleet.nodes:
        observe(node, central=node.equipment.central_users)


def test_ssh_between_nodes(fleet: Fleet, observe: Observe) -> None:
    """A user could get from one node to the next without a password.

    Launchers such as mpirun and torchrun start their ranks by ssh. This looks for a way: keys of the machines
    (HostbasedAuthentication), or a key of the user's own that his account accepts; it is not tried.

    Fix: HostbasedAuthentication with shosts.equiv for the cluster's nodes, or a key pair in the shared home;
    pam_slurm_adopt keeps out who has no job there.
    """
    for node in fleet.nodes:
        observe(node, way=node.equipment.own_ssh)


def test_ssh_tried(measure: Measure, observe: Observe) -> None:
    """A user gets from each node to others without a password.

    Launchers such as mpirun and torchrun start their ranks by ssh, and a key that lies there says little of
    whether it is taken. From each node `ssh NODE true` was run to the next one, to the one after it and to
    one across, all at the same time, as whoever runs a job. Keys of machines were neither checked nor kept.

    Fix: read what ssh says on the row here; a pair of keys in the shared home, or HostbasedAuthentication
    with shosts.equiv. With pam_slurm_adopt, a user without a job on a node is rightly kept out of it.
    """
    for node in measure("ssh_ways"):
        for way in node.ways:
            observe(way, open=way.open)
