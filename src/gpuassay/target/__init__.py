"""Where a cluster is and how its nodes are reached."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.evidence.item import Item


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


@dataclass(frozen=True, slots=True)
class Job:
    """A workload: ``argv``, started ``ranks`` times on each of ``nodes``, on all of them at once.

    Beside ``environment``, each rank is told its place and where to meet the others, as ``torchrun`` does:
    ``RANK``, ``LOCAL_RANK``, ``WORLD_SIZE``, ``LOCAL_WORLD_SIZE``, ``GROUP_RANK``, ``MASTER_ADDR``,
    ``MASTER_PORT``. ``image`` names a container image by digest, empty for none. ``deadline_s`` bounds all
    of it, in seconds. Each rank finds ``feed`` on its standard input. The word ``launch.PYTHON`` stands for
    the Python that the site names for its nodes.
    """

    name: str
    argv: tuple[str, ...]
    nodes: tuple[str, ...]
    ranks: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    image: str = ""
    deadline_s: float = 600.0
    feed: bytes = b""


Results: TypeAlias = "Mapping[tuple[str, int], Item]"
"""What came of each rank of a job, by its node and its number there."""


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

    def plan(self) -> list[str]:
        """Say in lines what would run where, as whom, and for how long; only reads. Raises TargetError."""

    def clean(self) -> list[str]:
        """Remove what earlier runs that were killed have left, and give what it was. Raises TargetError."""
