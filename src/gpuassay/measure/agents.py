"""vLLM as we start it on each node, and what agents that talk to it there have to wait for."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from gpuassay.facts.record import Record
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure import figures
from gpuassay.measure.lifecycles import time_of
from gpuassay.measure.talked import Held, Talked, held
from gpuassay.measure.work import agents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.facts import Node
    from gpuassay.judge.fact import Absence, Fact, Scalar

_ABSENCES: Mapping[str, Absence] = {"not_found": "not_found"}


class Agents:
    """``[measure.X] workload = "agents"``: one rank on each node, which starts a server and talks to it."""

    name = "agents"
    method = agents.METHOD
    together: ClassVar[bool] = False
    one_rank: ClassVar[bool] = True

    def order(self, args: Mapping[str, Scalar], nodes: Sequence[Node] = ()) -> dict[str, Any]:
        """Give what a node is told to do; tiny where no node has an accelerator."""
        return {
            "workload": self.name,
            "method": self.method,
            "args": dict(args),
            "tiny": not any(node.gpus for node in nodes),
            "gpus": [len(node.gpus) for node in nodes],
        }

    def asked(self, args: Mapping[str, Scalar]) -> dict[str, Any]:
        """Say what was asked, as it is recorded."""
        return {"workload": self.name, "method": self.method, "args": dict(args)}

    def subjects(
        self,
        nodes: Sequence[Node],
        args: Mapping[str, Scalar],  # noqa: ARG002 - as all workloads
        told: Mapping[str, Sequence[Record]],
    ) -> list[ServedNode]:
        """Give a subject for each node."""
        return [
            ServedNode(node.name, node.name, node.gpus[0].models if node.gpus else (), _row(told[node.name]))
            for node in nodes
        ]


def _row(told: Sequence[Record]) -> Record:
    document = told[0] if told else Record(Unread("failed", "no rank gave a result"))
    rows = document.listed("rows")
    if isinstance(rows, Unread):
        return Record(rows, rows.evidence)
    lost = Unread("failed", "the node did not report on it", document.evidence)
    return rows.value[0] if rows.value else Record(lost, lost.evidence)


@dataclass(frozen=True)
class ServedNode(Talked):
    """One node that served."""

    node: str
    where: str
    models: tuple[str, ...]
    row: Record = field(repr=False, compare=False)

    @property
    def ready_seconds(self) -> Fact[float]:
        """From the start of the server until it is healthy; its weights are not read but made up."""
        return self._lack or time_of(self.row, "ready_seconds", "healthy, not yet asked anything")

    @property
    def left_behind(self) -> Fact[bool]:
        """Whether anything of it was still there after it was ended."""
        left = self.row.look("left")
        if self._lack or isinstance(left, Unread):
            return self._lack or Unread("failed", "nothing was told of it", self.row.evidence)
        if not isinstance(left.value, list):
            return self.row.garbled("left", left.value, "a list")
        return Read(bool(left.value), self.row.evidence, brief(", ".join(map(str, left.value))))

    @cached_property
    def told(self) -> Fact[tuple[Held, ...]]:
        """All dialogues; one that is garbled leaves all figures unread."""
        listed = self.row.listed("dialogues")
        if self._lack or isinstance(listed, Unread):
            return self._lack or Unread("failed", "no dialogue was told of", self.row.evidence)
        talks = [held(one) for one in listed.value]
        bad = next((one for one in talks if isinstance(one, Unread)), None)
        if bad or not talks:
            return bad or Unread("failed", "no dialogue was held", self.row.evidence)
        return Read(tuple(one.value for one in talks if isinstance(one, Read)), self.row.evidence)

    @property
    def gpus(self) -> Fact[int]:
        """Over how many the model is spread."""
        return self.row.count("gpus")

    @property
    def _lack(self) -> Unread | None:
        return figures.lack(self.row, kinds=_ABSENCES)
