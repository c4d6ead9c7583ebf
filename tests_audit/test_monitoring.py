"""What the monitoring sees of the cluster, whom it tells, and who may read it.

``measure("prometheus")`` and its like give one subject, with what the service answered.
"""

from gpuassay.fixtures import Fleet, Measure, Observe


def test_exporters(fleet: Fleet, measure: Measure, observe: Observe) -> None:
    """The exporters of every GPU node answer in time, for each of its GPUs, with the fields that matter.

    A dashboard is as good as its source: an exporter that hangs, has lost a GPU, or was started without the
    modules of DCGM that read activity leaves a gap that looks like an idle GPU.

    Fix: restart the exporter; have it serve XID errors, row remaps, temperature, power and PCIe replays.
    Where profiling metrics (DCGM_FI_PROF_…) are missing, DCGM is too old for the GPU, or its module for them
    is not loaded.
    """
    for exporters in measure("exporters"):
        for node in fleet.nodes:
            observe(
                node,
                answered=exporters.answered(node),
                seconds=exporters.seconds(node),
                gpus_missing=exporters.gpus_missing(node),
                faults_missing=exporters.faults_missing(node),
                work_missing=exporters.work_missing(node),
            )


def test_targets(measure: Measure, observe: Observe) -> None:
    """Prometheus reaches everything that it was told to scrape.

    Where a target is down the monitoring is blind, and one that is always down teaches people to look away
    from the list.

    Fix: repair the target by the error that Prometheus gives, or take it out of the configuration.
    """
    for cluster in measure("prometheus"):
        for target in cluster.targets:
            observe(target, up=target.up)


def test_gpu_metrics(fleet: Fleet, measure: Measure, observe: Observe) -> None:
    """Prometheus has recent samples of every GPU of every node.

    What is not scraped raises no alert: a node that is missing here, or whose samples stopped coming, can
    lose its GPUs unnoticed.

    Fix: have the exporter run on each GPU node and Prometheus scrape it at least once a minute.
    """
    for prometheus in measure("prometheus"):
        for node in fleet.nodes:
            observe(
                node,
                gpus_missing=prometheus.gpus_missing(node),
                sample_age_s=prometheus.sample_age_s(node),
            )


def test_gpu_fields(fleet: Fleet, measure: Measure, observe: Observe) -> None:
    """Prometheus has the metrics by which a sick GPU is told, and those that say how GPUs are used.

    XID errors, row remaps, temperature, power and PCIe replays announce a failure; the activity of SMs,
    tensor cores, memory and links tells a job that works from one that only holds its GPUs.

    Fix: list the missing metrics in the exporter's configuration, and do not drop them when scraping.
    """
    for cluster in measure("prometheus"):
        observe(
            cluster,
            faults_missing=cluster.faults_missing(fleet.gpus),
            work_missing=cluster.work_missing(fleet.gpus),
        )


def test_host_metrics(fleet: Fleet, measure: Measure, observe: Observe) -> None:
    """Prometheus has the metrics of node-exporter of every node: processors, memory, disks and network.

    Without them a full disk, a node that swaps or a port that drops packets is found by the jobs that fail on
    it, one after the other.

    Fix: run node-exporter on every node and have it scraped.
    """
    for prometheus in measure("prometheus"):
        for node in fleet.nodes:
            observe(node, present=prometheus.has_host(node))


def test_kubernetes_metrics(fleet: Fleet, measure: Measure, observe: Observe) -> None:
    """Prometheus has what kube-state-metrics says of every node of Kubernetes.

    Only from there can an alert see that a node is not ready, or that its GPUs are no longer allocatable,
    before a job waits for them.

    Fix: install kube-state-metrics and have it scraped.
    """
    for prometheus in measure("prometheus"):
        for node in fleet.nodes:
            observe(node, present=prometheus.has_kubernetes_node(node))


def test_pod_attribution(measure: Measure, observe: Observe) -> None:
    """The metrics of a GPU name the pod that uses it.

    Otherwise nobody can say whose work stalls on a GPU, wastes it or breaks it, and a bill by usage cannot be
    checked by anybody.

    Fix: let the exporter map GPUs to pods (DCGM_EXPORTER_KUBERNETES=true), and keep its labels when scraping.
    """
    for cluster in measure("prometheus"):
        observe(cluster, names_pods=cluster.names_pods)


def test_job_attribution(measure: Measure, observe: Observe) -> None:
    """The metrics of a GPU name the job of Slurm that uses it.

    Otherwise nobody can say whose work stalls on a GPU, wastes it or breaks it, and accounting by usage
    cannot be checked by anybody.

    Fix: have the prolog write which job has which GPU, and the exporter read it (--hpc-job-mapping-dir);
    AMD's exporter has its own integration with Slurm.
    """
    for cluster in measure("prometheus"):
        observe(cluster, names_jobs=cluster.names_jobs)


def test_alert_rules(measure: Measure, observe: Observe) -> None:
    """Alerts watch the faults of GPUs, their memory, nodes that are gone, and the links; and all rules work.

    A rule counts by the metrics that it asks for, whatever it is called. One that cannot be evaluated raises
    nothing, and says so only here.

    Fix: add the missing rules, and mend those with an error.
    """
    for cluster in measure("prometheus"):
        rules = cluster.rules
        observe(
            rules,
            faults=rules.faults,
            memory=rules.memory,
            down=rules.down,
            links=rules.links,
            broken=rules.broken,
        )


def test_alert_delivery(measure: Measure, observe: Observe) -> None:
    """Prometheus sends its alerts to an Alertmanager.

    Without one, alerts are coloured lines on a page that nobody has open: no mail, no pager, no automation
    that drains the node.

    Fix: configure alerting.alertmanagers in Prometheus.
    """
    for cluster in measure("prometheus"):
        observe(cluster, alertmanagers=cluster.alertmanagers)


def test_receivers(measure: Measure, observe: Observe) -> None:
    """Alertmanager has a receiver that tells somebody.

    The configuration that comes with the usual charts has one receiver, which is called null and does what it
    is called: everything seems to be in place, and nobody is told.

    Fix: configure a receiver with e-mail, a pager or a chat, and route the alerts of GPUs to it.
    """
    for cluster in measure("alertmanager"):
        observe(cluster, receivers=cluster.receivers)


def test_dashboards(measure: Measure, observe: Observe) -> None:
    """Grafana has a dashboard over GPUs, and its panels show data.

    A dashboard that came with a chart and asks for metrics that nobody scrapes looks finished in a list.

    Fix: import a dashboard for the exporter that runs here, and mend the panels that are empty.
    """
    for cluster in measure("grafana"):
        observe(cluster, gpu_dashboards=cluster.gpu_dashboards)
        for dashboard in cluster.dashboards:
            observe(dashboard, filled_percent=dashboard.filled_percent)


def test_logs(measure: Measure, observe: Observe) -> None:
    """The logs of the nodes can be searched in Grafana.

    An XID in the kernel's log is the first word of most failures, and is lost with the node that wrote it.

    Fix: send the kernel's and the system's logs to a store such as Loki, and make it a data source.
    """
    for cluster in measure("grafana"):
        observe(cluster, log_sources=cluster.log_sources)


def test_retention(measure: Measure, observe: Observe) -> None:
    """Prometheus keeps its metrics for long enough to look back at a failure.

    Whoever returns a node, or asks for a credit, has to show what it did in the weeks before; errors
    that come once a week are not seen in two days.

    Fix: raise storage.tsdb.retention.time.
    """
    for cluster in measure("prometheus"):
        observe(cluster, retention_days=cluster.retention_days)


def test_prometheus_login(measure: Measure, observe: Observe) -> None:
    """Prometheus answers nobody who has not logged in.

    It tells the names of nodes, jobs and users, and the load of every tenant whom it scrapes, to anybody in
    the network that it is reached from.

    Fix: put it behind a proxy that authenticates, or let a network policy allow only those who need it.
    """
    for cluster in measure("prometheus"):
        observe(cluster, answers_anyone=cluster.answers_anyone)


def test_alertmanager_login(measure: Measure, observe: Observe) -> None:
    """Alertmanager answers nobody who has not logged in.

    Whoever reaches it can silence every alert, read what is wrong with the cluster at the moment, and raise
    alerts that are none.

    Fix: put it behind a proxy that authenticates, or let a network policy allow only those who need it.
    """
    for cluster in measure("alertmanager"):
        observe(cluster, answers_anyone=cluster.answers_anyone)


def test_grafana_login(measure: Measure, observe: Observe) -> None:
    """Grafana lists its dashboards to nobody who has not logged in.

    Where one Grafana serves several tenants, and its own key to the metrics is a privileged one, each visitor
    reads what belongs to all of them.

    Fix: switch anonymous access off (auth.anonymous), and give each tenant an organisation and a key.
    """
    for cluster in measure("grafana"):
        observe(cluster, answers_anyone=cluster.answers_anyone)
