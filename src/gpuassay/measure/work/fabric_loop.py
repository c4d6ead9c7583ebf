"""Rounds of collectives and of pairs, for hours: every round's time is written down while it goes on.

Each rank keeps a journal, line by line, as in a burn-in. A round is an all-reduce and an all-to-all over all
ranks, and an exchange of each rank with its like on another node, which changes from round to round: so
each adapter is timed by itself, with every partner in turn.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gpuassay.measure.work import exchange, rates
from gpuassay.measure.work.board import MEETING
from gpuassay.measure.work.party import START_S, Party

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuassay.measure.work.device import Device

    Say = Callable[[Mapping[str, Any]], None]

METHOD = 1
COLLECTIVES = ("all_reduce", "all_to_all")
_TINY_BYTES, _TINY_STEP_S = 64 << 10, 0.02  # on a processor, where figures show only that all of it works
_BUFFERS = 8
_TRIAL = 5
HELD_UP = "GPUASSAY_TEST_HELD_UP"
"""By which tests spoil a rank: ``RANK:ROUND:SECONDS`` holds up its part of the pair, from that round on."""


def keep_journal(order: Mapping[str, Any], device: Device, say: Say, leave: Say) -> None:
    """Go round. ``say`` writes a line of the journal; ``leave`` writes the last one and ends this process."""
    ranks = _Ranks(order, device, say)

    def go() -> None:
        ranks.meet()
        ranks.make_ready()
        ranks.go_round()

    ranks.attend(go, lambda ending: leave({"line": "end", **ending}))


class _Ranks(Party):
    """This rank among the others."""

    def __init__(self, order: Mapping[str, Any], device: Device, say: Say) -> None:
        super().__init__(device, order["args"], float(order["args"]["patience_s"]), order["nodes"])
        self.say, self.seconds = say, float(order["seconds"])
        big = device.accelerator
        self.bytes = int(self.args["bytes"]) if big else _TINY_BYTES
        self.step_s = float(self.args["step_s"]) if big else _TINY_STEP_S
        self.steps: dict[str, tuple[Callable[[], None], int]] = {}
        self.exchanges: dict[str, exchange.Exchange] = {}
        self.pair = _Pair(self.rank, self.local_size, len(self.names))

    def meet(self) -> None:
        """Come together, and make the group that works together to the end."""
        import torch.distributed as dist  # noqa: PLC0415 - torch is loaded only where it runs

        with self.doing(MEETING, START_S):
            self.join()
            free = min(self.board.share(self.device.free_memory()))
        self.bytes = min(self.bytes, free // _BUFFERS)
        with self.doing(f"the first exchange of all {self.size} ranks", START_S):
            dist.init_process_group(
                "nccl" if self.device.accelerator else "gloo",
                store=dist.PrefixStore("fabric_loop", self.board.store),
                rank=self.rank,
                world_size=self.size,
                timeout=timedelta(seconds=START_S + 2 * self.patience),
            )
            self.exchanges = {
                name: exchange.prepare(name, self.bytes, self.device.place) for name in COLLECTIVES
            }
            self.pair.prepare(self.bytes, self.device)

    def make_ready(self) -> None:
        """Find how many calls a step takes; all ranks have to make as many."""
        calls = {name: one.call for name, one in self.exchanges.items()} | {"pair": self.pair.swap}
        for name, call in calls.items():
            with self.doing(f"the first {name}"):
                self.board.meet()
                call()
                slowest = max(self.board.share(self._timed(call, _TRIAL)))
            self.steps[name] = call, max(1, round(self.step_s * _TRIAL / slowest))
        place = {"rank": self.rank, "ranks": self.size, "of_node": self.local_size, "nodes": self.names}
        moved = {name: one.bytes for name, one in self.exchanges.items()} | {"pair": self.pair.bytes}
        counts = {name: count for name, (_, count) in self.steps.items()}
        self.say({"line": "begin", "at": time.time(), "place": place, "bytes": moved, "calls": counts})

    def go_round(self) -> None:
        """Go on until the first rank says that the time is over."""
        spent, number = 0.0, 0
        held_from, held_s = _held_up(self.rank)
        while self._go_on(spent):
            number += 1
            self.pair.turn(number, held_s if number >= held_from else 0.0)
            begin, seconds = time.perf_counter(), {}
            for name, (call, count) in self.steps.items():
                with self.doing(f"{name} in round {number}, with {self._partner(name)}"):
                    self.board.meet()
                    seconds[name] = round(self._timed(call, count), 6)
            wrong = self._wrong(number)
            span = time.perf_counter() - begin
            spent += span
            self.say(self._beat(number, spent, span, seconds, wrong))

    def _beat(
        self, number: int, spent: float, span: float, seconds: Mapping[str, float], wrong: int | None
    ) -> dict[str, Any]:
        count = self.steps["all_to_all"][1]
        size = self.exchanges["all_to_all"].bytes
        bus = rates.busbw("all_to_all", self.size, size, seconds["all_to_all"] / count)
        return {
            "line": "beat",
            "beat": number,
            "at": round(time.time(), 3),
            "spent": round(spent, 3),
            "span": round(span, 6),
            "seconds": dict(seconds),
            "with": self.pair.partner,
            **({} if wrong is None else {"wrong": wrong}),
            "words": f"round {number}: {bus:.4g} GB/s all-to-all",
        }

    def _partner(self, name: str) -> str:
        if name != "pair":
            return f"all {self.size}"
        return self.name(self.pair.partner) if self.pair.partner >= 0 else "nobody"

    def _wrong(self, number: int) -> int | None:
        """Look at every element of both collectives, now and then."""
        if number % int(self.args["look_every"]) != 1:
            return None
        with self.doing(f"the values of round {number}"):
            return sum(one.check() for one in self.exchanges.values()) + self.pair.check()

    def _timed(self, call: Callable[[], None], calls: int) -> float:
        begin = self.device.mark()
        for _ in range(calls):
            call()
        end = self.device.mark()
        end.wait()
        return float(begin.until(end))

    def _go_on(self, spent: float) -> bool:
        with self.doing("to hear whether to go on"):
            return bool(self.board.share(spent < self.seconds)[0])


class _Pair:
    """What a rank exchanges with one other at a time: its like on another node, or one of its own."""

    def __init__(self, rank: int, of_node: int, nodes: int) -> None:
        met = rates.meetings(rank, of_node, nodes, max(of_node, nodes))
        self._partners = [other for kind, other in met if kind == ("across" if nodes > 1 else "within")]
        self._rank, self._held_s = rank, 0.0
        self._given: Any = None
        self._taken: Any = None
        self.bytes, self.partner = 0, -1

    def prepare(self, size: int, device: Device) -> None:
        """Make the buffers."""
        import torch  # noqa: PLC0415 - torch is loaded only where it runs

        self._given = torch.full((max(1, size // exchange.ELEMENT),), self._rank + 1.0, device=device.place)
        self._taken = torch.empty_like(self._given)
        self.bytes = self._given.numel() * exchange.ELEMENT
        self.turn(0, 0.0)

    def turn(self, number: int, held_s: float) -> None:
        """Take the partner of a round; -1 where the rank has none in it."""
        self.partner = self._partners[number % len(self._partners)] if self._partners else -1
        self._held_s = held_s

    def swap(self) -> None:
        """Give and take at once."""
        import torch.distributed as dist  # noqa: PLC0415

        if self._held_s:
            time.sleep(self._held_s)
        if self.partner < 0:
            return
        ways = [
            dist.P2POp(dist.isend, self._given, self.partner),
            dist.P2POp(dist.irecv, self._taken, self.partner),
        ]
        for request in dist.batch_isend_irecv(ways):
            request.wait()

    def check(self) -> int:
        """Count the elements that are not the partner's."""
        if self.partner < 0:
            return 0
        self._taken.fill_(float("nan"))
        self.swap()
        return int((self._taken != self.partner + 1.0).sum())


def _held_up(rank: int) -> tuple[int, float]:
    """Read from which round on, and by how much, a test holds up this rank."""
    which, _, much = os.environ.get(HELD_UP, "").partition(":")
    first, _, seconds = much.partition(":")
    return (int(first), float(seconds)) if which == str(rank) else (0, 0.0)
