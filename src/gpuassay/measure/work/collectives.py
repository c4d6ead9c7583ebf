"""Collectives over all nodes: first contact in pairs, then all-reduce and its like, each value looked at.

Every rank takes part in every step, so what a rank cannot do ends the run for all: they say why, and how far
they came.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gpuassay.measure.work import exchange, netlog, nics, rates
from gpuassay.measure.work.board import MEETING
from gpuassay.measure.work.party import START_S, Party

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuassay.measure.work.device import Device

METHOD = 1
MIB, GIB = 1 << 20, 1 << 30
_TINY, _TINY_PAIR = 256 << 10, 512 << 10  # on a processor, where figures show only that all of it works
_WARM, _REPEATS = 2, 3
_BUFFERS = 3  # given, taken, and what is computed to compare with, in slices


def cases(args: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List what is exchanged: each collective within a domain and over all, by size; pairs are no cases."""
    listed = rates.sizes(int(args["least"]), int(args["most"]), int(args["factor"])) if args["most"] else []
    return [
        {"collective": collective, "scope": scope, "size": size}
        for scope in str(args["scopes"]).split()
        for collective in str(args["collectives"]).split()
        for size in listed
    ]


def run(order: Mapping[str, Any], device: Device, leave: Callable[[Mapping[str, Any]], None]) -> None:
    """Do all steps. ``leave`` prints what came of them and ends the process, also one that hangs.

    It always ends so: a library that has lost its peers may hang when it is taken down.
    """
    environment = netlog.arrange(os.environ, str(order["args"]["environment"]))
    log = netlog.NetLog(os.environ)
    ranks = _Ranks(order, device)
    about = {"place": ranks.place(), "settings": environment, "rows": ranks.rows, "pairs": ranks.pairs}

    def document(**ending: str) -> dict[str, Any]:
        return {**about, "groups": ranks.groups, **ending, "log": log.document()}

    def go() -> None:
        ranks.meet()
        ranks.pair_up(rates.meetings(ranks.rank, ranks.local_size, ranks.nodes, int(order["args"]["rounds"])))
        ranks.grow(order)
        ranks.sweep(order["cases"])

    ranks.attend(go, lambda ending: leave(document(**ending)))


class _Ranks(Party):
    """This rank among the others, and what it found."""

    def __init__(self, order: Mapping[str, Any], device: Device) -> None:
        super().__init__(device, order["args"], float(order["args"]["patience_s"]), order["nodes"])
        self.domains: Sequence[str] = order["domains"]
        self.group, self.nodes = int(os.environ["GROUP_RANK"]), self.size // self.local_size
        self.rows: list[dict[str, Any]] = []
        self.pairs: list[dict[str, Any]] = []
        self.groups: list[dict[str, Any]] = []
        self._free = 0
        self._gathered: tuple[str, list[int]] | None = None

    def place(self) -> dict[str, Any]:
        """Say which rank this is, of which job."""
        return {
            "job": f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}",
            "rank": self.rank,
            "ranks": self.size,
            "of_node": self.local_size,
            "nodes": list(self.names),
            "domains": list(self.domains),
            "backend": "nccl" if self.device.accelerator else "gloo",
        }

    def meet(self) -> None:
        """Come together, by the network of the hosts."""
        with self.doing(MEETING, START_S):
            self.join()
            self._free = min(self.board.share(self.device.free_memory()))

    def pair_up(self, meetings: Sequence[tuple[str, int]]) -> None:
        """Meet others one by one, all pairs of a round at once: connect, look at values, take the time."""
        for kind, other in meetings:
            if other >= 0:
                with self.doing(f"first contact of {self.name(self.rank)} with {self.name(other)}"):
                    self.pairs.append({"kind": kind, "with": other, **self._pair(other)})
            self._meet()

    def _pair(self, other: int) -> dict[str, Any]:
        import torch  # noqa: PLC0415 - torch is loaded only where it runs
        import torch.distributed as dist  # noqa: PLC0415

        size = int(self.args["pair"]) if self.device.accelerator else _TINY_PAIR
        self._gather(f"pair/{self.board.times}", sorted((self.rank, other)))
        peer = int(self.rank < other)  # its number among the two
        given = torch.full((size // exchange.ELEMENT,), float(self.rank + 1), device=self.device.place)
        taken = torch.full_like(given, float("nan"))

        def swap() -> None:
            sends, takes = dist.P2POp(dist.isend, given, peer), dist.P2POp(dist.irecv, taken, peer)
            for request in dist.batch_isend_irecv([sends, takes]):
                request.wait()

        swap()
        wrong = int((taken != float(other + 1)).sum())
        seconds = self._timed(swap, _calls(size, self.device))
        return {"bytes": size, "wrong": wrong, "seconds": seconds}

    def grow(self, order: Mapping[str, Any]) -> None:
        """Take the best nodes together, then twice as many, up to all: the new ones are why it gets slow.

        The best comes from the pairs, so the node that nobody is fast with comes last.
        """
        size = int(order["args"]["group"])
        if self.nodes < 2 or not size:  # noqa: PLR2004 - one node is no group
            return
        size = size if self.device.accelerator else _TINY
        best = self.board.share(max((self._speed(pair) for pair in self.pairs), default=0.0))
        score = [min(best[node * self.local_size :][: self.local_size]) for node in range(self.nodes)]
        ordered = sorted(range(self.nodes), key=lambda node: (-score[node], node))
        for nodes in rates.growing(ordered):
            if self.group in nodes:
                ranks = [
                    node * self.local_size + local
                    for node in sorted(nodes)
                    for local in range(self.local_size)
                ]
                with self.doing(f"an all-gather of {len(nodes)} nodes"):
                    row = self._measured("all_gather", size, f"group/{len(nodes)}", ranks)
                self.groups.append({"nodes": [self.names[node] for node in nodes], **row})
            self._meet()

    def sweep(self, cases: Sequence[Mapping[str, Any]]) -> None:
        """Do every collective at every size."""
        mine = [rank for rank in range(self.size) if self.domains[rank // self.local_size] == self._domain]
        scopes = {"domain": mine, "all": list(range(self.size))}
        for case in cases:
            ranks = scopes[case["scope"]]
            row: dict[str, Any] = {"case": dict(case)}
            size = case["size"] if self.device.accelerator else min(_TINY, case["size"])
            if len(ranks) < 2:  # noqa: PLR2004
                row |= {"status": "unsupported", "why": "one rank has no bus: it needs at least 2"}
            elif size * _BUFFERS > self._free:
                why = f"{_BUFFERS} buffers of {size} bytes do not fit into {self._free} bytes"
                row |= {"status": "unsupported", "why": why}
            else:
                with self.doing(f"{case['collective']} of {case['size']} bytes, {case['scope']}"):
                    row |= self._measured(case["collective"], size, case["scope"], ranks)
            self.rows.append(row)
            self._meet()

    def _measured(self, collective: str, size: int, scope: str, ranks: list[int]) -> dict[str, Any]:
        self._gather(scope, ranks)
        work = exchange.prepare(collective, size, self.device.place)
        wrong = work.check()
        before, calls = nics.sent() if self.local == 0 else {}, _calls(size, self.device)
        seconds = self._timed(work.call, calls)
        moved = {"sent": nics.since(before), "calls": calls * _REPEATS + _WARM} if before else {}
        row = {"status": "ok", "ranks": len(ranks), "bytes": work.bytes, "seconds": seconds, "wrong": wrong}
        return {**row, "changed": work.check(), **moved}

    def _timed(self, call: Callable[[], None], calls: int) -> list[float]:
        for _ in range(_WARM):
            call()
        self.device.wait()
        seconds = []
        for _ in range(_REPEATS):
            begin = self.device.mark()
            for _ in range(calls):
                call()
            end = self.device.mark()
            end.wait()
            seconds.append(begin.until(end) / calls)
        return seconds

    def _speed(self, pair: Mapping[str, Any]) -> float:
        return pair["bytes"] / sorted(pair["seconds"])[1] if pair["kind"] == "across" else 0.0

    def _gather(self, scope: str, ranks: list[int]) -> None:
        """Make these ranks, which all come here, the group that the library works with from now on.

        It stays so as long as they go through the same ``scope``. A group at a time, each made from nothing:
        so its ranks alone wait for each other, and one that does not come is known by its partners.
        """
        import torch.distributed as dist  # noqa: PLC0415

        if (scope, ranks) == self._gathered:
            return
        if self._gathered:
            dist.destroy_process_group()
        self._gathered = scope, ranks
        name = f"{scope}/{'-'.join(map(str, ranks))}"
        dist.init_process_group(
            "nccl" if self.device.accelerator else "gloo",
            store=dist.PrefixStore(name, self.board.store),
            rank=ranks.index(self.rank),
            world_size=len(ranks),
            timeout=timedelta(seconds=2 * self.patience),  # the watchdog has the first word
        )

    @property
    def _domain(self) -> str:
        return self.domains[self.group]

    def _meet(self) -> None:
        # Others may still be at what this rank is done with; each of them has its own bound.
        with self._dog.step(f"to meet the others after {self.step}", 2 * self.patience):
            self.board.meet()


def _calls(size: int, device: Device) -> int:
    """Choose how many calls are timed at once: more where one of them is short."""
    if not device.accelerator:
        return 2
    return 50 if size < 64 * MIB else 20 if size < 8 * GIB else 5
