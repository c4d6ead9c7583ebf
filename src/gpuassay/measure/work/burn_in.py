"""Burn-in: products and all-to-all at the same time on every accelerator, looked at beat after beat.

Now and then a beat has an all-reduce instead, and now and then all stand still and start again at once: the
power that a whole cluster draws falls and rises within a moment then, as between the steps of a training.

Each rank keeps a journal, line by line, which is sent on while it runs: what is lost with a rank is no more
than its last beat.
"""

from __future__ import annotations

import math
import os
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuassay.measure.work import exchange, rates
from gpuassay.measure.work.beats import Lanes, beat, chunk, repeat
from gpuassay.measure.work.board import MEETING
from gpuassay.measure.work.formats import UnsupportedError
from gpuassay.measure.work.party import START_S, Party
from gpuassay.measure.work.products import Products
from gpuassay.measure.work.telemetry import watching

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuassay.measure.work.device import Device
    from gpuassay.measure.work.exchange import Exchange

    Say = Callable[[Mapping[str, Any]], None]

METHOD = 2
_TINY_SOLO_S, _TINY_BEAT_S = 0.5, 1.0  # on a processor
_TINY_REDUCE_EVERY, _TINY_PAUSE_EVERY_S, _TINY_PAUSE_S = 2, 6.0, 1.0
_BUFFERS = 3
_SLOWER = 1.5  # how much longer than the last beat the next one may take
_STOP, _GO, _PAUSE = range(3)
FLIP, SLOW = "GPUASSAY_TEST_FLIP", "GPUASSAY_TEST_SLOW"
"""Names by which tests spoil a rank: ``RANK:BEAT`` flips a bit, ``RANK:SECONDS`` holds up each product."""


def keep_journal(order: Mapping[str, Any], device: Device, say: Say, leave: Say) -> None:
    """Burn in. ``say`` writes a line of the journal; ``leave`` writes the last one and ends this process."""
    ranks = _Ranks(order, device, say)

    def go() -> None:
        ranks.meet()
        ranks.calibrate()
        ranks.burn()

    ranks.attend(go, lambda ending: leave({"line": "end", **ending}))


class _Swing(NamedTuple):
    """After how many beats one has an all-reduce, and after how long all stand still, for how long."""

    reduce_every: int
    pause_every_s: float
    pause_s: float

    @classmethod
    def of(cls, args: Mapping[str, Any], *, accelerator: bool) -> _Swing:
        """Read it from what is asked."""
        if not accelerator:
            return cls(_TINY_REDUCE_EVERY, _TINY_PAUSE_EVERY_S, _TINY_PAUSE_S)
        return cls(int(args["reduce_every"]), float(args["pause_every_s"]), float(args["pause_s"]))


def lengths(args: Mapping[str, Any], *, accelerator: bool) -> tuple[float, float]:
    """Say how long a beat is to last, and what is done alone."""
    return (float(args["beat_s"]), float(args["solo_s"])) if accelerator else (_TINY_BEAT_S, _TINY_SOLO_S)


class _Ranks(Party):
    """This rank among the others."""

    def __init__(self, order: Mapping[str, Any], device: Device, say: Say) -> None:
        super().__init__(device, order["args"], float(order["args"]["stall_s"]), order["nodes"])
        self.say, self.seconds = say, float(order["seconds"])
        self.swing = _Swing.of(self.args, accelerator=bool(device.accelerator))
        big = bool(device.accelerator)
        self.beat_s, self.solo_s = lengths(self.args, accelerator=big)
        self.called = order["called"]
        # Where a scheduler would end the job, it ends by itself before.
        self._until = time.monotonic() + order["within"] if order["within"] is not None else math.inf
        self.lanes = Lanes(device)
        self.products: list[Products] = []
        self.exchanges: list[tuple[str, Exchange]] = []  # the last one is the all-reduce
        self.alone: dict[str, float] = {}
        self._flip, self._slow = _spoilt(FLIP, self.rank), _spoilt(SLOW, self.rank)

    def meet(self) -> None:
        """Come together, and make the group that exchanges."""
        import torch.distributed as dist  # noqa: PLC0415 - torch is loaded only where it runs

        with self.within(MEETING, START_S):
            self.join()
            free = min(self.board.share(self.device.free_memory()))
        with self.within(f"the first exchange of all {self.size} ranks", START_S):
            dist.init_process_group(
                "nccl" if self.device.accelerator else "gloo",
                store=dist.PrefixStore("burn_in", self.board.store),
                rank=self.rank,
                world_size=self.size,
                timeout=timedelta(seconds=START_S + 2 * self.patience),
            )
            sizes = [
                size
                for size in (int(word) for word in str(self.args["sizes"]).split())
                if not self.device.accelerator or size * _BUFFERS < free / 4
            ][: None if self.device.accelerator else 1]
            kinds = [
                *(("all_to_all", size) for size in sizes),
                *(("all_reduce", size) for size in sizes[-1:]),
            ]
            self.exchanges = [(kind, exchange.prepare(kind, size, self.device.place)) for kind, size in kinds]

    def calibrate(self) -> None:
        """Do each alone first: what comes of both at once is held to that."""
        told: list[dict[str, Any]] = []
        formats = str(self.args["formats"]).split()[: None if self.device.accelerator else 1]
        for name in formats:
            with self.within(f"products in {name}, alone", START_S + self.solo_s):
                try:
                    products = Products(name, {**self.args, "memory": self._share(formats)}, self.device)
                except UnsupportedError as why:
                    told.append({"format": name, "unsupported": str(why)})
                    continue
                learnt = products.learn()
                self.alone[name] = self._solo(products.multiply)
            self.products.append(products)
            told.append({"format": name, "seconds": self.alone[name], "flops": products.flops, **learnt})
        moved = []
        for number, (kind, one) in enumerate(self.exchanges):
            with self.within(f"{kind} of {one.bytes} bytes, alone", START_S + self.solo_s):
                self.board.meet()
                wrong, seconds = one.check(), self._some(one)
                self.alone[str(number)] = max(self.board.share(seconds))
            took = self.alone[str(number)]
            moved.append({"collective": kind, "bytes": one.bytes, "seconds": took, "wrong": wrong})
        place = {"rank": self.rank, "ranks": self.size, "of_node": self.local_size, "nodes": self.names}
        self.say({"line": "begin", "at": time.time(), "place": place, "products": told, "exchanges": moved})

    def _share(self, formats: list[str]) -> float:
        return float(self.args["memory"]) / len(formats)

    def _solo(self, call: Callable[[int], object]) -> float:
        call(0)
        self.device.wait()
        until = time.monotonic() + self.solo_s
        found = repeat(self.device, call, 4, lambda done: not done or time.monotonic() < until)
        return float(found["begin"].until(found["end"])) / int(found["calls"])

    def _some(self, one: Exchange) -> float:
        """Take the time of a few exchanges; all ranks have to do as many."""
        found = repeat(self.device, lambda _: one.call(), 1, lambda done: done < int(self.args["solo_calls"]))
        return float(found["begin"].until(found["end"])) / int(found["calls"])

    def burn(self) -> None:
        """Go on until each rank was under load for as long as was asked."""
        spent, number, last_s, stood = 0.0, 0, 0.0, 0.0
        if not self.products or not self.exchanges:
            raise RuntimeError("no format of those that were asked for, or no room for an exchange")
        while step := self._next(spent, last_s, spent - stood):
            if step == _PAUSE:
                self._stand_still()
                stood = spent
            number += 1
            begin = time.monotonic()
            found = self._beat(number)
            last_s = time.monotonic() - begin
            spent += found["span"]
            self.say({"line": "beat", "beat": number, "spent": round(spent, 3), **found})

    def _next(self, spent: float, last_s: float, since_s: float) -> int:
        import torch  # noqa: PLC0415
        import torch.distributed as dist  # noqa: PLC0415

        in_time = time.monotonic() + _SLOWER * last_s < self._until
        # In 64 bits: what is left of hours is counted in milliseconds.
        told = torch.tensor([spent, float(in_time), since_s], dtype=torch.float64, device=self.device.place)
        with self.doing("to hear whether to go on"):
            dist.all_reduce(told, dist.ReduceOp.MIN)
            least, all_in_time, since = told.tolist()
        if least >= self.seconds or not all_in_time:
            return _STOP
        return _PAUSE if since >= self.swing.pause_every_s else _GO

    def _stand_still(self) -> None:
        """Let go, and take up again, all at the same moment."""
        with self.doing("to stand still", self.swing.pause_s), watching(self.device) as samples:
            self.board.meet()
            time.sleep(self.swing.pause_s)
            self.board.meet()
        words = f"{self.called}: stood still for {self.swing.pause_s:g} s, all at once"
        self.say({"line": "pause", "at": round(time.time(), 3), "words": words, "samples": list(samples)})

    def _beat(self, number: int) -> dict[str, Any]:
        products = self.products[number % len(self.products)]
        turn = number // len(self.products) % (len(self.exchanges) - 1)
        turn = -1 % len(self.exchanges) if number % self.swing.reduce_every == 0 else turn
        (kind, moved), seconds = self.exchanges[turn], self.alone[str(turn)]
        calls = max(1, round(self.beat_s / seconds))
        name = f"beat {number}"
        with self.doing(name, 4 * self.beat_s), watching(self.device) as samples:
            found = beat(self.lanes, self._held_up(products), self._each(products), moved, calls)
            if number == int(self._flip):
                products.flip(0)
            looked = products.look(range(min(len(products.results), found["gemm"]["calls"])))
        with self.doing(f"the values of {name}"):
            wrong = moved.check()
        speed = products.flops * found["gemm"]["calls"] / found["gemm"]["seconds"] / 1e12
        bus = rates.busbw(kind, self.size, moved.bytes, found["exchange"]["seconds"] / calls)
        return {
            "at": round(time.time(), 3),
            "words": f"{self.called}, {name}: {speed:.4g} TFLOP/s and {bus:.4g} GB/s at once",
            "format": products.format,
            "collective": kind,
            "bytes": moved.bytes,
            **found,
            "looked": looked,
            "wrong": wrong,
            "samples": list(samples),
            **({"no_samples": samples.why} if samples.why else {}),
        }

    def _each(self, products: Products) -> int:
        return 1 if self._slow else chunk(self.alone[products.format])

    def _held_up(self, products: Products) -> Any:
        """Give the products, which a test may hold up on this rank."""
        return _HeldUp(products, self._slow) if self._slow else products


class _HeldUp:
    """Products that wait before each."""

    def __init__(self, products: Products, seconds: float) -> None:
        self._products, self._seconds = products, seconds

    def multiply(self, number: int) -> None:
        time.sleep(self._seconds)
        self._products.multiply(number)


def _spoilt(name: str, rank: int) -> float:
    """Read by how much a test spoils this rank; 0 if it does not."""
    which, _, much = os.environ.get(name, "").partition(":")
    return float(much) if which == str(rank) else 0.0
