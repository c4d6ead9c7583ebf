"""What a tenant of a Kubernetes cluster can do himself, and what keeps tenants apart."""

from gpuassay.fixtures import Fleet, Measure, Observe


def test_self_service(fleet: Fleet, observe: Observe) -> None:
    """A tenant can run and install things in his own namespace.

    Pods, jobs, services and volumes are what a cluster is rented for; charts also need ConfigMaps and
    Secrets, in which Helm keeps its releases. Asked of the API server by access reviews, which create
    nothing.

    Fix: bind the ClusterRole admin to the tenant in his namespace.
    """
    for cluster in fleet.kubernetes.access.own:
        observe(cluster, allowed=cluster.allowed)


def test_independence(fleet: Fleet, observe: Observe) -> None:
    """A tenant can make namespaces and extend the API without asking the provider.

    Operators come with definitions of their own, and teams want namespaces of their own. Where clusters
    are shared a provider may rightly refuse that, and gives a cluster or a virtual control plane instead.

    Fix: give tenants a cluster of their own, or a self-service for namespaces; say which operators are there.
    """
    for cluster in fleet.kubernetes.access.more:
        observe(cluster, allowed=cluster.allowed)


def test_host_visibility(fleet: Fleet, observe: Observe) -> None:
    """The nodes of the cluster are real ones, and no virtual cluster hides them.

    In a virtual cluster a tenant sees nodes that are made up: their labels, conditions and GPUs are what
    the provider syncs, and what goes wrong below is not seen.

    Fix: sync the real nodes into the virtual cluster with all labels and conditions, on nodes of the
    tenant's own.
    """
    for cluster in fleet.kubernetes.alone:
        observe(cluster, marked=cluster.virtual_signs)


def test_reach(fleet: Fleet, observe: Observe) -> None:
    """A tenant can do nothing that reaches other tenants.

    Secrets of all namespaces are everybody's keys; nodes/proxy runs commands in any pod; pods in
    kube-system, bindings and impersonation lead to the whole cluster. Asked by access reviews: nothing is
    read or made. For an administrator it cannot be told what a tenant may do.

    Fix: take the ClusterRole or binding that gives this away from the tenant's account.
    """
    for cluster in fleet.kubernetes.access.beyond:
        observe(cluster, allowed=cluster.crosses)


def test_broad_grants(fleet: Fleet, observe: Observe) -> None:
    """No role gives everybody, or requests without a name, power over the cluster.

    A binding of system:authenticated or of all service accounts holds for each tenant's each pod; one of
    system:unauthenticated for whoever reaches the API server. nodes/proxy, which monitoring often asks
    for, lets its pods run commands in all others.

    Fix: delete the binding that is named, or give it to the one account that needs it; scrape kubelets
    with nodes/metrics.
    """
    for cluster in fleet.kubernetes.alone:
        grants = cluster.grants
        observe(cluster, anybody=grants.to_anybody, everybody=grants.to_everybody, proxy=grants.of_kubelets)


def test_strangers(measure: Measure, observe: Observe) -> None:
    """The API server shows nothing to requests without a name.

    A binding of system:anonymous, often left from an installation or made for a dashboard, opens the cluster
    to whoever reaches the API server. Namespaces, nodes and pods were each asked for once, without token or
    certificate; what came was not kept.

    Fix: delete the binding, and start the API server with --anonymous-auth=false or let it answer strangers
    on its health pages only.
    """
    for cluster in measure("kube_anonymous"):
        observe(cluster, answered=cluster.answered)


def test_granted_gpus(measure: Measure, observe: Observe) -> None:
    """A container has the GPUs that it was given, and no other.

    A toolkit that goes by a container's environment gives all GPUs to whoever writes that into his pod: past
    the scheduler, and into the memory of others' jobs. On each node a pod with one GPU and one with none,
    which names all in its environment, counted their device files.

    Fix: set accept-nvidia-visible-devices-envvar-when-unprivileged to false and let the device plugin hand
    GPUs over as volume mounts or by CDI.
    """
    for node in measure("kube_grants"):
        observe(node, with_one=node.with_one, with_none=node.with_none, left_behind=node.left_behind)


def test_network_policy(fleet: Fleet, observe: Observe) -> None:
    """Nothing reaches the pods of a tenant's namespace unless a policy allows it.

    Without a policy every pod of every tenant can connect to every other, to notebooks, databases and
    dashboards without a password. Looked at is the namespace in which the suite's user works.

    Fix: give each tenant's namespace a NetworkPolicy that selects all pods and allows no ingress, and use
    a network plugin that honours it.
    """
    for cluster in fleet.kubernetes.policies.alone:
        observe(cluster, default_deny=cluster.default_deny)


def test_policy_honoured(measure: Measure, observe: Observe) -> None:
    """A policy that shuts a pod really shuts it.

    The API server takes every NetworkPolicy, and whether anything comes of it is up to the network plugin:
    some let everything through, and say nothing. Two servers were started, one of them shut by a policy, and
    a client on another node that had to reach the open one and not the other.

    Fix: use a network plugin that enforces policies (Cilium, Calico, Antrea), on all nodes.
    """
    for cluster in measure("kube_policy"):
        observe(cluster, honoured=cluster.honoured, left_behind=cluster.left_behind)


def test_pod_security(fleet: Fleet, observe: Observe) -> None:
    """A tenant's namespace refuses privileged pods and the host's files.

    A pod that mounts the host's / or runs privileged is root of the node, with every other tenant's pods
    and the kubelet's keys. Pod Security refuses that by a label on the namespace.

    Fix: label tenants' namespaces pod-security.kubernetes.io/enforce=baseline, better restricted.
    """
    for cluster in fleet.kubernetes.policies.alone:
        observe(cluster, enforced=cluster.pod_security)


def test_pod_admission(measure: Measure, observe: Observe) -> None:
    """No pod that reaches for the host is admitted in the tenant's namespace.

    A privileged pod, or one with the host's files, is root of the node; the host's network has the kubelet,
    the metadata service and others' traffic, and its processes have others' environments and secrets. Each
    was put to the API server as a dry run, which goes through everybody's policies and makes nothing.

    Fix: label tenants' namespaces pod-security.kubernetes.io/enforce=baseline, better restricted, or have a
    policy refuse what is named.
    """
    for cluster in measure("kube_admission"):
        observe(cluster, left_behind=cluster.left_behind)
        for pod in cluster.pods:
            observe(pod, admitted=pod.admitted)


def test_kubelets(measure: Measure, observe: Observe) -> None:
    """No node's kubelet answers to requests without a name.

    Whoever a kubelet lets list its pods may also run commands in them, past the API server and its log; its
    port for reading shows what every pod is, to anybody. Asked were the addresses that the API server lists,
    and of these only where a certificate of that node's was shown; from outside they may not be seen.

    Fix: start kubelets with authentication.anonymous.enabled false, authorization.mode Webhook and
    readOnlyPort 0, and keep pods away from port 10250 of the nodes.
    """
    for cluster in measure("kube_kubelets"):
        observe(cluster, pods_shown=cluster.pods_shown, health_shown=cluster.health_shown)
        observe(cluster, read_only=cluster.read_only)
