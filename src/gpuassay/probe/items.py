"""What the probe asks of a node: the whole of it, as data, in the order of asking.

The order is part of the design: what is cheap and cannot hang comes first, the kernel's log before the GPU
driver (a driver that hangs has often said why in the log), and the driver last.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuassay.probe import packages

SCHEMA = 1

KIB, MIB = 1 << 10, 1 << 20


class Question(NamedTuple):
    """One thing that is asked.

    ``how`` is command, file, files (small ones, read into one document), tree (a folder below /sys) or
    library; ``what`` is the argument list of a command, the paths of files, else one path or name, and maybe
    what is looked for there. ``deadline_s`` is in seconds, ``cap`` in bytes of what is kept. With ``unless``,
    it is asked only where that item is not ok; after items such as ``packages/rpm``, names say: only where
    neither of the two lists one of them. ``fine`` lists the exit statuses of a command that are answers, not
    failures. What the pattern ``hide`` matches is left out before anything is sent.
    """

    id: str
    how: str
    what: tuple[str, ...]
    purpose: str
    deadline_s: float = 5.0
    cap: int = 64 * KIB
    privilege: str = "none"
    unless: str = ""
    fine: tuple[int, ...] = (0,)
    hide: str = ""

    @property
    def asked(self) -> dict[str, Any]:
        """What was asked, in the form in which a recording says it."""
        return {self.how: list(self.what) if self.how in ("command", "files") else self.what[0]}


QUESTIONS = (
    Question(
        id="host",
        how="library",
        what=("platform",),
        purpose="Names the node, its kernel and architecture; counts its processors and its memory.",
    ),
    Question(
        id="os-release",
        how="file",
        what=("/etc/os-release",),
        purpose="Names the operating system and its version.",
    ),
    Question(
        id="boot-id",
        how="file",
        what=("/proc/sys/kernel/random/boot_id",),
        purpose="Tells one boot of the node from the next.",
    ),
    Question(
        id="uptime",
        how="file",
        what=("/proc/uptime",),
        purpose="Says how long the node has been up, and so how far back its log can reach.",
    ),
    Question(
        id="limits",
        how="file",
        what=("/proc/self/limits",),
        purpose="Shows the limits that a job starts with, such as locked memory for RDMA.",
    ),
    Question(
        id="cpuinfo",
        how="library",
        what=("cpuinfo",),
        purpose="Names the processor and tells whether a hypervisor is below it.",
    ),
    Question(
        id="dmi",
        how="tree",
        what=("/sys/class/dmi/id",),
        purpose="Names the machine's maker, product and BIOS version; no serial numbers.",
    ),
    Question(
        id="clock",
        how="library",
        what=("adjtimex",),
        purpose="Asks the kernel whether its clock is synchronised; sets nothing.",
    ),
    Question(
        id="settings",
        how="files",
        what=(
            "/proc/meminfo",
            "/proc/swaps",
            "/proc/sys/kernel/numa_balancing",
            "/proc/sys/kernel/perf_event_paranoid",
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "/sys/kernel/security/lockdown",
            "/sys/devices/system/node/online",
        ),
        purpose="Shows how memory, swap and profiling are set up.",
    ),
    Question(
        id="cmdline",
        how="library",
        what=("cmdline",),
        purpose="Keeps the words of the kernel's command line that set up IOMMU, PCI, processors and memory.",
    ),
    Question(
        id="mounts",
        how="library",
        what=("mounts",),
        purpose="Tells how full the local file systems at /, /dev/shm, /tmp and /var are; opens no file.",
    ),
    Question(
        id="own-name",
        how="library",
        what=("own name",),
        purpose="Looks up the node's own name, and tells if its addresses are its own; keeps no address.",
    ),
    Question(
        id="cpu",
        how="tree",
        what=("/sys/devices/system/cpu",),
        purpose="Shows how the processors change their frequency and how deep they sleep.",
        cap=256 * KIB,
    ),
    Question(
        id="edac",
        how="tree",
        what=("/sys/devices/system/edac/mc",),
        purpose="Reads how many errors the memory controllers have counted.",
    ),
    Question(
        id="iommu",
        how="tree",
        what=("/sys/kernel/iommu_groups",),
        purpose="Shows which devices the IOMMU translates, and which it lets through.",
        cap=1 * MIB,
    ),
    Question(
        id="pci",
        how="tree",
        what=("/sys/bus/pci/devices",),
        purpose="Lists what is on the PCI bus: identity, driver, link speed and width, counts of errors.",
        deadline_s=20,
        cap=4 * MIB,
    ),
    Question(
        id="acs",
        how="tree",
        what=("/sys/bus/pci/devices",),
        purpose="Reads from PCI bridges whether they send traffic between devices through the processor.",
        cap=1 * MIB,
        privilege="root",
    ),
    Question(
        id="infiniband",
        how="tree",
        what=("/sys/class/infiniband",),
        purpose="Lists the RDMA devices: firmware, ports, states, rates, GID tables, partitions, errors.",
        deadline_s=20,
        cap=4 * MIB,
    ),
    Question(
        id="net",
        how="tree",
        what=("/sys/class/net",),
        purpose="Lists the network interfaces: state, MTU, speed and lost links; no addresses.",
        deadline_s=10,
        cap=1 * MIB,
    ),
    Question(
        id="shm",
        how="library",
        what=("shm",),
        purpose="Adds up what lies in /dev/shm, by the number of its owner; no names of files, no content.",
    ),
    Question(
        id="processors",
        how="tree",
        what=("/sys/devices/system/cpu",),
        purpose="Counts the processor packages, cores and threads that are in use.",
        cap=1 * MIB,
    ),
    Question(
        id="numa",
        how="tree",
        what=("/sys/devices/system/node",),
        purpose="Lists the NUMA nodes with their processors and memory.",
        cap=1 * MIB,
    ),
    Question(
        id="nvme",
        how="tree",
        what=("/sys/class/nvme",),
        purpose="Lists the NVMe drives: model, firmware and size; no serial numbers.",
        deadline_s=10,
        cap=1 * MIB,
    ),
    Question(
        id="dcb",
        how="library",
        what=("netlink",),
        purpose="Asks the kernel which priorities each interface pauses instead of dropping; sets nothing.",
        deadline_s=10,
    ),
    Question(
        id="lldp",
        how="command",
        what=("lldpcli", "-f", "json0", "show", "neighbors", "details"),
        purpose="Asks this node's own LLDP daemon, where there is one, to which switch and port each"
        " interface leads, and how large a frame that takes; leaves out all addresses.",
        deadline_s=10,
        cap=1 * MIB,
        privilege="root or the daemon's group",
        hide=r'(?<=")([0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9A-Fa-f]{0,4}(:[0-9A-Fa-f]{0,4}){2,})(?=")',
    ),
    Question(
        id="gpudirect",
        how="tree",
        what=("/sys/module",),
        purpose="Tells which modules for GPUDirect RDMA are loaded, of a short list of names.",
    ),
    Question(
        id="nccl",
        how="library",
        what=("nccl",),
        purpose="Reads settings of NCCL and UCX, of a fixed list of names, in the environment and their files"
        " (/etc/nccl.conf, ~/.nccl.conf); lists NCCL's network plugins.",
    ),
    Question(
        id="nvidia-module",
        how="file",
        what=("/proc/driver/nvidia/version",),
        purpose="Names the NVIDIA kernel module that is loaded, whether or not its library works.",
    ),
    Question(
        id="nvidia-sysfs-version",
        how="file",
        what=("/sys/module/nvidia/version",),
        purpose="Gives the same version from a second witness.",
    ),
    Question(
        id="nvidia-params",
        how="file",
        what=("/proc/driver/nvidia/params",),
        purpose="Shows the parameters of the NVIDIA kernel module, such as who may profile.",
    ),
    Question(
        id="amdgpu",
        how="tree",
        what=("/sys/bus/pci/drivers/amdgpu",),
        purpose="Lists the GPUs that AMD's driver holds: identity, memory, partitions, power cap, errors.",
        deadline_s=30,
        cap=4 * MIB,
    ),
    Question(
        id="amdgpu-version",
        how="file",
        what=("/sys/module/amdgpu/version",),
        purpose="Names the AMD kernel module that is loaded; the kernel's own has no such file.",
    ),
    Question(
        id="kfd",
        how="tree",
        what=("/sys/class/kfd/kfd/topology/nodes",),
        purpose="Lists what AMD's driver offers to programs: each GPU, or each partition of one.",
        deadline_s=10,
        cap=4 * MIB,
    ),
    Question(
        id="kfd-users",
        how="tree",
        what=("/sys/class/kfd/kfd/proc",),
        purpose="Counts the processes that use AMD GPUs; no names, no numbers of processes.",
    ),
    Question(
        id="rocm",
        how="file",
        what=("/opt/rocm/.info/version",),
        purpose="Names the version of ROCm that is installed on the host.",
    ),
    Question(
        id="exposure",
        how="library",
        what=("access",),
        purpose="Looks at modes and owners of a short list of management devices, key files and sockets, and"
        " for four known ports that are listened on; opens no key, connects to nothing.",
        deadline_s=10,
    ),
    Question(
        id="virtualization",
        how="library",
        what=("virtualization",),
        purpose="Tells whether the processor offers to run virtual machines, and looks at mode and owner of"
        " /dev/kvm; opens nothing.",
    ),
    Question(
        id="kmsg",
        how="library",
        what=("kmsg",),
        purpose="Reads the kernel's log, /dev/kmsg, for what drivers say of broken hardware; clears nothing.",
        deadline_s=10,
        cap=4 * MIB,
        privilege="root",
    ),
    Question(
        id="kernel-journal",
        how="command",
        what=(
            "journalctl",
            "--dmesg",
            "--quiet",
            "--no-pager",
            "--lines=20000",
            "--output=json",
            "--output-fields=MESSAGE,PRIORITY,SYSLOG_FACILITY,_SOURCE_MONOTONIC_TIMESTAMP",
        ),
        purpose="Asks the journal for the kernel's messages of this boot where /dev/kmsg may not be read.",
        deadline_s=20,
        cap=16 * MIB,
        unless="kmsg",
    ),
    Question(
        id="nvme-health",
        how="library",
        what=("nvme",),
        purpose="Asks each NVMe drive for its health log (Get Log Page 02h): wear, warnings; sets nothing.",
        deadline_s=10,
        privilege="root",
    ),
    Question(
        id="proc-version",
        how="file",
        what=("/proc/version",),
        purpose="Names the kernel that runs, and on Debian its package's version.",
    ),
    Question(
        id="version-signature",
        how="file",
        what=("/proc/version_signature",),
        purpose="Gives the package version of an Ubuntu kernel that runs.",
    ),
    Question(
        id="boot",
        how="tree",
        what=("/boot",),
        purpose="Names the kernels that can be started; only names that begin with vmlinuz- are kept.",
    ),
    Question(
        id="mlx5-version",
        how="file",
        what=("/sys/module/mlx5_core/version",),
        purpose="Tells a network driver of NVIDIA's own packages (OFED, DOCA) from the kernel's.",
    ),
    Question(
        id="cuda-toolkit",
        how="file",
        what=("/usr/local/cuda/version.json",),
        purpose="Gives the version of the CUDA toolkit, if there is one.",
    ),
    Question(
        id="packages",
        how="file",
        what=(packages.STATUS, *packages.NAMES),
        purpose="Gives the versions of these packages, of those that are installed; of no others.",
        deadline_s=20,
    ),
    Question(
        id="rpm",
        how="command",
        what=packages.RPM,
        purpose="Asks the same of the rpm database.",
        deadline_s=20,
        unless="packages",
    ),
    Question(
        id="runc",
        how="command",
        what=("runc", "--version"),
        purpose="Gives the version of a runc that came with another package, or with none.",
        unless="packages/rpm runc",
    ),
    Question(
        id="containerd",
        how="command",
        what=("containerd", "--version"),
        purpose="Gives the version of a containerd that is in no package.",
        unless="packages/rpm containerd containerd.io",
    ),
    Question(
        id="dockerd",
        how="command",
        what=("dockerd", "--version"),
        purpose="Gives the version of a Docker Engine that is in no package.",
        unless="packages/rpm docker-ce docker.io moby-engine",
    ),
    Question(
        id="nvidia-ctk",
        how="command",
        what=("nvidia-ctk", "--version"),
        purpose="Gives the version of an NVIDIA Container Toolkit that is in no package.",
        unless="packages/rpm nvidia-container-toolkit",
    ),
    Question(
        id="virt",
        how="command",
        what=("systemd-detect-virt",),
        purpose="Names the hypervisor or the container runtime.",
        deadline_s=10,
        fine=(0, 1),  # 1 goes with "none": not virtualised, which is an answer
    ),
    Question(
        id="failed-units",
        how="command",
        what=(
            "systemctl",
            "list-units",
            "--state=failed",
            "--plain",
            "--no-pager",
            "nvidia-persistenced*",
            "nvidia-dcgm*",
            "dcgm*",
            "nvidia-cdi-refresh*",
            "amd-metrics-exporter*",
            "openibd*",
            "slurmd*",
            "munge*",
            "kubelet*",
            "containerd*",
            "docker*",
            "chrony*",
        ),
        purpose="Lists which services of GPUs, RDMA, scheduler, containers and time have failed.",
        deadline_s=10,
    ),
    Question(
        id="storage",
        how="library",
        what=("file systems",),
        purpose="Tells which network, cluster and local file systems are mounted, whence and how, and asks"
        " each for its room; leaves out user names, keys and passwords, opens no file.",
        deadline_s=60,
        cap=256 * KIB,
    ),
    Question(
        id="equipment",
        how="library",
        what=("equipment",),
        purpose="Looks for a short list of programs and libraries (containers, MPI, modules, NCCL), how"
        " users and ssh are set up, and whether this user has a name; starts nothing, keeps no key.",
        deadline_s=15,
        cap=256 * KIB,
    ),
    Question(
        id="imex",
        how="command",
        what=("nvidia-imex-ctl", "-N"),
        purpose="Asks this node's own IMEX daemon, where there is one, which nodes of its rack it can reach.",
        deadline_s=20,
        cap=256 * KIB,
    ),
    Question(
        id="nvml",
        how="library",
        what=("nvml",),
        purpose="Reads each NVIDIA GPU by the driver's library: identity, health, links, load, process ids.",
        deadline_s=60,
        cap=4 * MIB,
    ),
    Question(
        id="nvidia-smi-xml",
        how="command",
        what=("nvidia-smi", "-q", "-x"),
        purpose="Asks the driver's tool where its library gave no answer; leaves out the names of processes.",
        deadline_s=60,
        cap=4 * MIB,
        unless="nvml",
        hide=r"(?<=<process_name>)[^<]*",
    ),
    Question(
        id="amd-smi",
        how="command",
        what=("amd-smi", "static", "--json"),
        purpose="Asks AMD's tool for the same where /sys shows nothing of its driver.",
        deadline_s=60,
        cap=4 * MIB,
        unless="amdgpu",
    ),
)

_PREFACE = f"""\
What the GPUassay probe asks of a node (schema {SCHEMA})

The probe reads what is listed here, in this order, writes it to its standard output, and ends.
It judges nothing. It writes no file, changes no setting, opens no network connection (the system may ask the
site's name server when own-name is looked up) and asks for no privilege; what it may not read, it reports as
denied. It starts no program but the commands below, never
through a shell, each without input and with few environment variables (PATH, HOME, LD_LIBRARY_PATH, LANG).
Whatever has not answered by its deadline is ended; of an answer, no more is kept than its cap.
NVIDIA's library and tool are known to load their kernel module where it is installed and not yet loaded.
"""


def describe() -> list[dict[str, str]]:
    """Give all questions as rows of words, in their order."""
    return [
        {
            "id": question.id,
            "asks": f"{question.how} {' '.join(question.what)}",
            "purpose": question.purpose,
            "privilege": question.privilege,
            "deadline": f"{question.deadline_s:g} s",
            "cap": f"{question.cap // KIB} KiB",
            "unless": question.unless,
        }
        for question in QUESTIONS
    ]


def listing() -> str:
    """Give all questions as a page that a security team can read and sign."""
    return "\n".join([_PREFACE, *map(_paragraph, describe())])


def _paragraph(row: dict[str, str]) -> str:
    items, *names = row["unless"].split() or [""]
    lacks = f"lists no {' or '.join(names)}" if names else "gave no answer"
    unless = f"; only where {items} {lacks}" if items else ""
    return (
        f"{row['id']}: {row['asks']}\n"
        f"    {row['purpose']}\n"
        f"    privilege: {row['privilege']}; deadline {row['deadline']}; cap {row['cap']}{unless}\n"
    )
