"""Containers: what is installed to start them, whether it could, and what those have that really start."""

from gpuassay.fixtures import Fleet, Measure, Observe


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


def test_pyxis_starts(measure: Measure, observe: Observe) -> None:
    """Slurm really starts a container on every node, and it has all GPUs that its job was given.

    A plugin that is listed may still fail for want of a registry, of space or of user namespaces, and a
    container may lack one of eight GPUs. The image is that of the site file; the time counts from the place
    that Slurm found, prolog, import and start included.

    Fix: read pyxis's words; then try enroot import and enroot start on the node as the user. GPUs need
    nvidia-container-cli there, and images a registry within reach.
    """
    for node in measure("slurm_containers"):
        observe(node, starts=node.starts, gpus=node.gpus, ready_s=node.ready_s)


def test_nccl_topology(measure: Measure, observe: Observe) -> None:
    """NCCL reads in a container the file of topology that it reads on the node.

    On virtual machines and some boards a file tells NCCL which GPU is near which port. In a container that
    does not see it, NCCL believes what the hypervisor shows and takes the long way, without a word.

    Fix: mount the file and /etc/nccl.conf into containers (enroot's mounts.d), or set NCCL_TOPO_FILE in its
    environ.d to where it is mounted.
    """
    for node in measure("slurm_containers"):
        observe(node, topology_reaches=node.topology_reaches)


def test_memory_limits(measure: Measure, observe: Observe) -> None:
    """A container has the shared memory that NCCL needs, and may lock all memory.

    NCCL's processes meet in /dev/shm, and RDMA pins what it sends. Where a container has 64 MiB of the one
    or may not do the other, jobs end at their first collective, though they run outside.

    Fix: for enroot the node's own limits count: LimitMEMLOCK=infinity for slurmd,
    PropagateResourceLimitsExcept=MEMLOCK in slurm.conf, and a /dev/shm of the usual size.
    """
    for node in measure("slurm_containers"):
        observe(node, shm_gib=node.shm_gib, locked_memory=node.locked_memory)


def test_pods(measure: Measure, observe: Observe) -> None:
    """A pod with a GPU starts soon, has the shared memory it asks for, and can read NCCL's file of topology.

    Of locked memory a container has what its runtime was started with, often 8 MiB: RDMA then needs a
    capability that tenants are mostly refused. A file of topology that is named and not mounted stops NCCL.
    The time counts from the place that the scheduler found, the image included.

    Fix: LimitMEMLOCK=infinity for containerd or CRI-O; mount the file where NCCL_TOPO_FILE says it is; for
    /dev/shm, let pods have a volume emptyDir with medium Memory.
    """
    for node in measure("kube_grants"):
        observe(node, shm_gib=node.shm_gib, locked_memory=node.locked_memory)
        observe(node, topology_readable=node.topology_readable, ready_s=node.ready_s)


def test_runtime(measure: Measure, observe: Observe) -> None:
    """A container of the site file's image starts on every machine, with all GPUs and the memory it asks for.

    Tried on machines that no scheduler gives out, by docker, podman or nerdctl, whichever is there first. It
    asks for 1 GiB of shared memory and for all locked memory, as NVIDIA tells users of NCCL.

    Fix: read the runtime's words; install the NVIDIA Container Toolkit and let it configure the runtime, or
    for podman write its CDI specification; let the user ask the daemon, or give him a rootless one.
    """
    for node in measure("containers"):
        observe(node, starts=node.starts, gpus=node.gpus, shm_gib=node.shm_gib)
        observe(node, locked_memory=node.locked_memory, topology_readable=node.topology_readable)
        observe(node, left_behind=node.left_behind, ready_s=node.ready_s)


def test_daemon_reload(measure: Measure, observe: Observe) -> None:
    """Running containers keep their GPUs when systemd reads its units anew.

    Where systemd keeps the cgroups and the GPUs' device files have no links below /dev/char, the next
    daemon-reload, of any package's update, takes the GPUs from all containers. Nothing is reloaded here: what
    decides it is read.

    Fix: nvidia-ctk system create-dev-char-symlinks --create-all in a udev rule, or hand GPUs over by CDI.
    """
    for node in measure("containers"):
        observe(node, kept_after_reload=node.kept_after_reload)


def test_enroot_import(measure: Measure, observe: Observe) -> None:
    """Enroot imports an image on every node, as the user and into a job's temporary folder.

    That is what users do who build their own images, and what pyxis does for every job. It needs tools,
    space and the way to the registry; an installed enroot may lack any of them.

    Fix: run enroot import docker://IMAGE on the node and read its words; install what it names (jq,
    parallel, squashfs-tools, zstd) and point ENROOT_TEMP_PATH to a local disk with room.
    """
    for node in measure("slurm_containers"):
        observe(node, imports=node.imports, import_s=node.import_s, left_behind=node.left_behind)
