"""Whether Slurm's limits let a user have what was bought: a job of all nodes of a pool, with all their GPUs.

A job is bound by the partition, by QOSes and by associations (the user's and those of his accounts up to the
root). Of a limit that several set, the first counts: the partition's QOS, the job's, then associations; with
OverPartQOS the job's QOS comes first. A user chooses partition, account and QOS: the best choice is judged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

from gpuassay.facts.slurm import PARTITIONS, Slurm, read_time
from gpuassay.facts.source import text
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import expand

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpuassay.facts.node import Node
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact
    from gpuassay.judge.site import Site

OWN, ACCOUNTS, QOS = "slurm/own-limits", "slurm/account-limits", "slurm/qos"
OWN_COLUMNS = (
    "Cluster,Account,Partition,ParentName,GrpTRES,GrpTRESMins,GrpJobs,GrpSubmit,"
    "MaxTRES,MaxTRESPerNode,MaxJobs,MaxSubmit,MaxWall,QOS"
)
QOS_COLUMNS = (
    "Name,Flags,GrpTRES,GrpTRESMins,GrpJobs,GrpSubmit,MaxTRES,MaxTRESPerNode,"
    "MaxTRESPU,MaxTRESPA,MaxJobsPU,MaxSubmitPU,MaxJobsPA,MaxSubmitPA,MaxWall"
)
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
_LIMITED = ("limits", "safe", "all")  # AccountingStorageEnforce: each of these has limits hold
_MOST_ACCOUNTS = 64  # above one another: more would be a ring
_ROW = dict[str, str]


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


@dataclass(frozen=True)
class Choice:
    """A partition, and an account with a QOS where these are limited; ``levels`` in the order that counts."""

    partition: _ROW
    name: str
    levels: Sequence[tuple[str, _ROW]] = field(default=())

    def stops(self, job: Wanted) -> list[str]:
        """Name all that would stop the job."""
        return [*_of_partition(self.partition, job), *self._of_levels(job)]

    def _of_levels(self, job: Wanted) -> Iterator[str]:
        for key in (*_OF_RESOURCES, "MaxTRESPerNode", "GrpTRESMins", *_OF_JOBS, "MaxWall"):
            for who, value in self._first(key):
                for limit in _exceeded(key, value, job):
                    yield f"{who} {limit}"

    def _first(self, key: str) -> Iterator[tuple[str, str]]:
        """Give what counts of a limit; group limits of accounts above one another all do."""
        found = [(who, row[key]) for who, row in self.levels if row.get(key)]
        grouped = key.startswith("Grp") and found and found[0][0].startswith("account")
        return iter(found if grouped else found[:1])


class Limits:
    """What Slurm said of limits."""

    def __init__(self, slurm: Slurm, evidence: Evidence) -> None:
        """Only hold: everything is read when it is first asked for."""
        self._slurm = slurm
        self._evidence = evidence

    def stopping(self, job: Wanted, account: str = "", qos: str = "") -> Fact[int]:
        """Count what stops a job, by the best choice; the note says what, or which choice lets it run."""
        choices = self._choices(job, account, qos)
        if isinstance(choices, Unread):
            return choices
        judged = [(choice.stops(job), choice.name) for choice in choices.value]
        if not judged:
            return Read(1, choices.evidence, f"{job.words}: no partition of its nodes is open to this user")
        stops, name = min(judged, key=lambda one: len(one[0]))
        said = f"{'; '.join(stops)} ({name})" if stops else name
        return Read(len(stops), choices.evidence, f"{job.words}: {said}")

    def _choices(self, job: Wanted, account: str, qos: str) -> Fact[list[Choice]]:
        shown = text(self._evidence, PARTITIONS)
        enforced = self._slurm.setting("AccountingStorageEnforce")
        for fact in (shown, enforced):
            if isinstance(fact, Unread):
                return fact
        assert isinstance(shown, Read)  # noqa: S101 - for types
        assert isinstance(enforced, Read)  # noqa: S101
        partitions = [row for row in _partitions(shown.value) if _serves(row, job)]
        words = {word.strip().lower() for word in enforced.value.split(",")}
        if not words & {*_LIMITED} or "nolimits" in words:
            plain = [
                Choice(row, f"partition {row['PartitionName']}; no limit by account holds")
                for row in partitions
            ]
            return Read(plain, shown.evidence)
        bound = self._bound
        if isinstance(bound, Unread):
            return bound
        own, qoses = bound.value
        chosen = [row for row in own if account in ("", row["Account"])]
        return Read(
            [
                self._choice(partition, row, name, qoses)
                for partition, row in product(partitions, chosen)
                if row.get("Partition", "") in ("", partition["PartitionName"])
                for name in [one for one in row.get("QOS", "").split(",") if qos in ("", one)] or [""]
                if _allowed(partition, row, name)
            ],
            bound.evidence,
        )

    def _choice(self, partition: _ROW, own: _ROW, qos: str, qoses: Mapping[str, _ROW]) -> Choice:
        above = [(f"account {row['Account']}:", row) for row in self._above(own["Account"])]
        of_job = [(f"QOS {qos}:", qoses[qos])] if qos in qoses else []
        of_partition = partition.get("QoS", "N/A")
        levels = (
            [(f"QOS {of_partition} of the partition:", qoses[of_partition])] if of_partition in qoses else []
        )
        if of_job and "OverPartQOS" in of_job[0][1].get("Flags", ""):
            levels = [*of_job, *levels]
        else:
            levels = [*levels, *of_job]
        name = f"partition {partition['PartitionName']}, account {own['Account']}" + (
            f", QOS {qos}" if qos else ""
        )
        return Choice(partition, name, [*levels, (f"account {own['Account']}, this user:", own), *above])

    def _above(self, account: str) -> Iterator[_ROW]:
        accounts = self._accounts
        for _ in range(_MOST_ACCOUNTS):
            if account not in accounts:
                return
            yield accounts[account]
            account = accounts[account].get("ParentName", "")

    @cached_property
    def _accounts(self) -> Mapping[str, _ROW]:
        listed = self._listed(ACCOUNTS)
        return {} if isinstance(listed, Unread) else {row["Account"]: row for row in listed.value}

    @cached_property
    def _bound(self) -> Fact[tuple[list[_ROW], Mapping[str, _ROW]]]:
        """The user's own associations, and all QOSes; accounts have to be seen too."""
        own, accounts, qoses = (self._listed(name) for name in (OWN, ACCOUNTS, QOS))
        for listed in (own, accounts, qoses):
            if isinstance(listed, Unread):
                return listed
        assert isinstance(own, Read)  # noqa: S101 - for types
        assert isinstance(qoses, Read)  # noqa: S101
        if not own.value:
            return Unread("denied", "this user has no account, so no limit of one can be seen", own.evidence)
        return Read((own.value, {row["Name"]: row for row in qoses.value}), own.evidence)

    def _listed(self, name: str) -> Fact[list[_ROW]]:
        """Read a table with its header; of several clusters, the rows of this one."""
        shown = text(self._evidence, name)
        if isinstance(shown, Unread):
            missing = shown.kind == "not_found"  # no sacctmgr here
            return Unread("denied", shown.why, shown.evidence) if missing else shown
        lines = [line.split("|") for line in shown.value.splitlines() if line]
        first = "Name" if name == QOS else "Account"
        if not lines or first not in lines[0] or any(len(line) != len(lines[0]) for line in lines):
            return Unread("garbled", f"{name} is no table: {brief(shown.value)}", shown.evidence)
        rows = [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]
        cluster = self._slurm.setting("ClusterName")
        ours = cluster.value if isinstance(cluster, Read) else ""
        return Read([row for row in rows if ours in ("", row.get("Cluster", ours))], shown.evidence)


def _partitions(shown: str) -> list[_ROW]:
    blocks = [f"PartitionName={block}" for block in shown.split("PartitionName=")[1:]]
    return [dict(word.split("=", 1) for word in block.split() if "=" in word) for block in blocks]


def _nodes(partition: _ROW) -> frozenset[str]:
    try:
        return frozenset(expand(partition.get("Nodes", "")))
    except ValueError:
        return frozenset()


def _serves(partition: _ROW, job: Wanted) -> bool:
    up = partition.get("State") == "UP" and partition.get("RootOnly") != "YES"
    return up and bool(_nodes(partition) & job.nodes)


def _allowed(partition: _ROW, own: _ROW, qos: str) -> bool:
    lists = {"AllowAccounts": own["Account"], "AllowQos": qos}
    for key, word in lists.items():
        listed = partition.get(key, "ALL")
        if listed.upper() != "ALL" and word and word not in listed.split(","):
            return False
    return True


def _of_partition(partition: _ROW, job: Wanted) -> Iterator[str]:
    there = len(_nodes(partition) & job.nodes)
    if there < job.count:
        yield f"it has {there} of the nodes"
    most = partition.get("MaxNodes", "UNLIMITED")
    if most.isdecimal() and int(most) < job.count:
        yield f"its MaxNodes={most}"
    longest = read_time(partition.get("MaxTime", ""))
    if job.hours and longest is not None and longest < job.hours * 3600:
        yield f"its MaxTime={partition['MaxTime']}"


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


@dataclass(frozen=True)
class Bought:
    """A pool of nodes, and whether this user may have all of it in one job."""

    where: str
    stopping: Fact[int]
    node: str = ""
    models: tuple[str, ...] = ()


def bought(evidence: Evidence, nodes: Iterable[Node], site: Site) -> tuple[Bought, ...]:
    """Give the pools with GPUs that Slurm gives out; without a site file, all its nodes with GPUs are one."""
    slurm, reach = Slurm(evidence), site.reach.slurm
    limits = Limits(slurm, evidence)
    pools: dict[str, list[Node]] = {}
    for node in nodes:
        pool = site.pool_of(node.name)
        if slurm.find(node.name) and (pool.gpus if pool else node.gpus):
            pools.setdefault(node.pool, []).append(node)
    hours = reach.longest_job_s / 3600 if reach.longest_job_s else None
    found = []
    for name, members in pools.items():
        pool = site.pool_of(members[0].name)
        count = min(len(members), pool.contracted) if pool and pool.contracted else len(members)
        each = pool.gpus if pool and pool.gpus else min(len(node.gpus) for node in members)
        known = frozenset(one.name for node in members if (one := slurm.find(node.name)))
        job = Wanted(known, count, each, hours)
        where = f"slurm/{name}" if name else "slurm"
        found.append(Bought(where, limits.stopping(job, reach.account, reach.qos)))
    unread = slurm.nodes
    why = unread if isinstance(unread, Unread) else Unread("not_found", "Slurm has no node with GPUs")
    return tuple(found) or (Bought("slurm", why),)
