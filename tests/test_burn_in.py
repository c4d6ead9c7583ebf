"""A burn-in really runs, on processes of one machine: what is planted is found and named, no more."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.burning import Burning
from gpuassay.evidence.item import Item
from gpuassay.facts import Node
from gpuassay.judge.catalog import load_catalog
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.site import undeclared
from gpuassay.measure.burn_in import subjects
from gpuassay.measure.journals import Journal
from gpuassay.measure.work.burn_in import FLIP, SLOW
from gpuassay.target.local import Local
from gpuassay.target.progress import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuassay.judge.fact import Fact
    from gpuassay.measure.burn_in import BurntIn
    from gpuassay.target import Job, Results

pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")

ROOT = Path(__file__).parents[1]
CATALOG = load_catalog(ROOT / "thresholds.toml", ROOT / "advisories.toml")
BURN_IN = CATALOG.measurements["burn_in"]
MARK = "GPUASSAY_TEST_MARK"


class Bench:
    """A burn-in of two ranks on this machine, which can be spoilt."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.lines: list[str] = []
        self.jobs: list[Job] = []
        node = Node(Local().declared()[0], None)
        self.burning = Burning(folder / "recording", folder / "heard", BURN_IN, [node], seconds)

    def run(
        self,
        spoilt: Mapping[str, str] = MappingProxyType({}),
        heard: Callable[[str], None] = lambda _line: None,
        longest_s: float = 600.0,
    ) -> BurntIn:
        """Run it, with these names in the environment of the ranks, and read what came of it."""

        def show(line: str) -> None:
            self.lines.append(line)
            heard(line)

        def run(job: Job) -> Results:
            self.jobs.append(job)
            return Local().run(replace(job, environment={**job.environment, **spoilt}), Tally(1, show))

        self.burning.go(run, longest_s)
        return self.burning.read(undeclared(CATALOG))


def value(fact: Fact[object]) -> object:
    """Take the value of a fact, which must be there."""
    assert isinstance(fact, Read), fact
    return fact.value


def note(fact: Fact[object]) -> str:
    """Take what is said beside a value."""
    assert isinstance(fact, Read), fact
    return fact.note


def end_rank(mark: str, rank: int) -> None:
    """Kill a rank of ours, found by the mark in its environment."""
    for place in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            words = place.read_bytes().split(b"\0")
            if f"{MARK}={mark}".encode() in words and f"RANK={rank}".encode() in words:
                os.kill(int(place.parent.name), signal.SIGKILL)


def test_what_is_well_comes_through_in_segments_both_at_once(tmp_path: Path) -> None:
    """Segments, each a job of its own: right bits, both alive, both at once, and the time is whole."""
    bench = Bench(tmp_path, 9.0)
    found = bench.run(longest_s=1.0)

    assert len(bench.jobs) > 1, "it was not burned in by segments"
    assert [json.loads(line)["id"] for line in _recorded(tmp_path)] == [
        f"burn_in/{segment}/{local}" for segment in range(1, len(bench.jobs) + 1) for local in (0, 1)
    ]
    assert not (tmp_path / "heard").exists(), "what is recorded is not kept aside any more"
    assert value(found.gap_s) > 0  # type: ignore[operator]
    for gpu in found.gpus:
        assert value(gpu.alive) is True
        assert value(gpu.wrong_tiles) == value(gpu.unlike) == value(gpu.wrong_exchanged) == 0
        assert gpu.tiles > 0
        assert value(gpu.both_share) > 0.5  # type: ignore[operator]
        assert isinstance(gpu.efficiency, Read)
    assert value(found.whole) is True
    assert any("TFLOP/s and" in line for line in bench.lines), "nobody heard of a beat while it ran"


def test_all_stand_still_at_once_and_some_beats_reduce(tmp_path: Path) -> None:
    """After a while the ranks let go together and take up again; every other beat is an all-reduce."""
    bench = Bench(tmp_path, 24.0)
    found = bench.run()
    lines = [
        json.loads(one) for item in map(json.loads, _recorded(tmp_path)) for one in item["out"].splitlines()
    ]

    assert "all stood still and started again" in note(found.hours)
    pauses = [line["at"] for line in lines if line["line"] == "pause"]
    assert len(pauses) >= 2
    assert len(pauses) % 2 == 0, "one of each rank"
    beats = [line for line in lines if line["line"] == "beat"]
    assert {beat["collective"] for beat in beats if beat["beat"] % 2 == 0} == {"all_reduce"}
    assert {beat["collective"] for beat in beats if beat["beat"] % 2} == {"all_to_all"}
    assert all(value(gpu.wrong_exchanged) == 0 for gpu in found.gpus)


def test_a_run_that_was_cut_goes_on_with_the_segment_that_it_lacks(tmp_path: Path) -> None:
    """The first was recorded; of the second nothing came before the end of the controller."""
    bench = Bench(tmp_path, 20.0)

    def cut(job: Job) -> Results:
        if bench.jobs:
            raise KeyboardInterrupt
        bench.jobs.append(job)
        return Local().run(job, Tally(1, bench.lines.append))

    with pytest.raises(KeyboardInterrupt):
        bench.burning.go(cut, 1.0)
    again = Bench(tmp_path, 60.0)  # what was asked for first stands
    assert 0 < again.burning.left_s < 20.0
    found = again.run(longest_s=600.0)

    assert len(again.jobs) == 1
    assert value(found.whole) is True
    assert found.asked_s == 20.0


def test_a_flipped_bit_is_found_and_the_tile_is_computed_again_alone(tmp_path: Path) -> None:
    """The rank that had it is named, with the tile; the other is not, and alone it was right."""
    found = Bench(tmp_path, 4.0).run({FLIP: "1:1"})

    well, ill = found.gpus
    assert value(well.wrong_tiles) == 0
    assert value(ill.wrong_tiles) == 1
    assert "beat 1: tile [1, 2] in bfloat16: wrong under load, and right each time" in note(ill.wrong_tiles)


def test_a_slowed_rank_is_the_one_below_the_other(tmp_path: Path) -> None:
    """It waits before each product: of the two it has a small part of the speed, and still right bits."""
    bench = Bench(tmp_path, 3.0)
    found = bench.run({SLOW: "0:0.02"})

    assert len(bench.jobs) == 1, "a segment more, for what one rank was short of"
    slow, well = found.gpus
    assert 0 < value(slow.tflops) < 0.5 * value(well.tflops)  # type: ignore[operator]
    assert value(slow.wrong_tiles) == 0
    assert value(slow.alive) is True


def test_a_killed_rank_is_named_with_its_last_beat_and_the_others_are_not_accused(tmp_path: Path) -> None:
    """Killed where it cannot say a word; what it had written until then is there."""
    mark = str(tmp_path)

    def kill(line: str) -> None:
        if "rank 1: segment 1, beat 1" in line:
            end_rank(mark, 1)

    bench = Bench(tmp_path, 60.0)
    found = bench.run({MARK: mark}, kill)

    well, ill = found.gpus
    assert value(ill.alive) is False
    assert "last heard of at beat" in note(ill.alive)
    assert "killed by SIGKILL" in note(ill.alive)
    assert value(well.alive) is True
    assert f"stopped when {ill.where} was lost" in note(well.alive)
    assert value(found.whole) is False
    assert bench.burning.left_s == 0, "what was lost is for people, not for another try"


@given(st.binary(max_size=200), st.sampled_from(["ok", "failed", "timed_out"]))
def test_any_journal_is_read_without_an_exception(out: bytes, status: str) -> None:
    """Whatever a rank printed: what is no journal is no figure, and its rank is not alive."""
    journal = Journal(1, 0, Item("burn_in/1/0", 1, status, out=out), "m#1")  # type: ignore[arg-type]
    (gpu,) = subjects([Node("n1", None)], {"n1": [journal]})

    figures = (gpu.wrong_tiles, gpu.wrong_exchanged, gpu.unlike, gpu.both_share, gpu.efficiency, gpu.tflops)
    assert all(isinstance(one, Unread) for one in figures)
    assert isinstance(gpu.products_last_of_first, Unread)
    assert value(gpu.alive) is False


def _recorded(folder: Path) -> list[str]:
    (file,) = (folder / "recording" / "measure" / "burn_in").glob("*.jsonl")
    return file.read_text(encoding="utf-8").splitlines()
