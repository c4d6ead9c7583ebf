"""Containers on the nodes of a Slurm cluster: what is installed to start them, and whether it could."""

from gpuassay.fixtures import Fleet, Observe


def test_enroot(fleet: Fleet, observe: Observe) -> None:
    """Enroot is installed on every node, and users may make the namespaces that it needs.

    It turns container images into file systems that an ordinary user can start, and pyxis rests on it. On a
    kernel that forbids user namespaces it starts nothing; that it starts is not tried here.

    Fix: install enroot and enroot+caps; user.max_user_namespaces above 0, kernel.unprivileged_userns_clone=1.
    """
    for node in fleet.nodes:
        observe(node, installed=node.equipment.enroot, namespaces=node.equipment.namespaces)


def test_pyxis(fleet: Fleet, observe: Observe) -> None:
    """Slurm starts a job in a container image: srun offers it here, and every node has the plugin.

    A node without it fails the jobs that name an image, after they have waited. srun's own help tells what
    it offers where one logs in; of a node, whether its list of plugins names pyxis.

    Fix: install pyxis everywhere, and name spank_pyxis.so in plugstack.conf on all nodes.
    """
    for cluster in fleet.slurms:
        observe(cluster, offered=cluster.starts_containers)
        for node in cluster.nodes:
            observe(node, on_nodes=node.pyxis)


def test_apptainer(fleet: Fleet, observe: Observe) -> None:
    """Apptainer, or Singularity, is installed on every node, with what it needs to start an image.

    Many scientific images are built for it. It needs its setuid starter or user namespaces, and says nothing
    of either until a job fails.

    Fix: install apptainer (apptainer-suid where user namespaces are forbidden).
    """
    for node in fleet.nodes:
        observe(node, installed=node.equipment.apptainer, starts_images=node.equipment.starts_images)


def test_docker(fleet: Fleet, observe: Observe) -> None:
    """Docker is installed on every node, and this user may ask it.

    Some users expect it; on a shared cluster whoever may ask Docker's daemon is root of the node, so that a
    cluster without it is the safer one. It is told, and whether it is wanted, the contract says.

    Fix: offer enroot or Apptainer instead, or rootless Docker; on nodes of a single user add
    him to its group.
    """
    for node in fleet.nodes:
        observe(node, installed=node.equipment.docker, usable=node.equipment.docker_open)
