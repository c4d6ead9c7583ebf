"""Evidence of nodes whose GPUs were not given to us: what would have told of them is written as denied."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuassay.evidence.item import Item
    from gpuassay.target import Writer

GPU_ITEMS = frozenset({"nvml", "nvidia-smi-xml", "amd-smi", "kfd"})
"""What sees those GPUs only that a job or pod was given; the bus and a driver's folder show all."""


@dataclass(frozen=True, slots=True)
class Withheld:
    """A writer before another one; ``why`` says for each such node who has its GPUs."""

    writer: Writer
    why: dict[str, str] = field(default_factory=dict)

    def add(self, node: str, item: Item) -> None:
        """Pass an answer on; that there is no GPU is no answer where none was given."""
        if node in self.why and item.id in GPU_ITEMS:
            item = replace(item, status="denied", why=self.why[node])
        self.writer.add(node, item)

    def add_cluster(self, item: Item) -> None:
        """Pass it on."""
        self.writer.add_cluster(item)
