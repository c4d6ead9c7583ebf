"""One choice that a user of Slurm has, a partition and an account with a QOS, and what it limits a job to.

Of a limit that several set, the first counts: the partition's QOS, the job's, then associations; with
OverPartQOS the job's QOS comes first. A partition's MaxTime and MaxNodes bound a job beside all of them,
unless the job's own QOS has PartitionTimeLimit or PartitionMaxNodes. Sources: SchedMD's page "Resource
Limits", and a real slurmctld (22.05), where these two flags of a partition's QOS did nothing.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuassay.facts.slurm import read_time
from gpuassay.judge.names import expand

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_OF_RESOURCES = ("GrpTRES", "MaxTRES", "MaxTRESPU", "MaxTRESPA")
_OF_JOBS = (
    "GrpJobs",
    "GrpSubmit",
    "MaxJobs",
    "MaxSubmit",
    "MaxJobsPU",
    "MaxSubmitPU",
    "MaxJobsPA",
    "MaxSubmitPA",
)
Row = dict[str, str]
"""One thing that Slurm lists, by the names of its columns."""


@dataclass(frozen=True)
class Wanted:
    """The job that was bought: a pool's nodes, whole, for as long as was agreed (None: nothing was)."""

    nodes: frozenset[str]
    count: int
    gpus_each: int | None
    hours: float | None = None

    @property
    def gpus(self) -> int | None:
        """How many GPUs it has in all."""
        return None if self.gpus_each is None else self.count * self.gpus_each

    @property
    def words(self) -> str:
        """Say it."""
        gpus = f", {self.gpus} GPUs" if self.gpus else ""
        return f"{self.count} nodes{gpus}" + (f", {self.hours:g} h" if self.hours else ", of any length")


@dataclass(frozen=True, slots=True)
class Allowance:
    """How long a job may take, in seconds (None: without limit), by whom, and with which account and QOS.

    Of a QOS or an account that are empty nothing is known, or none is limited.
    """

    seconds: float | None
    who: str
    account: str = ""
    qos: str = ""

    @property
    def length(self) -> float:
        """The seconds, infinitely many where nothing limits them."""
        return math.inf if self.seconds is None else self.seconds


@dataclass(frozen=True)
class Choice:
    """A partition, and an account with a QOS where these are limited; ``levels`` in the order that counts.

    ``flags`` are those of the job's own QOS.
    """

    partition: Row
    account: str = ""
    qos: str = ""
    levels: Sequence[tuple[str, Row]] = field(default=())
    flags: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Say it."""
        qos = f", QOS {self.qos}" if self.qos else ""
        chosen = f", account {self.account}{qos}" if self.account else "; no limit by account holds"
        return f"partition {self.partition['PartitionName']}{chosen}"

    @property
    def allowance(self) -> Allowance:
        """How long a job may take by it: the shorter of MaxTime and of the MaxWall that counts."""
        by = Allowance(self._max_time_s, f"partition {self.partition['PartitionName']}")
        for who, value in self._first("MaxWall"):
            wall = Allowance(read_time(value), f"MaxWall ({who})")
            by = min(by, wall, key=lambda one: one.length)
        return Allowance(by.seconds, by.who, self.account, self.qos)

    def stops(self, job: Wanted) -> list[str]:
        """Name all that would stop the job."""
        return [*self._of_partition(job), *self._of_levels(job)]

    @property
    def _max_time_s(self) -> float | None:
        return None if "PartitionTimeLimit" in self.flags else read_time(self.partition.get("MaxTime", ""))

    def _of_partition(self, job: Wanted) -> Iterator[str]:
        there = len(nodes_of(self.partition) & job.nodes)
        if there < job.count:
            yield f"it has {there} of the nodes"
        most = "" if "PartitionMaxNodes" in self.flags else self.partition.get("MaxNodes", "")
        if most.isdecimal() and int(most) < job.count:
            yield f"its MaxNodes={most}"
        longest = self._max_time_s
        if job.hours and longest is not None and longest < job.hours * 3600:
            yield f"its MaxTime={self.partition['MaxTime']}"

    def _of_levels(self, job: Wanted) -> Iterator[str]:
        for key in (*_OF_RESOURCES, "MaxTRESPerNode", "GrpTRESMins", *_OF_JOBS, "MaxWall"):
            for who, value in self._first(key):
                for limit in _exceeded(key, value, job):
                    yield f"{who}: {limit}"

    def _first(self, key: str) -> Iterator[tuple[str, str]]:
        """Give what counts of a limit; group limits of accounts above one another all do."""
        found = [(who, row[key]) for who, row in self.levels if row.get(key)]
        grouped = key.startswith("Grp") and found and found[0][0].startswith("account")
        return iter(found if grouped else found[:1])


def nodes_of(partition: Row) -> frozenset[str]:
    """Name the nodes of a partition; none where the list cannot be read."""
    try:
        return frozenset(expand(partition.get("Nodes", "")))
    except ValueError:
        return frozenset()


def _exceeded(key: str, value: str, job: Wanted) -> Iterator[str]:
    """Give what of a limit is less than the job needs."""
    if key in _OF_JOBS:
        if value == "0":
            yield f"{key}=0"
    elif key == "MaxWall":
        longest = read_time(value)
        if job.hours and longest is not None and longest < job.hours * 3600:
            yield f"{key}={value}"
    else:
        for name, most in _tres(value):
            needed = _needed(key, name, job)
            if needed is not None and most < needed:
                yield f"{key}={name}={most}"


def _needed(key: str, resource: str, job: Wanted) -> float | None:
    """Say how much of a resource the job needs; None for what is not known."""
    gpus = job.gpus_each if key == "MaxTRESPerNode" else job.gpus
    amount = {"node": job.count, "gres/gpu": gpus}.get(resource)
    if key == "GrpTRESMins":
        return amount * job.hours * 60 if amount and job.hours else None
    return amount


def _tres(value: str) -> Iterator[tuple[str, int]]:
    """Read ``gres/gpu=16,node=2``; an amount with a unit is none of GPUs or nodes."""
    for name, amount in re.findall(r"([a-z][\w/:.-]*)=([0-9]+)(?=,|$)", value):
        yield name, int(amount)
