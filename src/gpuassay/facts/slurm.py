"""What Slurm says of its nodes, partitions and jobs: by JSON, or by the text that every version prints."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts import gres
from gpuassay.facts.slurm_json import node_records
from gpuassay.facts.slurm_state import UNKNOWN, Standing, State, read_state
from gpuassay.facts.source import parse, take, text
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import expand

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

NODES, PARTITIONS, CONFIG = "slurm/nodes", "slurm/partitions", "slurm/config"
JOBS, VERSION = "slurm/jobs", "slurm/version"
TOPOLOGY, CONTROLLERS = "slurm/topology", "slurm/controllers"
MPI, SRUN, TRES = "slurm/mpi", "slurm/srun", "slurm/tres"
HEALTH = "slurm/health-check"

_PAIR = re.compile(r"([A-Za-z][\w/:]*)=(.*?)(?=\s+[A-Za-z][\w/:]*=|$)")
_FREE_TEXT = ("Reason", "OS", "Comment", "Extra")  # each has a line of its own, and may hold anything
_TIME = re.compile(r"(?:([0-9]{1,6})-)?([0-9]{1,9})(?::([0-9]{1,2}))?(?::([0-9]{1,2}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """A node as Slurm knows it; ``gres`` and ``gres_used`` are its generic resources, as written."""

    name: str
    address: str = ""
    hostname: str = ""
    state: State = UNKNOWN
    reason: str = ""
    reason_by: str = ""
    gres: str = ""
    gres_used: str = ""
    partitions: tuple[str, ...] = ()
    version: str = ""
    boot_time: str = ""
    features: tuple[str, ...] = ()

    @property
    def gpus(self) -> Fact[int]:
        """How many GPUs Slurm was told that it has."""
        return gres.gpus(gres.read_gres(self.gres))

    @property
    def gpus_used(self) -> Fact[int]:
        """How many of them jobs hold."""
        if not self.gres_used:  # without details this is not shown, which does not mean none
            return Unread("not_found", f"Slurm does not say which GPUs of {self.name} are in use")
        return gres.gpus(gres.read_gres(self.gres_used))

    @property
    def says(self) -> str:
        """What Slurm says of it, in its own words, for a reason."""
        why = f": {brief(self.reason)}" if self.reason else ""
        by = f" [{brief(self.reason_by)}]" if self.reason_by else ""
        return f"Slurm says {self.state}{why}{by}"


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition; ``max_time_s`` None is without limit. ``exclusive``: a node holds one job at a time."""

    name: str
    up: bool
    state: str
    max_time_s: float | None = None
    default: bool = False
    root_only: bool = False
    exclusive: bool = False


class Slurm:
    """What was recorded of a cluster's Slurm."""

    def __init__(self, evidence: Evidence) -> None:
        """Only hold: everything is read when it is first asked for."""
        self._evidence = evidence

    @cached_property
    def nodes(self) -> Fact[Mapping[str, SlurmNode]]:
        """All nodes that could be seen, by name."""
        item = take(self._evidence, NODES)
        if isinstance(item, Unread):
            return item
        if item.value.out.lstrip().startswith(b"{"):
            document = parse(item.value, item.evidence)
            records = document if isinstance(document, Unread) else node_records(document)
        else:
            records = list(_blocks(item.value.out.decode(errors="replace"), "NodeName"))
        if isinstance(records, Unread):
            return records
        listed = [node for node in map(_node, records) if node is not None]
        nodes = {node.name: node for node in listed}
        if not nodes:
            return Unread("garbled", f"{NODES} lists no node", item.evidence)
        if len(nodes) < len(listed):
            twice = next(name for name, count in Counter(node.name for node in listed).items() if count > 1)
            return Unread("garbled", f"{NODES} lists {twice} more than once", item.evidence)
        return Read(nodes, item.evidence)

    @cached_property
    def partitions(self) -> Fact[Mapping[str, Partition]]:
        """All partitions that could be seen, by name."""
        shown = text(self._evidence, PARTITIONS)
        if isinstance(shown, Unread):
            return shown
        found = map(_partition, _blocks(shown.value, "PartitionName"))
        return Read({partition.name: partition for partition in found}, shown.evidence)

    @cached_property
    def jobs(self) -> Fact[Mapping[str, tuple[str, ...]]]:
        """The numbers of the jobs that hold each node, of those that could be seen."""
        shown = text(self._evidence, JOBS)
        if isinstance(shown, Unread):
            return shown
        held = defaultdict(list)
        for line in shown.value.splitlines():
            job, _, nodes = line.strip().partition(" ")
            for node in _expanded(nodes) if job.isdecimal() else ():
                held[node].append(job)
        return Read({node: tuple(jobs) for node, jobs in held.items()}, shown.evidence)

    def setting(self, name: str) -> Fact[str]:
        """Read one line of ``scontrol show config``; ``(null)`` is empty."""
        shown = text(self._evidence, CONFIG)
        if isinstance(shown, Unread):
            return shown
        for line in shown.value.splitlines():
            key, equals, value = line.partition("=")
            if equals and key.strip() == name:
                return Read(value.strip().replace("(null)", ""), shown.evidence)
        return Unread("not_found", f"{CONFIG} has no {name}", shown.evidence)

    def number(self, name: str) -> Fact[int]:
        """Read a setting that is a whole number, such as ``120 sec``."""
        setting = self.setting(name)
        if isinstance(setting, Unread):
            return setting
        found = re.match(r"([0-9]{1,12})(?![\w.])", setting.value, re.ASCII)
        if found is None:
            return Unread("garbled", f"{name} is {brief(setting.value)}, no number", setting.evidence)
        return Read(int(found[1]), setting.evidence, f"{name} = {setting.value}")

    @property
    def private(self) -> frozenset[str]:
        """What this cluster shows to administrators only: the words of ``PrivateData``."""
        setting = self.setting("PrivateData")
        words = setting.value if isinstance(setting, Read) else ""
        return frozenset(word.strip().lower() for word in words.split(",")) - {"", "none"}

    def find(self, name: str) -> SlurmNode | None:
        """Find a node by its name, or by the host name or address that only this one has.

        A name with a domain is looked for without it too.
        """
        nodes = self.nodes.value if isinstance(self.nodes, Read) else {}
        for alias in (name, name.partition(".")[0]):
            if alias in nodes:
                return nodes[alias]
            known = self._aliases.get(alias, ())
            if len(known) == 1:
                return known[0]
        return None

    @cached_property
    def _aliases(self) -> Mapping[str, list[SlurmNode]]:
        aliases: dict[str, list[SlurmNode]] = defaultdict(list)
        nodes = self.nodes.value.values() if isinstance(self.nodes, Read) else ()
        for node in nodes:
            for alias in {node.hostname, node.address, node.hostname.partition(".")[0]} - {"", node.name}:
                aliases[alias].append(node)
        return aliases


def out_of_service(slurm: Slurm, names: frozenset[str]) -> Mapping[str, str]:
    """Give those of these nodes that Slurm holds out of service, each with what it says."""
    known = {name: node for name in names if (node := slurm.find(name)) is not None}
    return {name: node.says for name, node in known.items() if node.state.standing is Standing.OUT}


def allocated_gpus(shown: bytes) -> Mapping[str, int]:
    """Read from ``scontrol --details show job`` how many GPUs the job holds on each of its nodes."""
    held: dict[str, int] = {}
    for line in shown.decode(errors="replace").splitlines():
        record = dict(_PAIR.findall(line))
        if record.keys() >= {"Nodes", "GRES"}:
            gpus = gres.gpus(gres.read_gres(record["GRES"]))
            count = gpus.value if isinstance(gpus, Read) else 0
            for node in _expanded(record["Nodes"]):
                held[node] = held.get(node, 0) + count
    return held


def _blocks(shown: str, first: str) -> Iterator[Mapping[str, str]]:
    """Read what ``scontrol show`` printed: a block for each thing, which begins with its name.

    Of a key that comes twice the first one counts, so that no free text can say another state.
    """
    record: dict[str, str] = {}
    for line in shown.splitlines():
        if line.startswith(f"{first}="):
            if record:
                yield record
            record = {}
        key, equals, value = line.strip().partition("=")
        if equals and key in _FREE_TEXT:
            record.setdefault(key, value.strip())
        else:
            for key, value in _PAIR.findall(line):
                record.setdefault(key, value.strip())
    if record:
        yield record


def _node(record: Mapping[str, str]) -> SlurmNode | None:
    if not record.get("NodeName"):
        return None
    reason, by = _reason(record.get("Reason", ""))
    return SlurmNode(
        name=record["NodeName"],
        address=record.get("NodeAddr", ""),
        hostname=record.get("NodeHostName", ""),
        state=read_state(record.get("State", "")) or UNKNOWN,
        reason=reason,
        reason_by=by,
        gres=record.get("Gres", ""),
        gres_used=record.get("GresUsed", ""),
        partitions=_words(record.get("Partitions", "")),
        version=record.get("Version", ""),
        boot_time=record.get("BootTime", ""),
        features=_words(record.get("ActiveFeatures", "")),
    )


def _words(text: str) -> tuple[str, ...]:
    """Part a list with commas; ``(null)`` is none."""
    return tuple(filter(None, text.replace("(null)", "").split(",")))


def _reason(text: str) -> tuple[str, str]:
    """Part ``bad GPU [root@2026-11-30T08:00:00]`` into what and by whom."""
    found = re.fullmatch(r"(.*?)\s*\[([^\[\]]+@[^\[\]]+)\]", text, re.DOTALL)
    return (found[1], found[2]) if found else (text.replace("(null)", ""), "")


def _partition(record: Mapping[str, str]) -> Partition:
    state = record.get("State", "UNKNOWN")
    return Partition(
        name=record.get("PartitionName", ""),
        up=state == "UP",
        state=state,
        max_time_s=read_time(record.get("MaxTime", "")),
        default=record.get("Default") == "YES",
        root_only=record.get("RootOnly") == "YES",
        exclusive=record.get("OverSubscribe") == "EXCLUSIVE",
    )


def read_time(text: str) -> float | None:
    """Read a time such as ``7-00:00:00``, ``1:00:00`` or ``30:00``, in seconds; None without limit."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    days, *rest = found.groups()
    parts = [int(part) for part in rest if part is not None]
    # A day is followed by hours; without one, a lone number is minutes: sbatch(1), --time.
    seconds = (3600, 60, 1) if days is not None or len(parts) == len(rest) else (60, 1)
    return float(
        86400 * int(days or 0) + sum(part * unit for part, unit in zip(parts, seconds, strict=False))
    )


def _expanded(nodes: str) -> tuple[str, ...]:
    try:
        return expand(nodes)
    except ValueError:
        return ()
