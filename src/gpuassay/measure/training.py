"""Training with torchtitan: how it is started, and what its log says of each node and of all together."""

from __future__ import annotations

import math
import re
import statistics
import tomllib
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar

from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure import figures
from gpuassay.measure.ranks import join
from gpuassay.measure.work import training

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.facts import Node
    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact, Scalar

GET = training.GET
TINY_STEPS, _TINY_WARM, _TINY_LENGTH = 8, 3, 128
_NUMBER = r"[-+]?(?:nan|inf|[\d,]+(?:\.\d+)?(?:e[-+]?\d+)?)"
# The log of torchtitan 0.3: `step:  2  loss:  8.19161  grad_norm:  1.4715  memory: …  tps: 1,147  tflops: …`;
# before it may stand a time, a level and the rank.
_STEP = re.compile(
    rf"step:\s*(\d+)\s+loss:\s*({_NUMBER})\s+grad_norm:\s*({_NUMBER})\s.*?\btps:\s*({_NUMBER})(?:\s|$)",
    re.IGNORECASE,
)
_PARTS = 3
_LAST = 5  # so many steps at the end are the loss that it came to


@dataclass(frozen=True)
class Step:
    """One step of training, as it was logged; ``tokens_per_s`` are those of one GPU."""

    number: int
    loss: float
    gradient: float
    tokens_per_s: float


def parse(lines: Sequence[str]) -> list[Step]:
    """Read the steps in a log. Its shares of a peak are passed over: of an unknown GPU they are an A100's."""
    found = [one for line in lines if (one := _STEP.search(line))]
    return [
        Step(int(one[1]), *(float(number.replace(",", "")) for number in one.group(2, 3, 4))) for one in found
    ]


@cache
def models() -> Mapping[str, Mapping[str, Any]]:
    """Read the table of models."""
    text = files("gpuassay.measure").joinpath("trained.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def flops_per_token(model: Mapping[str, Any], length: int) -> float:
    """Count the operations that a token costs, forward and backward, without what is computed again.

    Six for each weight that it meets in a product, and twelve for each query dimension and token that it
    looks at; as is the custom, also for those to come, which a causal mask leaves out.
    """
    hidden, query, layers = model["hidden"], model["query"], model["layers"]
    attention = hidden * (2 * query + 2 * model["key_value"])
    experts = model["active"] * 3 * hidden * model["intermediate"] + model["experts"] * hidden
    weights = layers * (attention + experts) + hidden * model["vocabulary"]
    near = min(length, model["window"] or length)
    seen = (layers - layers // 2) * length + layers // 2 * near
    return float(6 * weights + 12 * query * seen)


class Training:
    """``[measure.X] workload = "training"``: each node by itself, then all, with a rank for each GPU."""

    name = "training"
    method = training.METHOD
    together: ClassVar[bool] = True
    one_rank: ClassVar[bool] = False

    def cases(self, _args: Mapping[str, Any]) -> list[dict[str, Any]]:
        """List who trains together."""
        return [{"scope": "node"}, {"scope": "all"}]

    def order(self, args: Mapping[str, Scalar], nodes: Sequence[Node] = ()) -> dict[str, Any]:
        """Give what a rank is told to do; without accelerators, to train a debug model for a few steps."""
        tiny = bool(nodes) and not any(node.gpus for node in nodes)
        shim = files("gpuassay.measure.work").joinpath("titan_on_cpu.py")
        return {
            "workload": self.name,
            "method": self.method,
            "cases": self.cases(args) if len(nodes) > 1 else [{"scope": "node"}],
            "start": ["-c", shim.read_text(encoding="utf-8")] if tiny else ["-m", "torchtitan.train"],
            "words": [*_words(models()[str(args["model"])], args, tiny=tiny)],
            "experts": args["experts"],
            "patience_s": args["patience_s"],
        }

    def asked(self, args: Mapping[str, Scalar]) -> dict[str, Any]:
        """Say what was asked, as it is recorded."""
        return {"workload": self.name, "method": self.method, "args": dict(args)}

    def subjects(
        self, nodes: Sequence[Node], args: Mapping[str, Scalar], told: Mapping[str, Sequence[Record]]
    ) -> list[Trained]:
        """Give a subject for each pool that has trained."""
        pools: dict[str, list[Node]] = {}
        for node in nodes:
            pools.setdefault(node.pool, []).append(node)
        return [
            Trained(
                pool or "cluster",
                tuple(_trained(members, "node", args, told)),
                tuple(_trained(members, "all", args, told)) if len(members) > 1 else (),
            )
            for pool, members in pools.items()
        ]


def _words(model: Mapping[str, Any], args: Mapping[str, Scalar], *, tiny: bool) -> Iterator[str]:
    """Give the command line after the program, ``{folder}`` and ``{experts}`` to be filled in on the node."""
    steps, length, batch = args["steps"], args["length"], args["batch"]
    if tiny:
        steps, length, batch = TINY_STEPS, _TINY_LENGTH, 1
    yield from ("--module", model["module"], "--config", model["tiny_config" if tiny else "config"])
    yield from ("--hf-assets-path", "{folder}", "--dump-folder", "{folder}")
    yield from ("--dataloader.dataset", "c4_test", "--dataloader.dataset-path", "./lesson")
    yield from ("--training.steps", str(steps), "--training.seq-len", str(length))
    yield from ("--training.local-batch-size", str(batch), "--lr-scheduler.warmup-steps", "2")
    yield from ("--metrics.log-freq", "1", "--metrics.disable-color-printing")
    yield "--metrics.no-enable-tensorboard"
    yield from ("--profiler.no-enable-profiling", "--checkpoint.no-enable", "--validator.no-enable")
    yield "--debug.no-enable-structured-logging"
    if int(args["experts"]) > 1:
        yield from ("--parallelism.expert-parallel-degree", "{experts}", "--training.disable-cuda-graphs")
    if tiny:
        yield from ("--parallelism.spmd-backend", "partial_dtensor")
        yield from ("--training.mixed-precision-param", model["tiny_precision"])
    elif args["compile"]:
        yield "--compile.enable"


def _trained(
    nodes: Sequence[Node], scope: str, args: Mapping[str, Scalar], told: Mapping[str, Sequence[Record]]
) -> Iterator[TrainedNode]:
    for node in nodes:
        ranks = [record for _, record in join(node, told[node.name])]
        models_of = node.gpus[0].models if node.gpus else ()
        yield TrainedNode(node.name, models_of, scope, args, tuple(ranks), tiny=not node.gpus)


@dataclass(frozen=True)
class TrainedNode:
    """A node, and how its GPUs trained in one scope: by themselves, or with all others."""

    node: str
    models: tuple[str, ...]
    scope: str
    args: Mapping[str, Scalar]
    ranks: tuple[Record, ...]
    tiny: bool = False

    @property
    def where(self) -> str:
        """Its place: the node."""
        return self.node

    @property
    def at(self) -> Mapping[str, str]:
        """What was trained, and by whom."""
        return {"model": str(self.args["model"]), "nodes": "alone" if self.scope == "node" else "all"}

    @cached_property
    def steps(self) -> Fact[tuple[Step, ...]]:
        """All steps, by the log of its first rank, once every rank has come through."""
        rows = [self._row(rank) for rank in self.ranks]
        unread = next((row for row in rows if isinstance(row, Unread)), None)
        if unread or not rows:
            return unread or Unread("failed", "no rank gave a result")
        first = rows[0].value  # type: ignore[union-attr]
        log = first.look("log")
        if isinstance(log, Unread):
            return log
        lines = log.value if isinstance(log.value, list) else []
        found = parse([line for line in lines if isinstance(line, str)])
        wanted = TINY_STEPS if self.tiny else int(self.args["steps"])
        if [step.number for step in found] != list(range(1, wanted + 1)):
            last = found[-1].number if found else 0
            why = f"its log shows {len(found)} of {wanted} steps, the last is {last}"
            return Unread("failed", why, log.evidence)
        return Read(tuple(found), log.evidence)

    @property
    def tokens_per_s(self) -> Fact[float]:
        """Tokens a second of each GPU: the median of the steps after the first, which compile and settle."""
        warmed = self._warmed
        if isinstance(warmed, Unread):
            return warmed
        size = len(warmed.value) // _PARTS
        parts = [statistics.median(warmed.value[part * size : (part + 1) * size]) for part in range(_PARTS)]
        median = statistics.median(warmed.value)
        apart = (max(parts) - min(parts)) / median
        noise = math.inf if self.tiny else float(self.args["noise"])
        if apart > noise:
            why = f"inconclusive: its parts lie {apart:.1%} apart, more than {noise:.0%}"
            return Unread("failed", why, warmed.evidence)
        return Read(median, warmed.evidence, f"{len(warmed.value)} steps, parts {apart:.1%} apart")

    @property
    def model_tflops(self) -> Fact[float]:
        """What the model needed a second on each GPU, by formula; of the rated rate this is the MFU."""
        found = self.tokens_per_s
        if isinstance(found, Unread):
            return found
        flops = flops_per_token(models()[str(self.args["model"])], int(self.args["length"]))
        note = f"{found.value:,.0f} tokens/s, {flops:.3g} operations a token; {found.note}"
        return Read(found.value * flops / 1e12, found.evidence, note)

    @property
    def step_spread(self) -> Fact[float]:
        """How long the slowest of a hundred steps takes, as a share of the median one."""
        warmed = self._warmed
        if isinstance(warmed, Unread):
            return warmed
        speeds = sorted(warmed.value)
        slow = speeds[max(0, math.ceil(len(speeds) / 100) - 1)]
        return Read(statistics.median(speeds) / slow, warmed.evidence, f"of {len(speeds)} steps")

    @property
    def finite(self) -> Fact[bool]:
        """Whether every loss and every gradient was a number."""
        steps = self.steps
        if isinstance(steps, Unread):
            return steps
        bad = [one for one in steps.value if not (math.isfinite(one.loss) and math.isfinite(one.gradient))]
        note = f"from step {bad[0].number} on: loss {bad[0].loss}, gradient {bad[0].gradient}" if bad else ""
        return Read(not bad, steps.evidence, note)

    @property
    def loss_left(self) -> Fact[float]:
        """What is left of the first loss at the end; not finite where a loss was not."""
        steps = self.steps
        if isinstance(steps, Unread):
            return steps
        first, last = steps.value[0].loss, statistics.fmean(one.loss for one in steps.value[-_LAST:])
        if not first > 0:
            return Unread("failed", f"the first loss is {first}", steps.evidence)
        return Read(last / first, steps.evidence, f"from {first:.4g} to {last:.4g}")

    @property
    def _warmed(self) -> Fact[tuple[float, ...]]:
        """Speeds of the steps that count, all above zero."""
        steps = self.steps
        if isinstance(steps, Unread):
            return steps
        found = tuple(one.tokens_per_s for one in steps.value[self._warm :])
        if len(found) < _PARTS or not all(0 < speed < math.inf for speed in found):
            return Unread("failed", "its log shows steps without a speed", steps.evidence)
        return Read(found, steps.evidence)

    @property
    def _warm(self) -> int:
        return _TINY_WARM if self.tiny else int(self.args["warm"])

    def _row(self, rank: Record) -> Fact[Record]:
        """Give what a rank tells of this scope, if it came through."""
        listed = rank.listed("rows")
        if isinstance(listed, Unread):
            return listed
        found = [row for row in listed.value if _scope(row) == self.scope]
        if not found:
            return Unread("failed", f"its rank did not report the scope {self.scope}", rank.evidence)
        status = found[0].text("status")
        if isinstance(status, Unread):
            return status
        return Read(found[0], rank.evidence) if status.value == "ok" else _failure(found[0])


def _scope(row: Record) -> str:
    found = row.record("case").text("scope")
    return found.value if isinstance(found, Read) else ""


def _failure(row: Record) -> Unread:
    why, tail = row.text("why"), row.look("tail")
    said = why.value if isinstance(why, Read) else "it failed, and gave no reason"
    lines = tail.value if isinstance(tail, Read) and isinstance(tail.value, list) else []
    last = next((brief(line) for line in reversed(lines) if isinstance(line, str) and line.strip()), "")
    return Unread("failed", f"{said}: {last}" if last else said, row.evidence)


@dataclass(frozen=True)
class Trained:
    """All nodes of a pool: each by itself, and as they trained together."""

    where: str
    nodes: tuple[TrainedNode, ...]
    joined: tuple[TrainedNode, ...]
    node: str = ""

    @property
    def runs(self) -> tuple[TrainedNode, ...]:
        """All that was trained: on each node, and on all together."""
        return (*self.nodes, *self.joined)

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the GPUs, if all are alike."""
        found = {one.models for one in self.nodes}
        return found.pop() if len(found) == 1 else ()

    @property
    def of_alone(self) -> Fact[float]:
        """A GPU's speed when all nodes train together, as a share of that of a node by itself."""
        if len(self.nodes) == 1:
            return Unread("not_asked", "there is one node, which has no other to train with")
        alone = _median([one.tokens_per_s for one in self.nodes])
        return figures.ratio(_median([one.tokens_per_s for one in self.joined]), alone)


def _median(found: Sequence[Fact[float]]) -> Fact[float]:
    """Give the median of all; one that is unread leaves it unread."""
    return next((one for one in found if isinstance(one, Unread)), None) or figures.median(found)
