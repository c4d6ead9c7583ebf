"""How each node of a Slurm cluster is to be asked, or why it is not: decided from what Slurm says, purely."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuassay.facts.slurm_state import Standing
from gpuassay.judge.fact import Read
from gpuassay.judge.names import first_of, folded, natural
from gpuassay.target import Bound, TargetError
from gpuassay.target.slurm_time import allowed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.evidence.item import Status
    from gpuassay.facts.slurm import Partition, Slurm, SlurmNode
    from gpuassay.facts.slurm_limits import Limits
    from gpuassay.judge.reach import SlurmReach
    from gpuassay.target.slurm_time import Allowed

SPARE_S = 60.0
"""A job's time beyond our own deadline: to end what hangs, and what Slurm itself needs."""

_OF_THE_SITE = ("account", "qos", "reservation", "constraint")
_BESIDE = ("--cpus-per-task=1", "--mem=1G")  # little enough to fit beside other jobs


@dataclass(frozen=True, slots=True)
class Visit:
    """A node is asked by an ``srun`` with these options, for at most ``limit_s`` seconds.

    ``blind`` is why it is given no GPU, or not all, so that what it says of GPUs is not to be believed.
    """

    node: str
    options: tuple[str, ...]
    limit_s: float
    how: str
    blind: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A node is not asked, with the status that this gives to all that it would have been asked."""

    node: str
    status: Status
    why: str


@dataclass(frozen=True, slots=True)
class Allocation:
    """The job inside which we run: the GPUs that it holds, by node."""

    job: str
    gpus: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Planner:
    """Decides node by node. Jobs get this ``name``; ``deadline_s`` is what the probe of a node may take.

    Without ``limits`` only what partitions allow is known.
    """

    slurm: Slurm
    reach: SlurmReach
    deadline_s: float
    name: str
    allocation: Allocation | None = None
    limits: Limits | None = None

    def plan(self, node: str) -> Visit | Refusal:
        """Decide for a node, by whatever name it goes."""
        known = self.slurm.find(node)
        if known is None:
            if "nodes" in self.slurm.private:
                return Refusal(node, "denied", "Slurm shows nodes to administrators only (PrivateData=nodes)")
            return Refusal(node, "not_found", "Slurm lists no node of this name, host name or address")
        match known.state.standing:
            case Standing.OUT:
                return Refusal(node, "denied", known.says)
            case Standing.GONE:
                return Refusal(node, "failed", known.says)
            case Standing.ASLEEP:
                return Refusal(node, "denied", f"{known.says}; asking would start it")
            case _ if self.allocation:
                return self._step(node, known, self.allocation)
            case Standing.HELD if not self.reach.reservation:
                why = "it is held for a reservation, which [slurm] reservation of the site file can name"
                return Refusal(node, "denied", f"{known.says}; {why}")
            case standing:
                return self._job(node, known, busy=standing is Standing.BUSY)

    def _step(self, node: str, known: SlurmNode, allocation: Allocation) -> Visit | Refusal:
        """Plan a step in the job that is already there."""
        if known.name not in allocation.gpus:
            return Refusal(node, "failed", f"it was not asked: job {allocation.job} does not hold it")
        held, has = allocation.gpus[known.name], _gpus(known)
        blind = f"job {allocation.job} holds {held or 'none'} of its {has} GPUs" if held < has else ""
        options = (*self._common(known, held), f"--jobid={allocation.job}", "--overlap")
        return Visit(node, options, math.inf, f"a step of job {allocation.job}", blind)

    def _job(self, node: str, known: SlurmNode, *, busy: bool) -> Visit | Refusal:
        """Plan a job of its own: the whole node, or beside another job one processor and no GPU."""
        partition = self.partition([known])
        if isinstance(partition, str):
            return Refusal(node, "failed", partition)
        holders = f"busy: {self._holders(known)}"
        if busy and ("MIXED" not in known.state.words or partition.exclusive):
            return Refusal(node, "denied", holders)
        gpus, used = _gpus(known), known.gpus_used
        idle = not busy or (isinstance(used, Read) and used.value == 0)  # its GPUs are, whatever runs beside
        wanted_s = self.reach.time_limit_s or self.deadline_s + SPARE_S
        minutes, limit_s, limited = self._allowed(partition).minutes(wanted_s)
        options = (
            *self._common(known, gpus if idle else 0),
            *(_BESIDE if busy else ("--exclusive",)),
            *self._of_the_site(partition),
            f"--time={minutes}",
        )
        what = "a job for the whole node"
        if busy:
            what = f"a job beside others, {'with all' if idle else 'without'} GPUs"
        how = f"{what} through partition {partition.name}, at most {minutes} min{limited}"
        return Visit(node, options, limit_s, how, "" if idle else holders)

    def whole(self, node: str) -> Visit | Refusal:
        """Decide for a workload, which has to have its nodes alone, with all GPUs."""
        plan, known = self.plan(node), self.slurm.find(node)
        if isinstance(plan, Refusal) or known is None:
            return plan
        busy = known.state.standing is Standing.BUSY and not self.allocation
        blind = f"busy: {self._holders(known)}" if busy else plan.blind
        return Refusal(node, "denied", blind) if blind else plan

    def together(self, nodes: Sequence[str], seconds: float) -> tuple[tuple[str, ...], Mapping[str, int]]:
        """Give the options of one job for several whole nodes, and its GPUs on each. Raises TargetError."""
        known = [found for node in nodes if (found := self.slurm.find(node)) is not None]
        partition = self.partition(known)
        if isinstance(partition, str):
            raise TargetError(f"no job can run on {folded(nodes)}: {partition}")
        minutes, _, limited = self._allowed(partition).minutes(seconds + SPARE_S)
        if limited:
            raise TargetError(
                f"a job may take {math.ceil(seconds / 60)} min, and is given {minutes}{limited}"
            )
        gpus = min(map(_gpus, known))  # a job has as many on each of its nodes
        options = (
            f"--nodes={len(known)}",
            f"--nodelist={','.join(one.name for one in known)}",
            "--exclusive",
            *self._named(gpus),
            *self._of_the_site(partition),
            f"--time={minutes}",
        )
        return options, {one.name: gpus for one in known}

    def bound(self, nodes: Sequence[str]) -> Bound:
        """Say how long one job for several whole nodes may take, by partition, account, QOS and site file."""
        known = [found for node in nodes if (found := self.slurm.find(node)) is not None]
        partition = self.partition(known) if known else ""
        if isinstance(partition, str):  # it is said where the job cannot be had
            return Bound()
        site, most = self.reach.time_limit_s, self._allowed(partition)
        if site is not None and site < most.surely.length:
            return Bound(site - SPARE_S, f"[slurm] time_limit of the site file is {site / 60:g} min")
        if most.surely.seconds is None:
            return Bound()
        return Bound(most.surely.seconds - SPARE_S, most.why)

    def _allowed(self, partition: Partition) -> Allowed:
        return allowed(partition, self.reach, self.limits)

    def options_for(self, known: SlurmNode) -> tuple[str, ...]:
        """Give what the site says to Slurm with every job on a node."""
        partition = self.partition([known])
        return () if isinstance(partition, str) else self._of_the_site(partition)

    def _of_the_site(self, partition: Partition) -> tuple[str, ...]:
        words = (f"--{word}={value}" for word in _OF_THE_SITE if (value := getattr(self.reach, word)))
        return (f"--partition={partition.name}", *words, *self.reach.arguments)

    def _common(self, known: SlurmNode, gpus: int) -> tuple[str, ...]:
        return (
            "--nodes=1",
            "--ntasks=1",
            f"--nodelist={known.name}",
            "--mpi=none",
            *self._named(gpus),
        )

    def _named(self, gpus: int) -> tuple[str, ...]:
        return (
            f"--job-name={self.name}",
            "--no-kill",
            f"--immediate={max(1, math.ceil(self.reach.wait_s))}",
            *([f"--gres=gpu:{gpus}"] if gpus else []),
        )

    def partition(self, nodes: Sequence[SlurmNode]) -> Partition | str:
        """Choose the partition that leads to all of some nodes, or say why there is none.

        That of the site file; else the cluster's default; else the one that allows the longest time.
        """
        shown = self.slurm.partitions
        listed = shown.value if isinstance(shown, Read) else {}
        wanted = [word for word in self.reach.partition.split(",") if word]
        common = frozenset.intersection(*(frozenset(node.partitions) for node in nodes))
        mine = [partition for name, partition in listed.items() if name in common]
        if wanted:
            mine = [partition for partition in mine if partition.name in wanted]
            if not mine:
                return f"it is not in partition {self.reach.partition}, which the site file names"
        if not mine:
            return "it is in no partition that is shown to us"
        up = [partition for partition in mine if partition.up and not partition.root_only]
        if not up:
            words = ", ".join(f"{partition.name} is {partition.state}" for partition in mine)
            return f"no partition leads to it: {words}"
        return max(up, key=lambda one: (one.default, one.max_time_s is None, one.max_time_s or 0.0))

    def _holders(self, known: SlurmNode) -> str:
        shown = self.slurm.jobs
        jobs = shown.value.get(known.name, ()) if isinstance(shown, Read) else ()
        if jobs:
            return f"held by job {first_of(sorted(jobs, key=natural))}"
        hidden = " (PrivateData=jobs)" if "jobs" in self.slurm.private else ""
        return f"{known.says}, and its jobs are not shown to us{hidden}"


def _gpus(known: SlurmNode) -> int:
    """Count the GPUs to ask for; none where Slurm was told none, or nothing that can be read."""
    gpus = known.gpus
    return gpus.value if isinstance(gpus, Read) else 0
