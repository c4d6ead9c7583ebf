"""Where a cluster is and how its nodes are reached."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from gpuassay.probe.children import TERM_GRACE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from gpuassay.evidence.item import Item
    from gpuassay.watch import Eye


TARGETS = ("local", "ssh", "slurm", "kubernetes")
"""The words that ``--target`` knows, beside ``recording:DIR``."""

DEADLINE_S = 900.0
"""For the probe of a node: what the deadlines of all questions add up to, and the time to end what hangs."""


class TargetError(Exception):
    """A cluster cannot be reached as asked; says what was tried, what came of it, and what to do."""


class Writer(Protocol):
    """What takes the evidence as it comes; ``evidence.writer.RecordingWriter`` is one."""

    def add(self, node: str, item: Item) -> None:
        """Keep what a node answered."""

    def add_cluster(self, item: Item) -> None:
        """Keep what was asked of the cluster as a whole."""


class Progress(Protocol):
    """What is told how far each node is, and tells how long it may go on, as ``target.progress.Tally``."""

    def answered(self, node: str, words: str) -> None:
        """Hear what a node answered last, in words."""

    def ended(self, node: str, problem: str) -> None:
        """Hear that nothing more will come from a node, and why, if it is before its time."""

    def left_s(self) -> float:
        """Say how much time is left for all of it, in seconds; infinite where nobody has set a bound."""

    def began(self, name: str) -> None:
        """Hear, before anything is started, under which name ``Target.end`` finds it if we are killed."""


@dataclass(frozen=True, slots=True)
class Job:
    """A workload: ``argv``, started ``ranks`` times on each of ``nodes``, on all of them at once.

    Beside ``environment``, each rank is told its place and where to meet the others, as ``torchrun``
    does: ``RANK``, ``LOCAL_RANK``, ``WORLD_SIZE``, ``LOCAL_WORLD_SIZE``, ``GROUP_RANK``, ``MASTER_ADDR``,
    ``MASTER_PORT``. ``image`` names a container image by digest, empty for none; by ssh and on this
    machine nothing starts one, and the ranks find none named. ``deadline_s`` bounds all of it, in
    seconds. Each rank finds ``feed`` on its standard input. The word ``launch.PYTHON`` stands for the
    Python that the site names for its nodes. A rank that is told to end gets ``grace_s`` seconds. With
    ``leaves`` what a rank has put into a session of its own lives on: the dead-man of a fault. With ``heard``
    each line that a rank prints comes at once, so that what it said is known also where its node is lost;
    and as its nodes work in step, none is waited for long once another one is over. ``hear`` is given each
    line at once, with its node and rank, whether they work in step or not: also what is then cut is known.
    """

    name: str
    argv: tuple[str, ...]
    nodes: tuple[str, ...]
    ranks: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    image: str = ""
    deadline_s: float = 600.0
    feed: bytes = b""
    grace_s: float = TERM_GRACE_S
    leaves: bool = False
    heard: bool = False
    hear: Callable[[str, int, bytes], None] | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """The longest ``deadline_s`` that a job may have, in seconds, and who says so."""

    seconds: float = math.inf
    why: str = ""


Results: TypeAlias = "Mapping[tuple[str, int], Item]"
"""What came of each rank of a job, by its node and its number there."""

Bounds: TypeAlias = "Callable[[Sequence[str]], Bound]"
"""Says how long a job on some nodes may take now. Raises TargetError."""

Runs: TypeAlias = "Callable[[Job, Progress], Results]"
"""Runs a job as ``Target.run`` does, on nodes that are held."""


class Target(Protocol):
    """One way to reach the nodes of a cluster."""

    @property
    def name(self) -> str:
        """The word for it, as ``--target`` takes it."""

    def declared(self) -> tuple[str, ...]:
        """Name the nodes that are to answer. Raises TargetError."""

    def gather(self, writer: Writer, progress: Progress) -> None:
        """Ask all nodes and write down every answer, and every question that got none.

        An exception, Ctrl-C too, ends all that was started. Raises TargetError, and what ``writer`` raises.
        """

    def run(self, job: Job, progress: Progress) -> Results:
        """Run a job, and give what came of each rank, also of one that never started.

        An exception, Ctrl-C too, ends all ranks everywhere. Raises TargetError.
        """

    def bound(self, nodes: Sequence[str]) -> Bound:
        """Say how long a job on these nodes may take now. Raises TargetError."""

    def hold(self, node: str, seconds: float) -> AbstractContextManager[Runs]:
        """Keep one whole node for ourselves, and give what runs jobs there. Raises TargetError.

        Where nobody gives out nodes, that it is ours alone is what the user has said by naming it.
        """

    def eyes(self, node: str) -> Sequence[Eye]:
        """Give what can look at a node while something is broken there. Raises TargetError."""

    def plan(self) -> list[str]:
        """Say in lines what would run where, as whom, and for how long; only reads. Raises TargetError."""

    def clean(self) -> list[str]:
        """Remove what earlier runs that were killed have left, and give what it was. Raises TargetError."""

    def end(self, name: str) -> list[str]:
        """Remove what one run that was killed has left under a name, and give what it was.

        When it returns that is gone. Raises TargetError.
        """
