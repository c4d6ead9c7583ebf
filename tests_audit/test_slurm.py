"""Slurm: what it gives out, to whom, how it keeps jobs apart, and what it does about sick nodes."""

from gpuassay.fixtures import Fleet, Measure, Observe


def test_gres(fleet: Fleet, observe: Observe) -> None:
    """Slurm gives out as many GPUs of each node as the node has, and by their right name.

    What is missing from gres.conf is paid for and used by nobody; what is too much sends jobs to a GPU that
    is not there. A type that names another product sends jobs to GPUs of which they know nothing.

    Fix: write all GPUs of the node to gres.conf (AutoDetect=nvml or rsmi finds them) and the same count to
    its NodeName line; give the type of the product, or none.
    """
    for node in fleet.slurm_nodes:
        observe(node, gpus=node.gpus, other_product=node.other_product)


def test_gpu_isolation(fleet: Fleet, observe: Observe) -> None:
    """A job can open no GPU but its own, and none of its processes escapes when it ends.

    Without task/cgroup and ConstrainDevices, CUDA_VISIBLE_DEVICES is a request: any job can use, and kill
    with an out-of-memory, the GPUs of its neighbour. Without proctrack/cgroup a process that has left its
    group lives on after its job and keeps GPU memory.

    Fix: TaskPlugin=task/cgroup,task/affinity, ProctrackType=proctrack/cgroup; ConstrainDevices=yes in
    cgroup.conf; and in gres.conf a File= for each GPU, or AutoDetect.
    """
    for cluster in fleet.slurms:
        observe(cluster, isolates_gpus=cluster.isolates_gpus, tracks_by=cluster.tracks_by)


def test_nodes_out(fleet: Fleet, observe: Observe) -> None:
    """Of each node that Slurm holds out of service, it is said why, and none has less than it should.

    A node drained without a word stays so until somebody remembers. "Kill task failed" is a process that
    does not die, mostly in a driver: the node needs a reboot and a look at its kernel log. A node that
    registers with less than Slurm was told (INVALID_REG) has lost memory, processors or a GPU. A check that
    could not run (127: command not found) says nothing about the hardware, and takes healthy nodes away.

    Fix: give a reason with every drain; reboot what is stuck; compare slurmd -C with the node's line; install
    what the check calls.
    """
    for cluster in fleet.slurms:
        observe(cluster, wordless=cluster.reasons.wordless, unkillable=cluster.reasons.unkillable)
        observe(cluster, not_as_configured=cluster.reasons.not_as_configured)
        observe(cluster, tool_missing=cluster.reasons.tool_missing)


def test_topology(fleet: Fleet, observe: Observe) -> None:
    """Slurm knows the network, and every GPU node has its place in it.

    Without it a job's nodes are chosen as if all were equally near: a job of one leaf's size is spread over
    several, and its collectives cross the spine. A node that is in no leaf gets no job of several nodes.

    Fix: TopologyPlugin=topology/tree (or block) and a topology.conf that lists every node below its leaf
    switch; ibnetdiscover, or slurmibtopology, draws it for InfiniBand.
    """
    for cluster in fleet.slurms:
        observe(cluster, known=cluster.topology.known, unplaced=cluster.topology.unplaced)


def test_queue_pairs(fleet: Fleet, observe: Observe) -> None:
    """Where nodes are below several leaf switches, NCCL gives each connection more than one queue pair.

    A queue pair takes one path through the fabric: with one for each connection, the paths of several meet on
    one cable, and others stay empty.

    Fix: NCCL_IB_QPS_PER_CONNECTION=4, say, in /etc/nccl.conf of every node; or adaptive routing.
    """
    for node in fleet.slurm_nodes:
        observe(node, spreads_flows=node.spreads_flows)


def test_blocks(fleet: Fleet, observe: Observe) -> None:
    """Slurm places jobs by blocks, and no block reaches over two racks that NVLink joins.

    A job within one rack talks by NVLink; one that Slurm has spread over two by accident talks over its
    network cards, or cannot start its multi-node NVLink domain.

    Fix: TopologyPlugin=topology/block (since Slurm 23.11), and in topology.conf
    one block, or more, for each rack.
    """
    for cluster in fleet.slurms:
        observe(cluster, by_blocks=cluster.topology.by_blocks, over_racks=cluster.topology.blocks_over_racks)


def test_health_check(fleet: Fleet, observe: Observe) -> None:
    """Slurm has the health of every node looked at, again and again, also while it is idle.

    A GPU that dies between two jobs is otherwise found by the next one. A program without an interval, or
    one that skips idle nodes, runs when it is too late.

    Fix: HealthCheckProgram, HealthCheckInterval=300, HealthCheckNodeState=ANY (or IDLE with CYCLE) in
    slurm.conf.
    """
    for cluster in fleet.slurms:
        health = cluster.health
        observe(cluster, program=health.program, interval_s=health.interval_s, when_idle=health.when_idle)


def test_health_check_of_gpus(fleet: Fleet, observe: Observe) -> None:
    """What Slurm runs for the health of nodes looks at GPUs.

    A check of disks and memory alone keeps a node in service whose GPUs have fallen off the bus. Only the
    words of the program are looked at: whether it finds a fault and acts, only a fault can show.

    Fix: have it call dcgmi health, nvidia-smi or amd-smi, and drain the node by what they say; let users
    read it.
    """
    for cluster in fleet.slurms:
        observe(cluster, looks_at_gpus=cluster.health.looks_at_gpus)


def test_between_jobs(fleet: Fleet, observe: Observe) -> None:
    """A program cleans up and looks at a node after each job.

    What a job leaves behind, in shared memory, on the local disk, or on a GPU, the next one has to live with.

    Fix: set Epilog in slurm.conf to a short program that removes what is left and drains a node that is
    not clean.
    """
    for cluster in fleet.slurms:
        observe(cluster, after_jobs=cluster.health.after_jobs)


def test_remediation(fleet: Fleet, observe: Observe) -> None:
    """Something is set up that acts on a sick node by itself.

    Where a person has to see a fault first, a node is out for a night. This looks for signs in Slurm's
    configuration; only a fault that is injected proves that they work.

    Fix: let HealthCheckProgram drain, RebootProgram restart and ResumeProgram replace nodes.
    """
    for cluster in fleet.slurms:
        observe(cluster, acts=cluster.health.acts)


def test_limits(fleet: Fleet, observe: Observe) -> None:
    """A job is given memory as it is given processors, and a share of it if it asks for none.

    Where memory is not given out, one job takes it all and the kernel kills another's. Where a job that asks
    for none gets all, nothing else fits on the node, however many GPUs are free.

    Fix: SelectTypeParameters=CR_Core_Memory; DefMemPerGPU or DefMemPerCPU for the cluster or each partition.
    """
    for cluster in fleet.slurms:
        observe(cluster, gives_out_memory=cluster.gives_out_memory, default_memory=cluster.default_memory)


def test_account_limits(fleet: Fleet, observe: Observe) -> None:
    """No limit keeps this user from a job of all the nodes that were bought, with all their GPUs.

    A QOS or an account that allows fewer GPUs, nodes, jobs or hours than the contract leaves jobs pending for
    ever (AssocGrpGRES, QOSMaxWallDurationPerJobLimit), and the nodes idle and paid for. The best choice of
    partition, account and QOS is judged; hours only where the site file has `[slurm] longest_job`.

    Fix: raise the limit named here (sacctmgr modify qos, account or user; MaxTime and MaxNodes of the
    partition in slurm.conf).
    """
    for cluster in fleet.slurms:
        for pool in cluster.bought:
            observe(pool, stopping=pool.stopping)


def test_scheduling(fleet: Fleet, observe: Observe) -> None:
    """Slurm gives out single GPUs, and notices in time that a node is gone.

    Only select/cons_tres knows GPUs; select/linear gives whole nodes. A node that is silent for longer than
    SlurmdTimeout is down; with 0 it never is, and its jobs hang on.

    Fix: SelectType=select/cons_tres, SlurmdTimeout=300 or less, JobRequeue=1, and a backup controller.
    """
    for cluster in fleet.slurms:
        observe(cluster, selects_by=cluster.selects_by, node_timeout_s=cluster.node_timeout_s)
        observe(cluster, controller_timeout_s=cluster.controller_timeout_s, requeues=cluster.requeues)


def test_controllers(fleet: Fleet, observe: Observe) -> None:
    """Every controller of Slurm answers.

    While none does, running jobs go on and no job starts; with one alone, its machine is a single point of
    failure.

    Fix: restart slurmctld there and read its log; add a second SlurmctldHost with a shared StateSaveLocation.
    """
    for cluster in fleet.slurms:
        observe(cluster, controllers_down=cluster.controllers_down, backups=cluster.backups)


def test_accounting(fleet: Fleet, observe: Observe) -> None:
    """Every job is accounted in a database, with its GPUs.

    Without it nobody can say who used what, what a job took or how it ended, and no limit by account
    holds. accounting_storage/none is a plugin too, and keeps nothing.

    Fix: run slurmdbd; AccountingStorageType=accounting_storage/slurmdbd, AccountingStorageTRES=gres/gpu,
    JobAcctGatherType=jobacct_gather/cgroup.
    """
    for cluster in fleet.slurms:
        observe(cluster, kept_by=cluster.accounting, database_answers=cluster.database_answers)
        observe(cluster, accounts_gpus=cluster.accounts_gpus, gathers_usage=cluster.gathers_usage)


def test_mpi(fleet: Fleet, observe: Observe) -> None:
    """MPI programs are started by srun, through PMIx.

    Without it users start mpirun inside their jobs, by ssh or a launcher of its own, and lose Slurm's
    binding, limits and accounting.

    Fix: install Slurm's PMIx plugin on all nodes (built --with-pmix), and set MpiDefault=pmix.
    """
    for cluster in fleet.slurms:
        observe(cluster, pmix=cluster.pmix)


def test_version(fleet: Fleet, observe: Observe) -> None:
    """Slurm is of a release that still gets fixes, and the same on all nodes.

    Slurm runs every job as root first. After eighteen months a release gets no fixes, not for security
    either, unless the distribution mends its own package.

    Fix: upgrade slurmdbd, slurmctld and slurmd, in this order; three releases back can be left in one step.
    """
    for cluster in fleet.slurms:
        observe(cluster, version=cluster.version)
        for node in cluster.nodes:
            observe(node, on_nodes=node.version)


def test_job(measure: Measure, observe: Observe) -> None:
    """A job that is submitted runs, and is accounted with its exit status and its GPU.

    Programs that exist and a configuration that reads well say nothing of whether work gets done, and an
    account that says COMPLETED of every job hides all that fail.

    Fix: read srun's words first, then slurmctld's log; for the record, sacctmgr show problem and the log
    of slurmdbd.
    """
    for cluster in measure("slurm_job"):
        observe(cluster, ran=cluster.ran, accounted=cluster.accounted)
        observe(cluster, exit_kept=cluster.exit_kept, gpus_kept=cluster.gpus_kept)


def test_gpus_of_a_job(measure: Measure, observe: Observe) -> None:
    """A job that has asked for one GPU is told of one, and can open no other.

    A configuration promises that jobs are kept apart; this job has tried. Where it opens its neighbour's GPU,
    so can everybody, by mistake or not.

    Fix: ConstrainDevices=yes in cgroup.conf, and in gres.conf a File= for each GPU, or AutoDetect.
    """
    for cluster in measure("slurm_job"):
        observe(cluster, gpus_named=cluster.gpus_named, gpus_open=cluster.gpus_open)


def test_prolog_time(measure: Measure, observe: Observe) -> None:
    """A job begins soon after it was given its nodes.

    A prolog runs before every job, while the GPUs are paid for and idle; one that runs a long diagnostic
    makes short jobs and interactive work a pain. The time in the queue does not count here.

    Fix: keep prologs to checks that take seconds; move the rest to HealthCheckProgram, where nobody waits.
    """
    for cluster in measure("slurm_job"):
        observe(cluster, prolog_s=cluster.prolog_s)


def test_job_hygiene(measure: Measure, observe: Observe) -> None:
    """A job that was killed leaves nothing on its node, and the next one finds the GPUs free.

    A process that has left its group outlives a job where only groups are killed. It keeps GPU memory, and
    the next job fails for want of it. The job that is killed here leaves such a process on purpose, and the
    next one ends it.

    Fix: ProctrackType=proctrack/cgroup; an Epilog that ends what is left and looks at the GPUs.
    """
    for cluster in measure("slurm_hygiene"):
        observe(cluster, left_processes=cluster.left_processes, gpu_programs=cluster.gpu_programs)
