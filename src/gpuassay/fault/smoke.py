"""A short load on a node that serves in place of one that was taken out: a product on each of its GPUs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.facts.fault_smoke import SMOKE
from gpuassay.measure import errand
from gpuassay.measure.workloads import WORKLOADS
from gpuassay.target import Job, TargetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpuassay.target import Results

_DEADLINE_S = 300.0  # torch is loaded from shared storage, by a rank for each GPU
_SECONDS = 1.0  # of the product itself, between a first look at its result and a second one


@dataclass(frozen=True, slots=True)
class Smoke:
    """What is run, ``FORMAT MxNxK``, in which image, and what runs a job on a node that is nobody's yet."""

    product: str
    image: str
    run: Callable[[Job], Results]

    def __call__(self, node: str, gpus: int) -> Iterator[Item]:
        """Run it on each GPU, or on the processor where there is none; an item for each rank."""
        ranks = max(1, gpus)
        asked = {"node": node, "product": self.product, "gpus": gpus, "ranks": ranks}
        try:
            results = self.run(self._job(node, ranks))
        except TargetError as why:
            yield Item(SMOKE, 0, "denied", {**asked, "rank": 0}, why=str(why))
            return
        for (_, rank), item in sorted(results.items()):
            yield replace(item, id=SMOKE, asked={**asked, "rank": rank})

    def _job(self, node: str, ranks: int) -> Job:
        name, _, shapes = self.product.partition(" ")
        args: dict[str, Any] = {"format": name, "shapes": shapes, "seconds": _SECONDS, "warm": False}
        feed = errand.pack(WORKLOADS["gemm"].order(args))
        return Job("smoke load", errand.ARGV, (node,), ranks, {}, self.image, _DEADLINE_S, feed)
