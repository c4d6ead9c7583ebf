"""Rounds of collectives really go on, on processes of one machine: what is planted is found and named."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

from gpuassay.enduring import Enduring
from gpuassay.evidence.item import Item
from gpuassay.facts import Node
from gpuassay.judge.catalog import load_catalog
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.site import undeclared
from gpuassay.measure.journals import CUT, Journal
from gpuassay.measure.looped import FabricLoop, Looped, LoopedGpu, Round, tail
from gpuassay.measure.work.fabric_loop import HELD_UP
from gpuassay.target.local import Local
from gpuassay.target.progress import Tally
from recorded.items import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuassay.judge.fact import Fact
    from gpuassay.target import Job, Results

pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")

ROOT = Path(__file__).parents[1]
CATALOG = load_catalog(ROOT / "thresholds.toml", ROOT / "advisories.toml")
LOOP = replace(
    CATALOG.measurements["fabric_loop"],
    args={**CATALOG.measurements["fabric_loop"].args, "most_error": 99.0, "look_every": 5},
)


class Bench:
    """Rounds of two ranks on this machine, which can be spoilt."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.lines: list[str] = []
        self.jobs: list[Job] = []
        self.load = Enduring(folder, LOOP, FabricLoop(), [Node(Local().declared()[0], None)], [], seconds)

    def run(
        self,
        spoilt: Mapping[str, str] = MappingProxyType({}),
        heard: Callable[[str], None] = lambda _line: None,
    ) -> Looped:
        """Make what is left, with these names in the environment of the ranks, and read all of it."""

        def show(line: str) -> None:
            self.lines.append(line)
            heard(line)

        def run(job: Job) -> Results:
            self.jobs.append(job)
            return Local().run(replace(job, environment={**job.environment, **spoilt}), Tally(1, show))

        self.load.go(run)
        return self.read()

    def read(self) -> Looped:
        """Read all of it."""
        (found,) = self.load.read(undeclared(CATALOG))
        assert isinstance(found, Looped)
        return found


def value(fact: Fact[object]) -> object:
    """Take the value of a fact, which must be there."""
    assert isinstance(fact, Read), fact
    return fact.value


def test_rounds_go_on_and_every_one_of_them_is_kept(tmp_path: Path) -> None:
    """Both ranks come through, every value is right, and all figures are there."""
    bench = Bench(tmp_path, 8.0)
    found = bench.run()

    assert len(found.gpus) == 2
    for gpu in found.gpus:
        assert value(gpu.alive) is True
        assert value(gpu.wrong) == 0
        assert len(gpu.rounds) == len(gpu.beats) >= 8
        assert value(gpu.pair_tail) >= 1.0  # type: ignore[operator]
        assert value(gpu.of_median) > 0  # type: ignore[operator]
        assert isinstance(gpu.pair_last_of_first, Read)
    for one in (found.all_reduce, found.all_to_all):
        assert isinstance(one.last_of_first, Read)
        assert value(one.tail) >= 1.0  # type: ignore[operator]
    assert value(found.whole) is True
    assert any("round 3: " in line and "GB/s all-to-all" in line for line in bench.lines)


def test_an_adapter_that_lags_from_some_round_on_is_a_drift_of_its_pair(tmp_path: Path) -> None:
    """One rank waits before each exchange with its partner: the pair has a part of its speed."""
    found = Bench(tmp_path, 20.0).run({HELD_UP: "1:6:0.05"})

    for gpu in found.gpus:
        assert value(gpu.pair_last_of_first) < 0.5  # type: ignore[operator]
        assert value(gpu.alive) is True


def test_what_was_cut_is_kept_and_only_the_rest_is_made(tmp_path: Path) -> None:
    """Ctrl-C in the third round: the rounds before it count, nobody is accused, and the rest follows."""
    bench = Bench(tmp_path, 9.0)

    def interrupt(line: str) -> None:
        if "round 3:" in line:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        bench.run(heard=interrupt)
    cut = bench.read()
    assert all(value(gpu.alive) is True for gpu in cut.gpus)
    assert any(len(gpu.rounds) >= 2 for gpu in cut.gpus)
    assert 0 < bench.load.left_s("fabric") < 9.0

    again = Bench(tmp_path, 60.0)  # what was asked for first stands
    whole = again.run()
    assert len(again.jobs) == 1
    assert value(whole.whole) is True
    assert again.load.is_over


def journal(segment: int, local: int, lines: list[dict[str, object]], *, cut: bool = False) -> Journal:
    """Make a journal of a rank of two nodes with two each."""
    place = {"rank": local, "ranks": 4, "of_node": 2, "nodes": ["a", "b"]}
    sizes = {"all_reduce": 1 << 30, "all_to_all": 1 << 30, "pair": 1 << 30}
    begin = {"line": "begin", "place": place, "bytes": sizes, "calls": dict.fromkeys(sizes, 1)}
    out = b"".join(encode(line) + b"\n" for line in [begin, *lines])
    return Journal(
        segment,
        local,
        Item(f"x/{segment}/{local}", 1, asked={CUT: cut}, out=out, why="killed by SIGKILL"),
        "m#1",
    )


def beat(number: int, partner: int, pair: float) -> dict[str, object]:
    """Make a round in which the exchange with a partner took so many seconds."""
    seconds = {"all_reduce": 0.1, "all_to_all": 0.1, "pair": pair}
    return {"line": "beat", "beat": number, "span": 1.0, "with": partner, "seconds": seconds}


def test_a_rank_that_falls_silent_is_named_with_its_round_and_one_that_was_cut_is_not() -> None:
    """Who started it and stopped it accuses nobody."""
    lines = [beat(number, 2, 0.1) for number in range(1, 4)]
    lost = LoopedGpu("a", "a/gpu0", (), [journal(1, 0, lines)], accelerator=True)
    cut = LoopedGpu("a", "a/gpu1", (), [journal(1, 1, lines, cut=True)], accelerator=True)

    assert isinstance(lost.alive, Read)
    assert lost.alive.value is False
    assert "last heard of at beat 3" in lost.alive.note
    assert value(cut.alive) is True


def test_who_is_slow_with_all_partners_is_told_from_a_partner_of_it() -> None:
    """Of three partners of each, one is slow with all: it alone lies below, and its partners do not."""
    every: list[LoopedGpu] = []
    for rank in range(4):
        others = [other for other in range(4) if other != rank]
        lines = [
            beat(number, other := others[number % 3], 0.2 if 2 in (rank, other) else 0.1)
            for number in range(1, 31)
        ]
        every.append(LoopedGpu("a", f"gpu{rank}", (), [journal(1, rank, lines)], True, every))  # noqa: FBT003

    shares = {gpu.where: value(gpu.of_median) for gpu in every}
    assert shares == {"gpu0": 1.0, "gpu1": 1.0, "gpu2": 0.5, "gpu3": 1.0}
    assert isinstance(every[0].of_median, Read)
    assert "slowest 5.369 with b/0" in every[0].of_median.note


def test_one_slow_round_of_a_hundred_is_the_tail_and_names_its_partner() -> None:
    """Of few rounds the slowest counts; of too few, none."""
    rounds = [Round((1, number), float(number), "b/1", {"pair": 50.0}) for number in range(1, 101)]
    rounds[41] = rounds[41]._replace(gbps={"pair": 10.0})
    found = tail(rounds, "pair")

    assert value(found) == 5.0
    assert isinstance(found, Read)
    assert "round 42 with b/1 at 10 GB/s, 50 as a rule, of 100" in found.note
    assert isinstance(tail(rounds[:5], "pair"), Unread)
    assert value(tail(rounds[:41] * 49, "pair")) == 1.0
