"""A real Slurm on the nodes of a rack: a controller where we log in, and one slurmd on every other node.

Each has eight "GPUs", which are device files of nothing. All daemons end with the rack.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from nodes import needs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import pytest

    from nodes import Rack

LOGIN = "login"
_PATIENCE_S = 30.0
_OURS = (
    "/run/gpud",
    "/run/nv-fabricmanager",
    "plainfs.py",
    "munged",
    "slurmctld",
    "slurmd",
    "sleep 7200",
    "--job-name=theirs",
    "sackd",
    "slurmscriptd",
)

_CONF = """\
ClusterName=test
SlurmctldHost={login}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmdParameters=config_overrides
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=100000
ReturnToService=1
TCPTimeout=2
MessageTimeout=6
KillWait=10
GresTypes=gpu
AccountingStorageType=accounting_storage/none
NodeName=DEFAULT CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=2048
"""


def needs_slurm() -> pytest.MarkDecorator:
    """Mark tests that start Slurm: they are skipped where it cannot be had."""
    return needs("slurmctld", "slurmd", "srun", "munged")


@dataclass(frozen=True)
class Slurm:
    """A Slurm that runs on a rack; ``partitions`` maps names to what slurm.conf says of them.

    ``theirs`` are the jobs of somebody else, see `occupy`; ``settings`` are further lines of slurm.conf.
    """

    rack: Rack
    folder: Path
    partitions: Mapping[str, str]
    theirs: list[str] = field(default_factory=list)
    settings: Sequence[str] = ()

    def start(self) -> None:
        """Start all daemons, and wait until every node has registered."""
        self._write()
        login = self.rack[LOGIN]
        login.run(*self._munged())
        login.run("slurmctld", env=self.environment)
        for node in self.nodes:
            self.rack[node].run("slurmd", "-N", node, env=self.environment)
        self.wait("sinfo --noheader --Node --format=%T", lambda shown: {*shown.split()} == {"idle"})

    @property
    def nodes(self) -> list[str]:
        """The nodes that Slurm has."""
        return [node.name for node in self.rack if node.name != LOGIN]

    @cached_property
    def environment(self) -> dict[str, str]:
        """What leads Slurm's programs, and our own, to this cluster."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("SLURM")}
        path = os.pathsep.join(filter(None, sys.path))
        return {**kept, "SLURM_CONF": str(self.folder / "slurm.conf"), "PYTHONPATH": path}

    def run(self, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command where one logs in."""
        return self.rack[LOGIN].run(*argv, env=self.environment, check=check)

    def begin(self, *argv: str) -> subprocess.Popen[bytes]:
        """Start a command there."""
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return self.rack[LOGIN].start(*argv, env=self.environment, **quiet)

    def occupy(self, node: str, *options: str) -> str:
        """Have somebody else's job run on a node, and give its number."""
        self.begin("srun", f"--nodelist={node}", "--job-name=theirs", *options, "sleep", "7200")
        look = f"squeue --noheader --states=running --nodelist={node} --name=theirs --format=%A"
        job = self.wait(look, lambda shown: shown.strip().isdecimal()).strip()
        self.theirs.append(job)
        return job

    def drain(self, node: str, reason: str, state: str = "drain") -> None:
        """Take a node out of service, as an administrator does."""
        self.run("scontrol", "update", f"nodename={node}", f"state={state}", f"reason={reason}")

    def reboot(self, node: str) -> None:
        """Cut a node's power, boot it anew, and start its slurmd."""
        self.rack[node].power_off()
        self.rack.boot(node).run("slurmd", "-N", node, env=self.environment)

    def revive(self, node: str) -> None:
        """Let jobs in again, as an administrator does, and wait until the node is idle."""
        self.run(
            "scontrol", "update", f"nodename={node}", "state=resume", check=False
        )  # it may be in service
        self.wait(f"sinfo --noheader --nodes={node} --format=%T", lambda shown: shown.strip() == "idle")

    def jobs(self) -> list[str]:
        """List the names of all jobs but those of `occupy`, also of those that are just ending."""
        names = self.run("squeue", "--noheader", "--all", "--format=%j").stdout.split()
        return [name for name in names if name != "theirs"]

    def wait(self, look: str, good: Callable[[str], bool]) -> str:
        """Look with a command until it shows what is good, and give that."""
        until = time.monotonic() + _PATIENCE_S
        while True:
            shown = self.run(*look.split(), check=False).stdout
            if good(shown):
                return shown
            if time.monotonic() > until:
                raise TimeoutError(f"{look} still shows {shown}")
            time.sleep(0.1)

    def started(self, node: str) -> dict[int, str]:
        """Give what runs on a node beside Slurm itself and the jobs of `occupy`."""
        running = self.rack[node].processes()
        known = (*_OURS, *(f"slurmstepd: [{job}." for job in self.theirs))
        return {pid: args for pid, args in running.items() if not any(word in args for word in known)}

    def assert_nothing_runs(self) -> None:
        """No job of ours is known any more and no process of one is left; what just ends is waited for."""
        self.wait("squeue --noheader --all --format=%j", lambda shown: {*shown.split()} <= {"theirs"})
        for node in self.nodes:
            for pid in self.started(node):
                self.rack[node].run(
                    "timeout", "15", "tail", "--pid", str(pid), "-f", "/dev/null", check=False
                )
            assert self.started(node) == {}, node

    def _munged(self) -> list[str]:
        names = {"socket": "munge", "key-file": "key", "pid-file": "munged.pid"}
        names |= {"log-file": "munged.log", "seed-file": "seed"}
        return ["munged", "--force", *(f"--{option}={self.folder / name}" for option, name in names.items())]

    def _write(self) -> None:
        self.folder.mkdir()
        (self.folder / "state").mkdir()
        key = self.folder / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        for number in range(8):
            os.mknod(self.folder / f"nvidia{number}", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        conf = _CONF.format(folder=self.folder, login=LOGIN)
        nodes = (f"NodeName={node} NodeAddr={self.rack[node].address} Gres=gpu:h200:8" for node in self.nodes)
        parts = (f"PartitionName={name} {words}" for name, words in self.partitions.items())
        (self.folder / "slurm.conf").write_text("\n".join([conf, *self.settings, *nodes, *parts, ""]))
        (self.folder / "gres.conf").write_text(f"Name=gpu Type=h200 File={self.folder}/nvidia[0-7]\n")
