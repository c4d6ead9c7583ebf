"""What users wait for before work begins, on each file system: packages, imports, a first token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from gpuassay.facts.record import Record
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure import tiers
from gpuassay.measure.work import lifecycle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.facts import Node
    from gpuassay.judge.fact import Fact, Scalar

PYTHON = "python"
"""The role of the Python that the site names for its nodes, as it lies."""


@dataclass(frozen=True)
class Installed(tiers.Tier):
    """How packages get onto one file system."""

    @property
    def pip_seconds(self) -> Fact[float]:
        """By pip, into a new environment."""
        return self._seconds(self.row, "pip_seconds")

    @property
    def uv_seconds(self) -> Fact[float]:
        """By uv, with what it has cached on the same file system."""
        uv = self.row.record("uv")
        return self.lack or tiers.lack(uv) or self._seconds(uv, "warm_seconds")

    @property
    def uv_first_seconds(self) -> Fact[float]:
        """By uv, with nothing cached."""
        uv = self.row.record("uv")
        return self.lack or tiers.lack(uv) or self._seconds(uv, "cold_seconds")

    def _seconds(self, record: Record, key: str) -> Fact[float]:
        return self.lack or time_of(record, key, self.about)


@dataclass(frozen=True)
class Imported(tiers.Tier):
    """How long an import takes from one file system."""

    @property
    def warm_seconds(self) -> Fact[float]:
        """When its files are in memory."""
        return self._named(self.lack or self.median(self.row, "warm_seconds", self._noise))

    @property
    def cold_seconds(self) -> Fact[float]:
        """When they are not; unseen where they could not be taken out of memory."""
        if self.lack:
            return self.lack
        stayed = self.row.look("warm_only")
        if isinstance(stayed, Read):
            return Unread("denied", f"warm only: {stayed.value}; {self.about}", self.row.evidence)
        return self._named(self.median(self.row, "cold_seconds", self._noise))

    @property
    def _noise(self) -> float:
        return float(self.args["noise"])

    def _named(self, fact: Fact[float]) -> Fact[float]:
        name = self.row.text("package")
        if isinstance(fact, Unread) or isinstance(name, Unread):
            return fact
        return Read(fact.value, fact.evidence, f"import {name.value}; {fact.note}")


@dataclass(frozen=True)
class Served(tiers.Tier):
    """How long a server takes that reads its weights from one file system."""

    @property
    def first_token_seconds(self) -> Fact[float]:
        """From its start to the first token, with nothing in memory."""
        if self.lack:
            return self.lack
        found = time_of(self.row.record("cold"), "first_token", self.about)
        weights, warm = self.row.count("weight_bytes"), self.row.record("warm").look("first_token")
        if isinstance(found, Unread) or isinstance(weights, Unread):
            return found if isinstance(found, Unread) else weights
        again = f"{warm.value:.3g} s the second time; " if isinstance(warm, Read) else ""
        note = f"{weights.value / 1e9:.3g} GB of weights; {again}{found.note}"
        return Read(found.value, found.evidence, note)


_SUBJECTS: Mapping[str, type[tiers.Tier]] = {"install": Installed, "import": Imported, "serve": Served}


def time_of(record: Record, key: str, about: str) -> Fact[float]:
    """Read a number of seconds."""
    told = record.look(key)
    if isinstance(told, Unread):
        return told
    if type(told.value) not in (int, float) or not 0 < told.value < float("inf"):
        return record.garbled(key, told.value, "a number of seconds")
    return Read(float(told.value), told.evidence, about)


class Lifecycle:
    """``[measure.X] workload = "lifecycle"``: one rank on each node, and ``args.step`` says what it does."""

    name = "lifecycle"
    method = lifecycle.METHOD
    together: ClassVar[bool] = False
    one_rank: ClassVar[bool] = True

    def order(self, args: Mapping[str, Scalar], nodes: Sequence[Node] = ()) -> dict[str, Any]:
        """Give what a node is told to do; tiny where no node has an accelerator."""
        packages = nodes[0].declared_packages if nodes else None
        return {
            "workload": self.name,
            "method": self.method,
            "args": dict(args),
            "tiny": not any(node.gpus for node in nodes),
            "mounts": tiers.declared(nodes[0]) if nodes else [],
            "packages": packages
            and {"wheels": packages.wheels, "index": packages.index, "install": list(packages.install)},
        }

    def asked(self, args: Mapping[str, Scalar]) -> dict[str, Any]:
        """Say what was asked, as it is recorded."""
        return {"workload": self.name, "method": self.method, "args": dict(args)}

    def subjects(
        self, nodes: Sequence[Node], args: Mapping[str, Scalar], told: Mapping[str, Sequence[Record]]
    ) -> list[tiers.Tier]:
        """Give a subject for each node and file system."""
        return [one for node in nodes for one in _of_node(node, args, told[node.name])]


def _of_node(node: Node, args: Mapping[str, Scalar], told: Sequence[Record]) -> list[tiers.Tier]:
    document = told[0] if told else Record(Unread("failed", "no rank gave a result"))
    rows = document.listed("rows")
    found = {_path(row): row for row in rows.value} if isinstance(rows, Read) else {}
    listed = [(mount.path, mount.role) for mount in node.declared_mounts]
    if args["step"] == "import":
        listed = [("", PYTHON), *listed]
    listed += [(path, _role(row)) for path, row in found.items() if not node.declared_mounts and path]
    lost = (
        rows if isinstance(rows, Unread) else Unread("failed", "the node did not report on it", rows.evidence)
    )
    subject = _SUBJECTS[str(args["step"])]
    return [
        subject(
            node.name,
            path,
            role,
            found.get(path, Record(lost, lost.evidence)),
            args,
            node.models,
            not node.gpus,
        )
        for path, role in listed
    ]


def _path(row: Record) -> str:
    fact = row.look("mount")
    return fact.value if isinstance(fact, Read) and isinstance(fact.value, str) else ""


def _role(row: Record) -> str:
    fact = row.text("role")
    return fact.value if isinstance(fact, Read) else ""
