"""``--target=slurm,kubernetes``: the nodes of Slurm, and the machines of Kubernetes that carry them.

A node is called what Slurm calls it. It is asked through Slurm first, for there it has its GPUs; through
Kubernetes only for what is still missing: where Slurm reached nothing, or all that a pod with the host's
view can add. What both tell stands in one row.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from gpuassay.evidence.item import Item
from gpuassay.facts.seats import Seats
from gpuassay.judge.fact import Read
from gpuassay.target import TargetError
from gpuassay.target.kubernetes import Answers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from gpuassay.target import Bound, Job, Progress, Results, Runs, Target, Writer
    from gpuassay.target.kubernetes import Kubernetes
    from gpuassay.watch import Eye


@dataclass(frozen=True, slots=True)
class Both:
    """Two ways to the same nodes."""

    name: ClassVar[str] = "slurm,kubernetes"
    slurm: Target
    kubernetes: Kubernetes

    def declared(self) -> tuple[str, ...]:
        """Name the nodes that are to answer, as Slurm does. Raises TargetError."""
        return self.slurm.declared()

    def gather(self, writer: Writer, progress: Progress) -> None:
        """Ask the API server, then Slurm and its nodes, then through Kubernetes for what is missing.

        Raises TargetError, and what ``writer`` raises.
        """
        first = Kept(writer)
        self.kubernetes.tell(first)
        self.slurm.gather(first, progress)
        carried = self._carried(first)
        if carried:
            self._ask(carried, first, progress)

    def run(self, job: Job, progress: Progress) -> Results:
        """Run a job through Slurm, which holds the GPUs. Raises TargetError."""
        return self.slurm.run(job, progress)

    def bound(self, nodes: Sequence[str]) -> Bound:
        """Say what Slurm says. Raises TargetError."""
        return self.slurm.bound(nodes)

    def hold(self, node: str, seconds: float) -> AbstractContextManager[Runs]:
        """Hold a node through Slurm, which gives it out. Raises TargetError."""
        return self.slurm.hold(node, seconds)

    def eyes(self, node: str) -> Sequence[Eye]:
        """Look at a node through Slurm."""
        return self.slurm.eyes(node)

    def plan(self) -> list[str]:
        """Say what would run where; only reads. Raises TargetError."""
        later = "then, through Kubernetes, those that carry a node of which something is missing, of these:"
        return [*self.slurm.plan(), later, *self.kubernetes.plan()]

    def clean(self) -> list[str]:
        """Remove what earlier runs have left in either, and give what it was. Raises TargetError."""
        return [*self.slurm.clean(), *self.kubernetes.clean()]

    def end(self, name: str) -> list[str]:
        """Remove what a run that was killed has left in either. Raises TargetError."""
        return [*self.slurm.end(name), *self.kubernetes.end(name)]

    def _carried(self, first: Kept) -> Mapping[str, str]:
        """Name the nodes to ask again, by the machines that carry them.

        Who is out of service by Slurm's word is left alone through Kubernetes too.
        """
        seats = Seats(Answers(first.cluster))
        names = frozenset(self.declared())
        out = seats.out_of_service(names)
        again = [name for name in names - out.keys() if self.kubernetes.host_view or not first.whole(name)]
        hosts = ((name, seats.host(name)) for name in sorted(again))
        return {host.value.name: name for name, host in hosts if isinstance(host, Read)}

    def _ask(self, carried: Mapping[str, str], first: Kept, progress: Progress) -> None:
        """Ask by pods; where none can be made, what Slurm brought stays, and the recording says why."""
        try:
            self.kubernetes.ask(tuple(carried), Second(first, carried), Unheard(progress))
        except TargetError as error:
            first.fail("kubernetes/pods-of-this-run", str(error))


@dataclass(slots=True)
class Kept:
    """A writer before another one that knows what has come, and numbers what comes later."""

    writer: Writer
    cluster: list[Item] = field(default_factory=list)
    status: dict[str, dict[str, str]] = field(default_factory=dict)
    _seq: dict[str, int] = field(default_factory=dict)

    def add(self, node: str, item: Item) -> None:
        """Pass an answer on."""
        self.status.setdefault(node, {})[item.id] = item.status
        self._seq[node] = self._seq.get(node, 0) + 1
        self.writer.add(node, replace(item, seq=self._seq[node]))

    def add_cluster(self, item: Item) -> None:
        """Pass it on."""
        self.cluster.append(replace(item, seq=len(self.cluster) + 1))
        self.writer.add_cluster(self.cluster[-1])

    def fail(self, what: str, why: str) -> None:
        """Write down what could not be done."""
        self.add_cluster(Item(what, 0, "failed", {"api": "pods"}, why=why))

    def whole(self, node: str) -> bool:
        """Tell whether the probe has answered to its end on a node."""
        told = self.status.get(node, {})
        return bool(told) and "probe" not in told


@dataclass(frozen=True, slots=True)
class Second:
    """A writer for the second way: an answer stands where the first way brought none."""

    first: Kept
    names: Mapping[str, str]

    def add(self, node: str, item: Item) -> None:
        """Pass an answer on under the node's name, if it is news: a better one than the first way's."""
        name = self.names[node]
        known = self.first.status.get(name, {}).get(item.id)
        if known is None and item.id == "probe":
            return  # the first way was whole: that the second was not takes nothing away
        if known is None or (known != "ok" and item.status == "ok"):
            self.first.add(name, item)

    def add_cluster(self, item: Item) -> None:
        """Pass it on."""
        self.first.add_cluster(item)


@dataclass(frozen=True, slots=True)
class Unheard:
    """Hears of progress and says nothing: each node was counted when the first way was done with it."""

    progress: Progress

    def left_s(self) -> float:
        """Say how much time is left."""
        return self.progress.left_s()

    def began(self, name: str) -> None:
        """Pass it on."""
        self.progress.began(name)

    def answered(self, node: str, words: str) -> None:
        """Hear what a node answered last."""

    def ended(self, node: str, problem: str) -> None:
        """Hear that nothing more will come from a node."""
