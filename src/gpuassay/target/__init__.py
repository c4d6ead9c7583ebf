"""Where a cluster is and how its nodes are reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuassay.evidence.item import Item


class Writer(Protocol):
    """What takes the evidence as it comes; ``evidence.writer.RecordingWriter`` is one."""

    def add(self, node: str, item: Item) -> None:
        """Keep what a node answered."""


class Target(Protocol):
    """One way to reach the nodes of a cluster."""

    @property
    def name(self) -> str:
        """The word for it, as ``--target`` takes it."""

    def declared(self) -> tuple[str, ...]:
        """Name the nodes that are to answer."""

    def gather(self, writer: Writer, progress: Callable[[str], None]) -> None:
        """Ask all nodes and write down every answer, and every question that got none."""
