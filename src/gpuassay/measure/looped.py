"""Rounds of collectives and pairs for hours: as fast at the end, none rarely slow, and whose adapter lags."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from gpuassay.judge.fact import Read, Unread
from gpuassay.measure import burn_in, drift, errand, figures
from gpuassay.measure.burnt import HOUR_S, Burnt
from gpuassay.measure.paces import number
from gpuassay.measure.work import fabric_loop, rates
from gpuassay.target import Job

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.facts import Node
    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact, Scalar
    from gpuassay.judge.services import Mount
    from gpuassay.measure.journals import Journal
    from gpuassay.measure.lasted import Lasted
    from gpuassay.measure.ranks import Line

PAIR = "pair"
_TAIL = 0.999
_WHOLE = 0.97


class Round(NamedTuple):
    """One round of one rank: which, when it ended (in seconds under load), its partner, GB/s by step."""

    key: tuple[int, int]
    at: float
    partner: str
    gbps: Mapping[str, float]


@dataclass(frozen=True)
class LoopedGpu(Burnt):
    """A GPU, or the processor that stands in, and the rounds of its ranks."""

    most_error: float = 0.0

    @property
    def wrong(self) -> Fact[int]:
        """How many elements were not what their senders had put in."""
        counts = [beat.count("wrong") for beat in self.beats if isinstance(beat.look("wrong"), Read)]
        return figures.total(counts) if counts else self._nothing

    @property
    def pair_last_of_first(self) -> Fact[float]:
        """What it exchanges with its partners in the last tenth of the rounds, as a share of the first."""
        return self.told(drift.last_of_first([one.gbps[PAIR] for one in self.paired], self.most_error))

    @property
    def pair_tail(self) -> Fact[float]:
        """How much longer its slowest exchanges with a partner take than its usual one."""
        return self.told(tail(self.paired, PAIR))

    @property
    def of_median(self) -> Fact[float]:
        """What it exchanges with a partner as a rule, as a share of what all do; the slowest is named."""
        usual = {gpu.where: found for gpu in self.beside if (found := _usual(gpu))}
        own = usual.get(self.where)
        if not own:
            return self._no_partner if self.beats else self._nothing
        median = statistics.median([statistics.median(one.values()) for one in usual.values()])
        mine, (slowest, with_it) = statistics.median(own.values()), min((v, k) for k, v in own.items())
        note = f"{mine:.4g} GB/s, and {median:.4g} as a rule; at its slowest {slowest:.4g} with {with_it}"
        return Read(round(mine / median, 4), self._last, note)

    @property
    def pair_gbps(self) -> Fact[Line]:
        """What it exchanged with its partners over time."""
        return Read(tuple((one.at, one.gbps[PAIR]) for one in self.paired), self._last)

    @property
    def paired(self) -> list[Round]:
        """The rounds in which it had a partner."""
        return [one for one in self.rounds if PAIR in one.gbps]

    @cached_property
    def rounds(self) -> list[Round]:
        """All of its rounds, over all segments."""
        spent, found = 0.0, []
        for one in self.journals:
            for beat in one.beats if one.begin else ():
                spent += number(beat, "span") or 0.0
                if made := _round(one, beat, spent):
                    found.append(made)
        return found

    @property
    def _no_partner(self) -> Unread:
        return Unread("unsupported", "it is alone: there is no partner", self._last)

    def told(self, fact: Fact[float]) -> Fact[float]:
        """Give a figure its evidence; where there are no rounds, say why."""
        if isinstance(fact, Unread) and not self.rounds:
            return self._nothing
        if isinstance(fact, Unread) and not self.paired:
            return self._no_partner
        return replace(fact, evidence=self._last)


@dataclass(frozen=True)
class Looped:
    """All ranks of all nodes together; ``nodes`` are these after it, if they were asked."""

    gpus: tuple[LoopedGpu, ...]
    asked_s: float
    most_error: float
    nodes: tuple[Node, ...] = ()
    where: str = ""
    node: str = ""
    models: tuple[str, ...] = ()

    @property
    def hours(self) -> Fact[float]:
        """For how long the rank went round that did so least."""
        lasted = [gpu.rounds[-1].at if gpu.rounds else 0.0 for gpu in self.gpus]
        if not any(lasted):
            return self.told(Unread("failed", "no rank went round"))
        note = f"of {self.asked_s / HOUR_S:.3g} that were asked for"
        return Read(round(min(lasted) / HOUR_S, 5), self._evidence, note)

    @property
    def whole(self) -> Fact[bool]:
        """Whether that is as long as was asked for; the clocks of ranks differ by what they wait for."""
        hours = self.hours
        if isinstance(hours, Unread):
            return hours
        whole = hours.value >= _WHOLE * self.asked_s / HOUR_S
        return Read(whole, hours.evidence, "" if whole else f"{hours.value} h {hours.note}")

    @property
    def all_reduce(self) -> Collective:
        """How its all-reduces were."""
        return Collective(self, "all_reduce")

    @property
    def all_to_all(self) -> Collective:
        """How its all-to-alls were."""
        return Collective(self, "all_to_all")

    def together(self, collective: str) -> list[Round]:
        """Give each round by what its ranks say of it: their median."""
        by_round: dict[tuple[int, int], list[Round]] = defaultdict(list)
        for one in (each for gpu in self.gpus for each in gpu.rounds):
            by_round[one.key].append(one)
        return [
            Round(key, told[0].at, "", {collective: statistics.median(one.gbps[collective] for one in told)})
            for key, told in sorted(by_round.items())
        ]

    @property
    def _evidence(self) -> str:
        return next((gpu.journals[-1].evidence for gpu in self.gpus if gpu.journals), "")

    def told(self, fact: Fact[float]) -> Fact[float]:
        """Give a figure its evidence; where some rank has no rounds, say why."""
        silent = next((gpu.alive for gpu in self.gpus if not gpu.rounds), None)
        if isinstance(fact, Unread) and isinstance(silent, Read):
            return Unread("failed", silent.note, silent.evidence)
        return (
            silent
            if isinstance(fact, Unread) and isinstance(silent, Unread)
            else replace(fact, evidence=self._evidence)
        )


@dataclass(frozen=True)
class Collective:
    """One collective over all ranks, round after round."""

    whole: Looped
    name: str

    @property
    def last_of_first(self) -> Fact[float]:
        """Its bus bandwidth in the last tenth of the rounds, as a share of the first."""
        rates = [one.gbps[self.name] for one in self.whole.together(self.name)]
        return self.whole.told(drift.last_of_first(rates, self.whole.most_error))

    @property
    def tail(self) -> Fact[float]:
        """How much longer its slowest rounds take than its usual one."""
        return self.whole.told(tail(self.whole.together(self.name), self.name))

    @property
    def gbps(self) -> Fact[Line]:
        """Its bus bandwidth over time."""
        return Read(tuple((one.at, one.gbps[self.name]) for one in self.whole.together(self.name)))


def tail(rounds: Sequence[Round], name: str) -> Fact[float]:
    """Give how many times the median the slowest of a thousand rounds takes; of fewer, the slowest."""
    if len(rounds) < drift.LEAST:
        return Unread("failed", f"too short: {len(rounds)} rounds, and a tail takes {drift.LEAST}")
    ordered = sorted(rounds, key=lambda one: -one.gbps[name])
    slow = ordered[math.ceil(_TAIL * len(ordered)) - 1]
    usual = statistics.median([one.gbps[name] for one in rounds])
    partner = f" with {slow.partner}" if slow.partner else ""
    note = (
        f"round {slow.key[1]}{partner} at {slow.gbps[name]:.4g} GB/s, {usual:.4g} as a rule, of {len(rounds)}"
    )
    return Read(round(usual / slow.gbps[name], 3), "", note)


def _usual(gpu: Burnt) -> dict[str, float]:
    """Give what it exchanges with each partner as a rule."""
    by_partner: dict[str, list[float]] = defaultdict(list)
    for one in gpu.paired if isinstance(gpu, LoopedGpu) else ():
        by_partner[one.partner].append(one.gbps[PAIR])
    return {partner: statistics.median(found) for partner, found in by_partner.items()}


def _round(journal: Journal, beat: Record, spent: float) -> Round | None:
    begin, count, other = journal.begin, beat.count("beat"), beat.look("with")
    if begin is None or isinstance(count, Unread):
        return None
    ranks = begin.record("place").count("ranks")
    gbps = {}
    for name in (*fabric_loop.COLLECTIVES, PAIR):
        seconds = number(beat.record("seconds"), name)
        size, calls = (number(begin.record(key), name) for key in ("bytes", "calls"))
        if seconds and size and calls and isinstance(ranks, Read):
            kind = "send_receive" if name == PAIR else name
            gbps[name] = rates.busbw(kind, ranks.value, int(size), seconds / calls)
    partner = other.value if isinstance(other, Read) and type(other.value) is int else -1
    if partner < 0:
        gbps.pop(PAIR, None)
    if not all(gbps.get(name) for name in fabric_loop.COLLECTIVES):
        return None
    return Round((journal.segment, count.value), spent, _name(begin, partner), gbps)


def _name(begin: Record, rank: int) -> str:
    """Name a rank by its node and its number there."""
    place = begin.record("place")
    names, of_node = place.look("nodes"), place.count("of_node")
    if isinstance(names, Unread) or isinstance(of_node, Unread) or not of_node.value or rank < 0:
        return ""
    node, local = divmod(rank, of_node.value)
    listed = names.value if isinstance(names.value, list) else []
    return f"{listed[node]}/{local}" if node < len(listed) else f"rank {rank}"


class FabricLoop:
    """``[measure.X] workload = "fabric_loop"``: one job over all nodes alike, with a rank for each GPU."""

    name: ClassVar[str] = "fabric_loop"
    method: ClassVar[int] = fabric_loop.METHOD
    unbroken: ClassVar[bool] = False
    in_step: ClassVar[bool] = True
    in_image: ClassVar[bool] = True
    looks_again: ClassVar[bool] = True

    def parts(self, args: Mapping[str, Scalar], mounts: Sequence[Mount]) -> list[str]:  # noqa: ARG002 - as all
        """Give the one part that there is."""
        return ["fabric"]

    def job(
        self, name: str, args: Mapping[str, Scalar], nodes: Sequence[Node], part: str, seconds: float
    ) -> Job:
        """Go round for so long."""
        names = tuple(node.name for node in nodes)
        ranks = len(nodes[0].gpus) or int(args["processors"])
        about = {"workload": self.name, "method": self.method, "args": dict(args)}
        order: dict[str, Any] = {**about, "part": part, "nodes": list(names), "seconds": seconds}
        deadline = seconds * float(args["slack"])
        return Job(name, errand.ARGV, names, ranks, deadline_s=deadline, feed=errand.pack(order), heard=True)

    def subjects(self, lasted: Lasted) -> list[Looped]:
        """Read the journals of all ranks."""
        error = float(lasted.args["most_error"])
        gpus: list[LoopedGpu] = []
        for one in burn_in.subjects(lasted.nodes, lasted.told):
            gpus.append(
                LoopedGpu(one.node, one.where, one.models, one.journals, one.accelerator, gpus, error)
            )
        return [Looped(tuple(gpus), lasted.asked_s, error, lasted.after)]
