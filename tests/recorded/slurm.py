"""What the Slurm of a healthy cluster says of itself, in the form of version 25.11."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuassay.evidence.item import Item
from gpuassay.facts import slurm_limits as limits
from gpuassay.judge.names import folded
from gpuassay.measure import SURVEYS
from recorded.items import command, encode, library

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

VERSION = "25.11.2"
LEAF = 8  # nodes to a leaf switch
BLOCK = 18  # nodes of a rack that NVLink joins

CONFIG: Mapping[str, str] = {
    "AccountingStorageEnforce": "associations,limits,qos",
    "AccountingStorageHost": "ctl1",
    "AccountingStorageTRES": "cpu,mem,energy,node,billing,fs/disk,vmem,pages,gres/gpu",
    "AccountingStorageType": "accounting_storage/slurmdbd",
    "DefMemPerCPU": "4096",
    "Epilog[0]": "/etc/slurm/epilog.sh",
    "GresTypes": "gpu",
    "HealthCheckInterval": "300 sec",
    "HealthCheckNodeState": "ANY",
    "HealthCheckProgram": "/etc/slurm/health.sh",
    "JobAcctGatherType": "jobacct_gather/cgroup",
    "JobRequeue": "1",
    "MpiDefault": "pmix",
    "PreemptMode": "OFF",
    "PrivateData": "none",
    "ProctrackType": "proctrack/cgroup",
    "Prolog[0]": "/etc/slurm/prolog.sh",
    "RebootProgram": "/usr/sbin/reboot",
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_CORE_MEMORY",
    "SLURM_VERSION": VERSION,
    "SlurmctldTimeout": "120 sec",
    "SlurmdTimeout": "300 sec",
    "TaskPlugin": "task/cgroup,task/affinity",
    "TopologyPlugin": "topology/tree",
}
CGROUP = {"CgroupPlugin": "cgroup/v2", "ConstrainCores": "yes", "ConstrainDevices": "yes"}
PING = ("Slurmctld(primary) at ctl1 is UP", "Slurmctld(backup) at ctl2 is UP")
MPI = "MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\nspecific pmix plugin versions available: pmix_v5\n"
SRUN = """Usage: srun [OPTIONS(0)... [executable(0) [args(0)...]]]
  -w, --nodelist=hosts...     request a specific list of hosts
      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH
"""
TRES = "cpu||1\nmem||2\nenergy||3\nnode||4\nbilling||5\nfs|disk|6\nvmem||7\npages||8\ngres|gpu|1001\n"


def cluster(names: Sequence[str], gres: str, *, blocks: bool = False) -> list[Item]:
    """Return all that a Slurm with these nodes says, each with the same generic resources."""
    config = {**CONFIG, **({"TopologyPlugin": "topology/block"} if blocks else {})}
    show = ("scontrol", "--all", "--details", "show", "nodes")
    return [
        command("slurm/version", ("scontrol", "--version"), f"slurm {VERSION}\n"),
        command("slurm/nodes", show, "\n".join(node(name, gres) for name in names)),
        command("slurm/partitions", ("scontrol", "--all", "show", "partition"), partition(names)),
        command("slurm/config", ("scontrol", "show", "config"), configuration(config)),
        command("slurm/jobs", ("squeue", "--all", "--noheader"), ""),
        command("slurm/topology", ("scontrol", "show", "topology"), topology(names, blocks=blocks)),
        command("slurm/controllers", ("scontrol", "ping"), "".join(f"{line}\n" for line in PING)),
        command("slurm/mpi", ("srun", "--mpi=list"), MPI),
        command("slurm/srun", ("srun", "--help"), SRUN),
        command("slurm/tres", ("sacctmgr", "--noheader", "--parsable2", "show", "tres"), TRES),
        *accounts(),
        Item(
            "slurm/health-check",
            0,
            asked={"file": CONFIG["HealthCheckProgram"]},
            out=encode({"tools": ["dcgmi", "nvidia-smi"]}),
        ),
    ]


def accounts() -> list[Item]:
    """Return the limits of one user, of his account and its parents, and of all QOSes."""

    def rows(columns: str, *given: Mapping[str, str]) -> str:
        names = columns.split(",")
        lines = ["|".join(row.get(name, "") for name in names) for row in given]
        return "\n".join([columns.replace(",", "|"), *lines, ""])

    table = ("sacctmgr", "--parsable2", "show")
    of = {"Cluster": "synthetic", "QOS": "normal,high"}
    own = rows(limits.OWN_COLUMNS, {**of, "Account": "research"})
    above = rows(
        limits.OWN_COLUMNS,
        {**of, "Account": "root"},
        {**of, "Account": "customer", "ParentName": "root", "GrpTRES": "gres/gpu=512,node=64"},
        {**of, "Account": "research", "ParentName": "customer", "MaxJobs": "200"},
    )
    qos = rows(
        limits.QOS_COLUMNS,
        {"Name": "normal", "MaxWall": "7-00:00:00"},
        {"Name": "high", "MaxTRESPU": "node=2"},
    )
    return [
        command(limits.ACCOUNTS, (*table, "assoc", "user="), above),
        command(limits.QOS, (*table, "qos"), qos),
        command(limits.OWN, (*table, "assoc", "user=user"), own),
    ]


def node(name: str, gres: str) -> str:
    """Return the block of an idle node."""
    return (
        f"NodeName={name} Arch=x86_64 CoresPerSocket=56\n"
        "   CPUAlloc=0 CPUEfctv=224 CPUTot=224 CPULoad=0.31\n"
        f"   Gres={gres}\n   GresUsed={gres.rpartition(':')[0]}:0\n"
        f"   NodeAddr={name} NodeHostName={name} Version={VERSION}\n"
        "   RealMemory=2048000 AllocMem=0 FreeMem=2010000 Sockets=2 Boards=1\n"
        "   State=IDLE ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A\n"
        "   Partitions=batch\n"
        "   BootTime=2026-11-16T07:55:24 SlurmdStartTime=2026-11-16T07:58:01\n"
    )


def partition(names: Sequence[str]) -> str:
    """Return the only partition."""
    return (
        "PartitionName=batch\n   AllowGroups=ALL Default=YES Hidden=NO\n"
        "   MaxNodes=UNLIMITED MaxTime=7-00:00:00 MinNodes=0\n"
        f"   Nodes={folded(names)}\n   PriorityTier=1 RootOnly=NO OverSubscribe=NO PreemptMode=OFF\n"
        f"   State=UP TotalNodes={len(names)} DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED\n"
    )


def configuration(settings: Mapping[str, str]) -> str:
    """Return the configuration as scontrol prints it, with cgroup.conf and the controllers at the end."""
    lines = [f"{key:<23} = {value}" for key, value in sorted(settings.items())]
    cgroup = [f"{key:<23} = {value}" for key, value in CGROUP.items()]
    first = "Configuration data as of 2026-11-30T08:00:01"
    return "\n".join([first, *lines, "", "Cgroup Support Configuration:", *cgroup, "", *PING, ""])


def topology(names: Sequence[str], *, blocks: bool) -> str:
    """Return the network: leaves below one spine, or a block for each rack."""
    if blocks:
        parts = [names[first : first + BLOCK] for first in range(0, len(names), BLOCK)]
        return "".join(
            f"BlockName=rack{number} BlockIndex={number} Nodes={folded(part)} BlockSize={BLOCK}\n"
            for number, part in enumerate(parts)
        )
    parts = [names[first : first + LEAF] for first in range(0, len(names), LEAF)]
    leaves = [f"leaf{number}" for number, _ in enumerate(parts)]
    below = "".join(
        f"SwitchName={leaf} Level=0 LinkSpeed=1 Nodes={folded(part)}\n"
        for leaf, part in zip(leaves, parts, strict=True)
    )
    return below + f"SwitchName=spine Level=1 LinkSpeed=1 Nodes={folded(names)} Switches={folded(leaves)}\n"


BEGAN, GRANTED = "1796025602.604118930", "1796025601"


def trial(names: Sequence[str], gpus: int) -> list[Item]:
    """Return what came of a job with one GPU of that many, and of one that was killed: all as it should."""
    told = (
        "began=" + BEGAN,
        "job=4712",
        f"node={names[0]}",
        "CUDA_VISIBLE_DEVICES=0",
        "ROCR_VISIBLE_DEVICES=",
    )
    devices = [f"device=/dev/nvidia{number}" for number in range(gpus)]
    said = "\n".join([*told, devices[0], "opens=/dev/nvidia0", *devices[1:], ""])
    record = "4712|FAILED|3:0|billing=1,cpu=1,gres/gpu=1,mem=4G,node=1\n"
    job = Item("job", 0, "failed", {"gpus": 1}, 3, why="srun ended with 3", out=said.encode())
    items = (job, Item("start", 0, out=f"{GRANTED}\n".encode()), Item("sacct", 0, out=record.encode()))
    killed = Item("killed", 0, "failed", exit=137, why="srun ended with 137", out=b"held=yes\n")
    hygiene = (killed, Item("look", 0, out=b"left=0\nprograms=0\n"))
    return [*_survey("slurm_job", items), *_survey("slurm_hygiene", hygiene)]


def _survey(name: str, items: Iterable[Item]) -> Iterator[Item]:
    asked = {"survey": name, "method": SURVEYS[name].method, "args": {}}
    return (replace(item, id=f"survey/{name}/{item.id}", asked={**asked, **item.asked}) for item in items)


def equipment() -> Item:
    """Return what a node of such a cluster offers to jobs."""
    found = {
        "programs": {
            name: f"/usr/bin/{name}"
            for name in ("enroot", "apptainer", "docker", "mpirun", "dcgmi", "ncu", "nsys")
        },
        "lmod": ["/usr/share/lmod/lmod/init/profile"],
        "hpc_sdk": ["26.5"],
        "nccl": ["libnccl.so.2.30.4"],
        "setuid_starters": [],
        "pyxis": {"plugins": ["/usr/lib/x86_64-linux-gnu/slurm/spank_pyxis.so"], "loaded": True},
        "namespaces": {"/proc/sys/user/max_user_namespaces": "8254541"},
        "docker_socket": {"there": True, "open": True},
        "passwd": ["files", "sss", "systemd"],
        "user_known": True,
        "ssh": {"hostbased": True, "own_key": False},
    }
    return library("equipment", "equipment", found)
