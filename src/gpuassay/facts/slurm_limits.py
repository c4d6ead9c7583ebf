"""Whether Slurm's limits let a user have what was bought, and how long a job of his may take.

A job is bound by the partition, by QOSes and by associations (the user's and those of his accounts up to the
root); see ``slurm_choice`` for which counts. A user chooses partition, account and QOS: of what was bought
the best choice is judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts.slurm import PARTITIONS, Slurm
from gpuassay.facts.slurm_choice import Choice, Row, Wanted, nodes_of
from gpuassay.facts.source import text
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gpuassay.facts.node import Node
    from gpuassay.facts.slurm_choice import Allowance
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
_LIMITED = ("limits", "safe", "all")  # AccountingStorageEnforce: each of these has limits hold
_MOST_ACCOUNTS = 64  # above one another: more would be a ring


class Limits:
    """What Slurm said of limits."""

    def __init__(self, slurm: Slurm, evidence: Evidence) -> None:
        """Only hold: everything is read when it is first asked for."""
        self._slurm = slurm
        self._evidence = evidence

    def stopping(self, job: Wanted, account: str = "", qos: str = "") -> Fact[int]:
        """Count what stops a job, by the best choice; the note says what, or which choice lets it run."""
        choices = self._choices(lambda row: _serves(row, job), account, qos)
        if isinstance(choices, Unread):
            return choices
        judged = [(choice.stops(job), choice.name) for choice in choices.value]
        if not judged:
            return Read(1, choices.evidence, f"{job.words}: no partition of its nodes is open to this user")
        stops, name = min(judged, key=lambda one: len(one[0]))
        said = f"{'; '.join(stops)} ({name})" if stops else name
        return Read(len(stops), choices.evidence, f"{job.words}: {said}")

    def allowances(self, partition: str) -> Fact[tuple[Allowance, ...]]:
        """Say how long a job may take in a partition, by each choice that this user has, the shortest first.

        Only MaxTime and MaxWall are read for it, no limit of time by resources (MaxTRESMins).
        """
        choices = self._choices(lambda row: row["PartitionName"] == partition)
        if isinstance(choices, Unread):
            return choices
        found = (choice.allowance for choice in choices.value)
        return Read(tuple(sorted(found, key=lambda one: one.length)), choices.evidence)

    def _choices(self, serves: Callable[[Row], bool], account: str = "", qos: str = "") -> Fact[list[Choice]]:
        shown = text(self._evidence, PARTITIONS)
        enforced = self._slurm.setting("AccountingStorageEnforce")
        for fact in (shown, enforced):
            if isinstance(fact, Unread):
                return fact
        assert isinstance(shown, Read)  # noqa: S101 - for types
        assert isinstance(enforced, Read)  # noqa: S101
        partitions = [row for row in _partitions(shown.value) if serves(row)]
        words = {word.strip().lower() for word in enforced.value.split(",")}
        if not words & {*_LIMITED} or "nolimits" in words:
            return Read([Choice(row) for row in partitions], shown.evidence)
        bound = self._bound
        if isinstance(bound, Unread):
            return bound
        own, qoses = bound.value
        return Read(
            [
                self._choice(partition, row, name, qoses)
                for partition in partitions
                for row in _associations(own, partition["PartitionName"])
                if account in ("", row["Account"])
                for name in [one for one in row.get("QOS", "").split(",") if qos in ("", one)] or [""]
                if _allowed(partition, row, name)
            ],
            bound.evidence,
        )

    def _choice(self, partition: Row, own: Row, qos: str, qoses: Mapping[str, Row]) -> Choice:
        above = [(f"account {row['Account']}", row) for row in self._above(own["Account"])]
        of_job = [(f"QOS {qos}", qoses[qos])] if qos in qoses else []
        flags = frozenset(qoses.get(qos, {}).get("Flags", "").split(","))
        of_partition = partition.get("QoS", "N/A")
        levels = (
            [(f"QOS {of_partition} of the partition", qoses[of_partition])] if of_partition in qoses else []
        )
        levels = [*of_job, *levels] if "OverPartQOS" in flags else [*levels, *of_job]
        of_user = (f"account {own['Account']}, this user", own)
        return Choice(partition, own["Account"], qos, [*levels, of_user, *above], flags)

    def _above(self, account: str) -> Iterator[Row]:
        accounts = self._accounts
        for _ in range(_MOST_ACCOUNTS):
            if account not in accounts:
                return
            yield accounts[account]
            account = accounts[account].get("ParentName", "")

    @cached_property
    def _accounts(self) -> Mapping[str, Row]:
        listed = self._listed(ACCOUNTS)
        return {} if isinstance(listed, Unread) else {row["Account"]: row for row in listed.value}

    @cached_property
    def _bound(self) -> Fact[tuple[list[Row], Mapping[str, Row]]]:
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

    def _listed(self, name: str) -> Fact[list[Row]]:
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


def _partitions(shown: str) -> list[Row]:
    blocks = [f"PartitionName={block}" for block in shown.split("PartitionName=")[1:]]
    return [dict(word.split("=", 1) for word in block.split() if "=" in word) for block in blocks]


def _serves(partition: Row, job: Wanted) -> bool:
    up = partition.get("State") == "UP" and partition.get("RootOnly") != "YES"
    return up and bool(nodes_of(partition) & job.nodes)


def _associations(own: Sequence[Row], partition: str) -> list[Row]:
    """Give what holds in a partition: an association for it alone, before that of the whole account."""
    alone = {row["Account"] for row in own if row.get("Partition") == partition}
    return [row for row in own if row.get("Partition", "") == (partition if row["Account"] in alone else "")]


def _allowed(partition: Row, own: Row, qos: str) -> bool:
    lists = {"AllowAccounts": own["Account"], "AllowQos": qos}
    for key, word in lists.items():
        listed = partition.get(key, "ALL")
        if listed.upper() != "ALL" and word and word not in listed.split(","):
            return False
    return True


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
