"""What Kubernetes says of its nodes, and what it offers to jobs that want many GPUs."""

from gpuassay.fixtures import Fleet, Measure, Observe


def test_allocatable(fleet: Fleet, observe: Observe) -> None:
    """Kubernetes can give out every GPU that a node has, and none twice.

    A device plugin that marked a GPU unhealthy often never takes it back, and a node of eight stays at
    seven while it says that it is ready. More GPUs than there are is sharing by time: two jobs that each
    believe to have a whole one. Compared are capacity, allocatable, and what the node itself shows: a node
    that gives out more than its own capacity, or no count at all, has a plugin that lost its count.

    Fix: look for the reason in the device plugin's log, mend or exchange the GPU, and restart the plugin's
    pod on that node; switch off time slicing where whole GPUs are sold.
    """
    for node in fleet.nodes:
        offer = node.kubernetes
        observe(node, offered_by=offer.offered_by, missing=offer.missing)
        observe(node, invented=offer.invented, beyond_capacity=offer.beyond_capacity)


def test_cpu_manager(fleet: Fleet, observe: Observe) -> None:
    """Pods that ask for whole processors are given them for themselves.

    By default all pods of a node share all processors: the threads that feed GPUs and poll the network are
    moved about, and wait for others'. Told by each kubelet's own configuration, through the API server, which
    only those may ask for who have nodes/proxy.

    Fix: set cpuManagerPolicy to static on nodes with GPUs, with reservedSystemCPUs for the system's own.
    """
    for node in fleet.nodes:
        observe(node, policy=node.kubernetes.cpu_policy)


def test_rdma_resources(fleet: Fleet, observe: Observe) -> None:
    """Pods can be given the fabric's ports of every node that has some.

    A pod without the host's network sees no RDMA device unless a plugin or driver gives it one. Without
    that, collectives between nodes fall back to sockets at a fraction of the speed, or tenants have to
    run privileged.

    Fix: install the network operator, or a device plugin for RDMA, with a resource for the fabric's ports.
    """
    for node in fleet.nodes:
        observe(node, offered=node.kubernetes.rdma)


def test_compute_domains(fleet: Fleet, observe: Observe) -> None:
    """Pods on the nodes of a rack can be joined by NVLink.

    Between nodes NVLink works only through an IMEX channel, and a pod is given one by a ComputeDomain.
    Without its driver a job over several nodes of a rack runs over the network cards, or does not start.
    No job is started for this: what the driver has published of each node is looked at.

    Fix: install NVIDIA's driver of dynamic resource allocation with ComputeDomains, and mask the host's
    nvidia-imex service.
    """
    for node in fleet.nodes:
        observe(node, channels=node.kubernetes.nvlink_channels)


def test_two_racks(measure: Measure, observe: Observe) -> None:
    """A job over two racks that has no ComputeDomain runs over the network cards, or is refused at once.

    A tenant who knows nothing of racks starts his job as he always does. Libraries that take the NVLink of
    each rank's neighbours for usable wait for a channel that no pod has, and the GPUs are paid for until
    somebody looks. Two nodes of each of two racks met in pairs and all together; each step had 120 seconds.

    Fix: give every pod the means (a ComputeDomain for each job, by a policy or the job's template), set
    NCCL_MNNVL_ENABLE=0 where there are none, or refuse jobs that span racks without one.
    """
    for cluster in measure("two_racks"):
        observe(cluster, outcome=cluster.outcome)


def test_topology_labels(fleet: Fleet, observe: Observe) -> None:
    """Every node is labelled with its place in the network.

    A scheduler that does not know which nodes share a leaf switch, or a rack's NVLink, spreads a job over
    all of the fabric, where it meets every other job at the spine. Zone and region are too coarse for it.

    Fix: label nodes with their leaf, block and spine (NVIDIA Topograph, or the cloud's own labels), and
    point Kueue's topology-aware scheduling or the scheduler in use at them.
    """
    for node in fleet.nodes:
        observe(node, labelled=node.kubernetes.near)


def test_nodes_ready(fleet: Fleet, observe: Observe) -> None:
    """Every worker is ready, has said so lately, and has no trouble.

    A node that is not ready still lists its GPUs, so that sums over the cluster count them. A kubelet
    reports at least every five minutes even if nothing changes: an older word is no word. Conditions of
    the kubelet and of the node-problem-detector tell of full disks, lost memory and hung kernels.

    Fix: look at the kubelet's log on the node that is named; cordon it until it is well.
    """
    for cluster in fleet.kubernetes.workers:
        observe(cluster, ready=cluster.ready, silent_for=cluster.heartbeat_age, troubles=cluster.troubles)


def test_problem_detector(fleet: Fleet, observe: Observe) -> None:
    """A node-problem-detector watches every worker.

    The kubelet sees that a disk is full, and not that the kernel hangs, that a file system went read-only
    or that the container runtime restarts again and again. The detector puts that into the node's
    conditions, which schedulers and remediation act upon.

    Fix: install node-problem-detector as a DaemonSet on all workers.
    """
    for cluster in fleet.kubernetes.workers:
        observe(cluster, watched=cluster.watched)


def test_gpu_operator(fleet: Fleet, observe: Observe) -> None:
    """An operator looks after the drivers and plugins of the GPUs.

    Without one each node's driver, toolkit and plugin is somebody's handiwork, and a new node comes up
    without. Told from the groups of the API that such operators add.

    Fix: install the GPU operator of the GPUs' vendor.
    """
    for cluster in fleet.kubernetes.alone:
        observe(cluster, installed=cluster.gpu_operator)


def test_network_operator(fleet: Fleet, observe: Observe) -> None:
    """An operator looks after the drivers of the fabric's cards, and gives pods their ports.

    Without one each node's network driver and device plugin is somebody's handiwork, and a new node comes
    up without. Told from the groups of the API that such operators add.

    Fix: install the network operator of the cards' vendor.
    """
    for cluster in fleet.kubernetes.alone:
        observe(cluster, installed=cluster.network_operator)


def test_operator_pods(fleet: Fleet, observe: Observe) -> None:
    """All pods of the operators of GPUs, network and jobs are ready.

    A DaemonSet with pods that are not ready leaves nodes without driver, plugin, exporter or ports, and
    nothing else says so: the node stays ready. Told for each DaemonSet and Deployment of known operators.

    Fix: kubectl describe the pods of the workload that is named, and read the logs of the one that fails.
    """
    for cluster in fleet.kubernetes.operators:
        observe(cluster, unready=cluster.unready)


def test_gang_scheduling(fleet: Fleet, observe: Observe) -> None:
    """Jobs of many pods start all at once or not at all, and there is a kind of job that spans nodes.

    Pods that are placed one by one let two jobs each hold half of the GPUs and wait for the other half for
    ever. A training job needs its ranks started and ended together, which plain Jobs do not do.

    Fix: install Kueue, Volcano, KAI Scheduler or the coscheduling plugin; and JobSet, the MPI Operator or
    Kubeflow Trainer.
    """
    for cluster in fleet.kubernetes.alone:
        observe(cluster, gangs=cluster.gangs, launchers=cluster.launchers)


def test_bin_packing(fleet: Fleet, observe: Observe) -> None:
    """Pods with few GPUs are packed together, so that whole nodes stay free.

    The scheduler as it comes spreads pods: a handful of single GPUs on as many nodes, and no job that
    needs a whole node can start. Judged by where the pods that hold GPUs are now; if there are none, only
    a scheduler that always packs can be told.

    Fix: score nodes by MostAllocated with a weight on GPUs, or use a scheduler that packs.
    """
    for cluster in fleet.kubernetes.alone:
        observe(cluster, scattered=cluster.scattered)


def test_entrances(fleet: Fleet, observe: Observe) -> None:
    """Services can be reached from outside by an ingress.

    Inference and notebooks need a way in that a tenant can set up himself: an ingress controller or the
    Gateway API.

    Fix: install an ingress controller with its IngressClass, or a Gateway controller.
    """
    for cluster in fleet.kubernetes.alone:
        observe(cluster, classes=cluster.entrances)


def test_load_balancers(fleet: Fleet, observe: Observe) -> None:
    """Every Service that asks for a load balancer has an address.

    On bare metal nothing answers such a request unless it is installed: the Service waits for ever, and
    whatever it is for cannot be reached. None is made for this; those that are there are looked at.

    Fix: install a load balancer such as MetalLB or Cilium's, or the cloud's controller, with free addresses.
    """
    for cluster in fleet.kubernetes.balanced:
        observe(cluster, addressed=cluster.addressed)


def test_release(fleet: Fleet, observe: Observe) -> None:
    """Kubernetes is a release that still gets fixes, and its kubelets fit to it.

    A minor release gets fixes for about fourteen months. Kubelets may be at most three minor releases
    older than the API server, and never newer.

    Fix: upgrade the control plane release by release, then the nodes.
    """
    for cluster in fleet.kubernetes.alone:
        observe(cluster, version=cluster.version, skewed=cluster.skewed)


def test_metrics(fleet: Fleet, observe: Observe) -> None:
    """The metrics API answers for every worker, so that `kubectl top` works.

    Autoscalers and people look there first. A node of which it says nothing is a node whose kubelet or
    metrics server has a problem.

    Fix: install metrics-server, and let it reach the kubelets on port 10250.
    """
    for cluster in fleet.kubernetes.alone:
        observe(cluster, unmeasured=cluster.unmeasured)


def test_default_storage(fleet: Fleet, observe: Observe) -> None:
    """Exactly one storage class is the default.

    A claim that names no class waits for ever if there is no default; with several the newest is taken,
    and nobody meant that. Most charts name none.

    Fix: set the annotation storageclass.kubernetes.io/is-default-class on one class, and take it off the
    others.
    """
    for cluster in fleet.kubernetes.alone:
        observe(cluster, default_classes=cluster.default_classes, rivals=cluster.rival_classes)


def test_shared_volumes(measure: Measure, observe: Observe) -> None:
    """A volume for many nodes (ReadWriteMany) is really shared by pods on two nodes.

    Data, checkpoints and home folders need one. A class of block devices leaves such a claim pending for
    ever; one of local folders grants it, and ties all pods to one node or gives each node a copy of its
    own. A volume of each class was claimed; two pods each wrote a word and waited for the other's.

    Fix: offer a class of a shared file system (NFS, CephFS, Lustre, Weka, VAST); have the others refuse
    ReadWriteMany.
    """
    for volume in measure("kube_volumes"):
        observe(volume, proven=volume.proven, pretended=volume.pretended, left_behind=volume.left_behind)


def test_drain_and_cordon(fleet: Fleet, observe: Observe) -> None:
    """Slurm and Kubernetes hold the same nodes out of service.

    Where Slurm runs on Kubernetes, a node that only Kubernetes has cordoned, or lost, still gets Slurm's
    jobs, and one that only Slurm has drained still gets pods: while somebody repairs it.

    Fix: cordon and drain together, as the Slurm operator does where it is let, and undo both together.
    """
    for cluster in fleet.agreements:
        observe(cluster, agree=cluster.agree)
