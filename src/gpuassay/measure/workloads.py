"""The workloads of our own, and what a check can observe of each: ``[measure.X] workload = "gemm"``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from gpuassay.judge.fact import Read, Unread
from gpuassay.measure import figures
from gpuassay.measure.agents import Agents
from gpuassay.measure.checkpoints import Checkpoints
from gpuassay.measure.collectives import Collectives
from gpuassay.measure.lifecycles import Lifecycle
from gpuassay.measure.perftest import Perftest
from gpuassay.measure.ranks import Line, Measured, join
from gpuassay.measure.training import Training
from gpuassay.measure.two_racks import TwoRacks
from gpuassay.measure.work import gemm, grouped, memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuassay.facts import Node
    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact, Scalar
    from gpuassay.measure.figures import Case


class GemmGpu(Measured):
    """A GPU and how it multiplies matrices."""

    @cached_property
    def tflops(self) -> Fact[float]:
        """What it sustains, at the best of the shapes."""
        found = figures.best(self.cases)
        if isinstance(found, Unread) or not (capped := self._capped):
            return found
        return replace(found, note=f"{found.note}; {capped}")

    @property
    def node_median_tflops(self) -> Fact[float]:
        """The median of its node."""
        return figures.median([one.tflops for one in self.beside if isinstance(one, GemmGpu)])

    @property
    def wrong(self) -> Fact[int]:
        """How many elements were wrong, over all shapes."""
        return figures.total([case.wrong for case in self.cases])

    @property
    def held_share(self) -> Fact[float]:
        """In what share of the samples something other than the power limit held its clocks down."""
        if self.told.unread:
            return self.told.unread
        masks = [sample["held_by"] for sample in self.samples if type(sample.get("held_by")) is int]
        if not masks:
            return Unread("unsupported", "nothing tells what holds its clocks", self.told.evidence)
        held = [mask for mask in masks if mask & figures.UNDUE]
        note = f"reasons {max(held):#x} in {len(held)} of {len(masks)} samples" if held else ""
        return Read(len(held) / len(masks), self.told.evidence, note)

    @property
    def clock_mhz(self) -> Fact[Line]:
        """Its clock over time."""
        return self.over_time("sm_mhz")

    @property
    def power_w(self) -> Fact[Line]:
        """What it drew over time."""
        return self.over_time("power_w")

    @property
    def celsius(self) -> Fact[Line]:
        """How hot it was over time."""
        return self.over_time("celsius")

    @property
    def _capped(self) -> str:
        """Say that its power limit is below its product's own, if it is: that explains a low figure."""
        limits = [sample.get("power_limit_w") for sample in self.samples]
        numbers = [limit for limit in limits if isinstance(limit, (int, float))]
        own = self.gpu.power_default_w if self.gpu else None
        if numbers and isinstance(own, Read) and min(numbers) < own.value:
            return f"power limit {min(numbers):g} W of {own.value:g} W"
        return ""


class MemoryGpu(Measured):
    """A GPU and how fast its memory is."""

    def _kernel(self, name: str) -> Case:
        return next(case for case in self.cases if case.case["kernel"] == name)

    @property
    def copy_gbps(self) -> Fact[float]:
        """A copy, read and written bytes."""
        return self._kernel("copy").gbps

    @property
    def read_gbps(self) -> Fact[float]:
        """A sum."""
        return self._kernel("read").gbps

    @property
    def triad_gbps(self) -> Fact[float]:
        """Two arrays read, one written."""
        return self._kernel("triad").gbps

    @property
    def gemv_of_triad(self) -> Fact[float]:
        """A matrix times a vector, as a share of its own triad."""
        return figures.ratio(self._kernel("gemv").gbps, self.triad_gbps)

    @property
    def wrong(self) -> Fact[int]:
        """How many elements were wrong, over all kernels."""
        return figures.total([case.wrong for case in self.cases])


@dataclass(frozen=True)
class GroupedCase:
    """One grouped product on one GPU; ``of_dense`` is its rate as a share of the same GPU's dense one."""

    at: Mapping[str, str]
    of_dense: Fact[float]
    tflops: Fact[float]
    gbps: Fact[float]
    wrong: Fact[int]


class GroupedGpu(Measured):
    """A GPU and how it multiplies the matrices of experts."""

    @cached_property
    def products(self) -> tuple[GroupedCase, ...]:
        """All grouped products; the first case is the dense one that they are compared with."""
        dense, *others = self.cases
        return tuple(
            GroupedCase(
                _at(case.case),
                figures.ratio(case.tflops, dense.tflops),
                case.tflops,
                case.gbps,
                case.wrong,
            )
            for case in others
        )


def _at(case: Mapping[str, Any]) -> Mapping[str, str]:
    place = f"EP{case['ep']} T{case['tokens']}"
    return {"model": case["model"], "product": f"{case['projection']} {place}", "routing": case["routing"]}


@dataclass(frozen=True)
class Workload:
    """A workload by name. ``method`` is raised when measuring changes; ``cases`` makes them of arguments."""

    name: str
    method: int
    cases: Callable[[Mapping[str, Any]], list[dict[str, Any]]]
    subject: type[Measured]

    together: ClassVar[bool] = False
    """Whether ranks of different nodes work with each other."""
    one_rank: ClassVar[bool] = False
    """Whether a node has one rank, however many GPUs it has."""

    def order(self, args: Mapping[str, Scalar], nodes: Sequence[Node] = ()) -> dict[str, Any]:  # noqa: ARG002 - as all workloads
        """Give what a rank is told to do."""
        return {
            "workload": self.name,
            "method": self.method,
            "cases": self.cases(args),
            "seconds": args["seconds"],
            "warm": args["warm"],
        }

    def asked(self, args: Mapping[str, Scalar]) -> dict[str, Any]:
        """Say what was asked, as it is recorded."""
        return {"workload": self.name, "method": self.method, "args": dict(args)}

    def subjects(
        self,
        nodes: Sequence[Node],
        args: Mapping[str, Scalar],
        told: Mapping[str, Sequence[Record]],
        again: Mapping[str, Sequence[Record]] = MappingProxyType({}),
    ) -> list[Any]:
        """Read what the ranks of all nodes printed: a subject for each GPU; ``again`` of a second run."""
        return [gpu for node in nodes for gpu in self.read(node, args, told[node.name], again.get(node.name))]

    def read(
        self,
        node: Node,
        args: Mapping[str, Scalar],
        told: Sequence[Record],
        again: Sequence[Record] | None = None,
    ) -> Sequence[Measured]:
        """Read what the ranks of a node printed: a subject for each of its GPUs."""
        expected = self.cases(args)
        gpus: list[Measured] = []
        seconds = [record for _, record in join(node, again)] if again else None
        for number, (gpu, record) in enumerate(join(node, told)):
            where = gpu.where if gpu else f"{node.name}/cpu"
            models = gpu.models if gpu else ()
            last, first = (seconds[number], record) if seconds else (record, None)
            gpus.append(self.subject(node.name, where, models, last, expected, args, gpu, gpus, first))
        return gpus


WORKLOADS: Mapping[str, Workload | Agents | Checkpoints | Collectives | Lifecycle | Perftest | Training] = {
    one.name: one
    for one in (
        Agents(),
        Checkpoints(),
        Collectives(),
        TwoRacks(),
        Lifecycle(),
        Perftest(),
        Training(),
        Workload("gemm", gemm.METHOD, gemm.cases, GemmGpu),
        Workload("memory", memory.METHOD, memory.cases, MemoryGpu),
        Workload("grouped", grouped.METHOD, grouped.cases, GroupedGpu),
    )
}
