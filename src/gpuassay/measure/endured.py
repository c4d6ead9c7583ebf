"""The loads that last, of which each rank keeps a journal: by name, for ``[measure.X] workload``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from gpuassay.measure.looped import FabricLoop
from gpuassay.measure.sustained import SustainedLoad
from gpuassay.measure.torn import CheckpointKills

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.facts import Node
    from gpuassay.judge.fact import Scalar
    from gpuassay.judge.services import Mount
    from gpuassay.measure.lasted import Lasted
    from gpuassay.target import Job


class Endured(Protocol):
    """One such load: in which parts it is made, what is run for each, and how the journals are read."""

    @property
    def name(self) -> str:
        """The word for it."""

    @property
    def method(self) -> int:
        """Raised whenever measuring changes: older measurements are not read as this one."""

    @property
    def unbroken(self) -> bool:
        """Whether a part that was cut is made anew, whole; else what is left of it is made."""

    @property
    def in_step(self) -> bool:
        """Whether ranks of different nodes work with each other, so that only nodes alike are one job."""

    @property
    def in_image(self) -> bool:
        """Whether it runs in the site's image for workloads; what is no program of ours runs on the node."""

    @property
    def looks_again(self) -> bool:
        """Whether the nodes are asked once more when it is over."""

    def parts(self, args: Mapping[str, Scalar], mounts: Sequence[Mount]) -> Sequence[str]:
        """Name its parts, each of which lasts for the whole time."""

    def job(
        self, name: str, args: Mapping[str, Scalar], nodes: Sequence[Node], part: str, seconds: float
    ) -> Job:
        """Give what runs a part for so long; to that time, its deadline, what it takes beside is added."""

    def subjects(self, lasted: Lasted) -> Sequence[Any]:
        """Read the journals of all nodes."""


ENDURED: Mapping[str, Endured] = {one.name: one for one in (SustainedLoad(), FabricLoop(), CheckpointKills())}
