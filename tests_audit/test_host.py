"""How the hosts are set up."""

from gpuassay.fixtures import Fleet, Observe


def test_memlock(fleet: Fleet, observe: Observe) -> None:
    """A process may lock as much memory as RDMA needs.

    RDMA hardware reads and writes memory that must not move, so every buffer is locked. Under a limit,
    registering a buffer fails, and a job ends with "cannot allocate memory" on a machine that has plenty.

    Fix: set `memlock` to unlimited, soft and hard, in /etc/security/limits.d; LimitMEMLOCK=infinity in
    the units of the scheduler's and the container runtime's daemons, which hand their own limit on to
    every job.
    """
    for node in fleet.nodes:
        observe(node, locked_memory=node.memlock)


def test_time_sync(fleet: Fleet, observe: Observe) -> None:
    """Every node keeps its clock by a time source.

    When a fault was detected, when work was moved and when a spare took over are times from different
    machines. They can be compared, and an agreed reaction time enforced, only if the clocks agree;
    tickets and certificates need it as well.

    Fix: run chrony, systemd-timesyncd or PTP with a source that the node can reach. With chrony keep
    `rtcsync` in its configuration: without it the kernel is never told that the clock is right.
    """
    for node in fleet.nodes:
        observe(node, synchronized=node.clock_synchronized, max_error=node.clock_max_error_ms)


def test_open_files(fleet: Fleet, observe: Observe) -> None:
    """A process may open as many files as a large job has ranks.

    The rank that brings the others together holds a connection to each of them, and every worker that
    loads data holds files of its own. Under a low limit a job of some size ends with "too many open files".

    Fix: raise the hard limit of `nofile` in /etc/security/limits.d, and LimitNOFILE in the units of the
    scheduler's and the container runtime's daemons.
    """
    for node in fleet.nodes:
        observe(node, hard_limit=node.settings.open_files)


def test_shared_memory(fleet: Fleet, observe: Observe) -> None:
    """Processes of one node can share memory through /dev/shm.

    The ranks of a node exchange data through it, and so do the workers that load training data. A
    container has 64 MiB unless its runtime is told otherwise, and a job then ends with a bus error.

    Fix: give containers --shm-size, --ipc=host or an emptyDir of medium Memory at /dev/shm; on a host,
    leave its size to the kernel, which makes it half of the memory, and mount it for writing.
    """
    for node in fleet.nodes:
        space = node.settings.space
        observe(node, size=space.shared_memory_gib, writable=space.shared_memory_writable)


def test_huge_pages(fleet: Fleet, observe: Observe) -> None:
    """Programs can have huge pages, and memory is not locked away for those that nobody asks for.

    Transparent huge pages spare a program most of its misses in address translation. Pages that are
    reserved by number, in contrast, are lost to all programs that do not ask for them by name.

    Fix: set /sys/kernel/mm/transparent_hugepage/enabled to madvise or always; lower vm.nr_hugepages and
    `hugepages=` on the kernel's command line to what the installed software needs.
    """
    for node in fleet.nodes:
        settings = node.settings
        observe(node, transparent=settings.transparent_huge_pages, reserved=settings.reserved_huge_pages)


def test_numa_balancing(fleet: Fleet, observe: Observe) -> None:
    """The kernel does not move memory between NUMA nodes by itself.

    Automatic NUMA balancing takes pages away to see who uses them, and moves them: the process waits, and
    with it every rank of a collective. The setting is a bit mask; 2 moves pages between tiers of memory.

    Fix: set kernel.numa_balancing to 0 in /etc/sysctl.d, or `numa_balancing=disable` on the command line.
    """
    for node in fleet.nodes:
        observe(node, numa_balancing=node.settings.numa_balancing)


def test_swap(fleet: Fleet, observe: Observe) -> None:
    """Nothing that jobs need is swapped out to disks.

    A step of training is as slow as its slowest rank, and a rank whose memory comes back from a disk is
    slower by orders of magnitude. Memory that is compressed in place (zram) is not counted.

    Fix: switch swap off (swapoff -a, and remove it from /etc/fstab); find out what took the memory.
    """
    for node in fleet.nodes:
        observe(node, swapped_out=node.settings.swap_used_gib)


def test_iommu(fleet: Fleet, observe: Observe) -> None:
    """On bare metal, the IOMMU does not translate what GPUs and network adapters send.

    Translation sends traffic between a GPU and its adapter, or another GPU, through the processor: jobs
    crawl, hang, or compute with wrong data. A machine that passes its devices on to virtual machines needs
    translation to isolate them; there the rule is the opposite, and this check does not apply inside them.

    Fix: boot with `iommu=pt` (on Arm `iommu.passthrough=1`), or switch the IOMMU off in the firmware.
    """
    for node in fleet.nodes:
        observe(node, iommu=node.settings.dma.iommu, bypassed=node.settings.dma.iommu_bypassed)


def test_guest_iommu(fleet: Fleet, observe: Observe) -> None:
    """Inside a virtual machine, no second IOMMU translates what GPUs and network adapters send.

    The host's IOMMU keeps virtual machines apart, and it has to translate: that is the opposite of bare
    metal, and cannot be seen from inside. An IOMMU that the guest has beside it serves nobody here, and
    takes the direct way from its GPUs and adapters, as one on bare metal would.

    Fix: boot the guest with `iommu=pt` (on Arm `iommu.passthrough=1`), or give it no virtual IOMMU.
    """
    for node in fleet.nodes:
        observe(node, iommu=node.settings.dma.iommu)


def test_acs(fleet: Fleet, observe: Observe) -> None:
    """On bare metal, no PCI switch sends traffic between GPU and adapter up to the processor.

    Access Control Services can redirect what two devices below one switch send to each other, so that
    GPUDirect takes a long way through the processor. Only the bits that redirect are judged. In a virtual
    machine the real switches cannot be seen, and their ACS has to stay on.

    Fix: switch ACS off in the firmware, or boot with `pci=disable_acs_redir=` and the ports' addresses.
    """
    for node in fleet.nodes:
        observe(node, redirecting=node.settings.dma.acs_redirecting)


def test_cpu_power(fleet: Fleet, observe: Observe) -> None:
    """Processors run at full speed when there is work, and wake up quickly.

    A GPU waits for the processor that launches its work and drives its network. Frequency governors that
    save power, ceilings below the rated frequency and deep sleep all add to that wait.

    Fix: set the governor, or where the hardware scales by itself its energy preference, to performance;
    lift scaling_max_freq; switch deep sleeping states off (cpupower idle-set) or bound them in firmware.
    """
    for node in fleet.nodes:
        processors = node.settings.processors
        observe(node, governor=processors.governor, held_down=processors.held_down)
        observe(node, ceiling=processors.ceiling, wake_up=processors.wake_up_us)


def test_own_name(fleet: Fleet, observe: Observe) -> None:
    """A node's own name leads to the node, by an address that others can use.

    Programs that gather the ranks of a job ask for the address of their own name and tell it to the
    others. A loopback address such as Debian's 127.0.1.1, an address of another machine from a copied
    hosts file, or none at all leaves the others waiting.

    Fix: let /etc/hosts or DNS map the node's name to its address on the network; remove the line with
    127.0.1.1 (cloud-init: manage_etc_hosts).
    """
    for node in fleet.nodes:
        name = node.settings.own_name
        observe(node, leads_to=name.leads_to, usable_by_others=name.others_can_use_it)


def test_node_name(fleet: Fleet, observe: Observe) -> None:
    """Each node that answered is the machine that was asked for, and none answered for two.

    A name that leads to another machine, or 64 nodes that are one machine, would have something else judged
    than what was bought. A node is told by its host name, and by the identity of its kernel's boot, which no
    two machines share.

    Fix: let each name lead to its own machine, in DNS, hosts file, scheduler and ssh configuration; give
    each machine its own host name, and ask for it by that.
    """
    for node in fleet.nodes:
        observe(node, is_called_so=node.is_called_so, boot_id=node.boot_id)


def test_cgroups(fleet: Fleet, observe: Observe) -> None:
    """Control groups are those of version 2 alone.

    They keep jobs to their share of memory, processors and GPUs. Kubernetes and systemd give up version
    1, and with both mounted at once (hybrid) schedulers and container runtimes disagree on which counts.

    Fix: boot with `systemd.unified_cgroup_hierarchy=1` and without `cgroup_no_v1` exceptions.
    """
    for node in fleet.nodes:
        observe(node, version=node.settings.space.cgroups)


def test_profiling(fleet: Fleet, observe: Observe) -> None:
    """Users can profile their own programs, on GPUs and processors.

    Without performance counters nobody can tell why a model is slower here than elsewhere. Both settings
    give users more than the safest default does, so this warns at most: a provider may have good reasons,
    above all where tenants share a machine.

    Fix: where a node belongs to one tenant, load the driver with NVreg_RestrictProfilingToAdminUsers=0,
    and set kernel.perf_event_paranoid to 2.
    """
    for node in fleet.nodes:
        settings = node.settings
        observe(node, gpu_counters=settings.gpu_counters, paranoia=settings.perf_event_paranoid)


def test_local_space(fleet: Fleet, observe: Observe) -> None:
    """Local file systems can be written and have room.

    A full or read-only disk fails jobs in ways that point elsewhere: containers do not start, logs stop,
    core files are lost. A file system that finds an error in itself turns read-only and stays so.

    Fix: clean up, and find what fills it. For one that turned read-only: check the disk and its log,
    repair the file system, and take the node out of service until then.
    """
    for node in fleet.nodes:
        space = node.settings.space
        observe(node, free_share=space.free_share, free=space.free_gib)
        observe(node, free_inodes=space.free_inodes_share, turned_read_only=space.turned_read_only)


def test_services(fleet: Fleet, observe: Observe) -> None:
    """No service that GPUs and jobs rely on has failed.

    Persistence and DCGM of the driver, RDMA, scheduler, container runtime and time: a unit that systemd
    shows as failed was meant to run on this node, and does not.

    Fix: read `systemctl status` and the journal of the unit; repair it, or disable what is not needed.
    """
    for node in fleet.nodes:
        observe(node, failed=node.settings.failed_units)


def test_out_of_memory(fleet: Fleet, observe: Observe) -> None:
    """The kernel did not have to kill processes because the whole machine ran out of memory.

    A job that exceeds a limit of its own dies alone, and is not counted. Without limits it takes the node
    with it: the kernel then picks victims among daemons too, and what is left may be half a node.

    Fix: let scheduler and kubelet limit the memory of jobs and keep some back for the system; reboot a
    node that lost daemons.
    """
    for node in fleet.nodes:
        observe(node, killed=node.settings.killed_for_memory)


def test_memory_errors(fleet: Fleet, observe: Observe) -> None:
    """Main memory has no errors beyond repair, and few that had to be corrected.

    One bad module slows a node down while it corrects, and ends jobs or corrupts them when it no longer
    can. The counts are those of the memory controllers since the driver that reads them was loaded.

    Fix: name the module from the firmware's log or rasdaemon, and have it replaced.
    """
    for node in fleet.nodes:
        settings = node.settings
        observe(node, uncorrected=settings.uncorrected_memory_errors)
        observe(node, corrected_per_day=settings.corrected_memory_errors_per_day)
