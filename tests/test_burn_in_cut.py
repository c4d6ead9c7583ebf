"""A burn-in whose controller ends before it: what its ranks had told counts, once."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.burning import Burning
from gpuassay.evidence.item import Item
from gpuassay.evidence.recording import read_measurement
from gpuassay.evidence.writer import add_measurement
from gpuassay.facts import Node
from gpuassay.heard import Heard
from gpuassay.judge.fact import Unread
from gpuassay.judge.site import undeclared
from gpuassay.measure.work.burn_in import METHOD
from gpuassay.target import TargetError
from test_burn_in import BURN_IN, CATALOG, note, value

if TYPE_CHECKING:
    from pathlib import Path

    from gpuassay.measure.burn_in import BurntIn
    from gpuassay.target import Job, Results

_BEAT_S = 10.0
_BEGIN = 1_796_112_000.0  # 2026-12-01T08:00:00Z


def journal(at: float, beats: int, end: dict[str, Any] | None = None) -> bytes:
    """Write what a rank says: it is ready at a time, beats of ten seconds follow, and maybe an end."""
    lines: list[dict[str, Any]] = [{"line": "begin", "at": at, "products": [], "exchanges": []}]
    lines += [
        {"line": "beat", "beat": beat, "at": at + beat * _BEAT_S, "span": _BEAT_S}
        for beat in range(1, beats + 1)
    ]
    lines += [{"line": "end", **end}] if end is not None else []
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


class Played:
    """A burn-in of two ranks on a node, of which each segment says what is told here."""

    def __init__(self, folder: Path, seconds: float = 120.0) -> None:
        self.recording, self.aside = folder / "recording", folder / "heard"
        self.recording.mkdir(exist_ok=True)
        self.lengths: list[float] = []
        self.burning = Burning(self.recording, self.aside, BURN_IN, [Node("n1", None)], seconds)

    def whole(self, job: Job) -> Results:
        """Be under load for as long as is left, an hour later each time."""
        assert job.hear is not None
        self.lengths.append(self.burning.left_s)
        beats = round(self.lengths[-1] / _BEAT_S)
        at = _BEGIN + 3600 * len(self.lengths)
        return {("n1", local): Item("rank", 1, out=journal(at, beats, {})) for local in (0, 1)}

    def read(self) -> BurntIn:
        """Read what is recorded."""
        return self.burning.read(undeclared(CATALOG))

    def asked(self, segment: int, seconds: float) -> dict[str, Any]:
        """Say what was asked for in a segment."""
        about = {"workload": "burn_in", "method": METHOD, "args": dict(BURN_IN.args)}
        return {**about, "segment": segment, "seconds": seconds, "of": 120.0}

    def killed(self, segment: int, *told: bytes) -> None:
        """Leave what a controller leaves that was killed when its ranks had told so much."""
        ids = [f"burn_in/{segment}/{local}" for local in range(len(told))]
        keep = Heard(self.aside, "burn_in").begin(["n1"], ids, self.asked(segment, 60.0))
        for local, lines in enumerate(told):
            for line in lines.splitlines(keepends=True):
                keep("n1", local, line)

    def recorded(self) -> list[Item]:
        """Give all items that are recorded."""
        return list(read_measurement(self.recording, "burn_in", ["n1"])["n1"].items)


def test_time_under_load_counts_once_and_the_gap_is_told(tmp_path: Path) -> None:
    """One rank had told of a beat more than the other when it was killed: what both told of counts."""
    Played(tmp_path).killed(1, journal(_BEGIN, 3), journal(_BEGIN, 2))
    again = Played(tmp_path, 999.0)
    again.burning.go(again.whole, 600.0)
    found = again.read()

    assert again.lengths == [100.0]
    assert [item.id for item in again.recorded()] == [
        f"burn_in/{segment}/{local}" for segment in (1, 2) for local in (0, 1)
    ]
    assert [value(gpu.alive) for gpu in found.gpus] == [True, True]
    assert value(found.hours) == round(120 / 3600, 4)
    assert "cut before its end: segment 1" in note(found.hours)
    assert value(found.whole) is True
    assert value(found.gap_s) == 3570.0
    assert note(found.gap_s) == (
        "from 2026-12-01T08:00:30Z to 2026-12-01T09:00:00Z, after segment 1, which was cut"
    )
    assert not again.aside.exists()


def test_a_line_that_was_half_written_spoils_only_itself(tmp_path: Path) -> None:
    """The controller was killed while it wrote: the next line begins anew."""
    played = Played(tmp_path)
    played.killed(1, journal(_BEGIN, 2), journal(_BEGIN, 2))
    (file,) = played.aside.rglob("n1.jsonl")
    file.write_bytes(file.read_bytes() + b'{"id":"burn_in/1/0","seq":99,"out":"{')
    played.burning.go(played.whole, 600.0)

    assert played.lengths == [100.0]


def test_what_is_recorded_already_is_not_doubled(tmp_path: Path) -> None:
    """It was killed between the two ranks of a segment that was over: the other one's is added, whole."""
    played = Played(tmp_path)
    played.killed(1, journal(_BEGIN, 6, {}), journal(_BEGIN, 6, {}))
    first = Item("burn_in/1/0", 1, asked=played.asked(1, 60.0), out=journal(_BEGIN, 6, {}))
    add_measurement(played.recording, "burn_in", "n1", first)
    played.burning.go(played.whole, 600.0)
    found = played.read()

    assert [item.id for item in played.recorded()[:2]] == ["burn_in/1/0", "burn_in/1/1"]
    assert played.lengths == [60.0]
    assert "cut" not in note(found.hours)


def test_a_segment_of_which_nothing_was_heard_never_began(tmp_path: Path) -> None:
    """Its number is free again, and what is recorded does not look as if there had been a burn-in."""
    played = Played(tmp_path)
    played.killed(1, b"", b"")
    assert not played.burning.started
    played.burning.go(played.whole, 600.0)

    assert [item.id for item in played.recorded()] == ["burn_in/1/0", "burn_in/1/1"]


def test_who_fell_silent_with_its_controller_is_neither_accused_nor_acquitted(tmp_path: Path) -> None:
    """The other one had said that it goes no further: which of them was lost first, nobody saw."""
    played = Played(tmp_path)
    why = {"broken": "beat 2 did not end within 38 s"}
    played.killed(1, journal(_BEGIN, 1, why), journal(_BEGIN, 1))
    played.burning.go(played.whole, 600.0)
    ill, unknown = played.read().gpus

    assert played.lengths == [], "where a rank broke it is for people to look"
    assert value(ill.alive) is False
    assert isinstance(unknown.alive, Unread)
    assert "last heard of at beat 1, 2026-12-01T08:00:10Z" in unknown.alive.why


def test_an_interrupt_records_what_was_heard_until_then(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a segment: its beats are in the recording, which is sealed."""
    played = Played(tmp_path)

    def interrupted(job: Job) -> Results:
        assert job.hear is not None
        for local in (0, 1):
            job.hear("n1", local, journal(_BEGIN, 4))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        played.burning.go(interrupted, 600.0)
    assert value(played.read().hours) == round(40 / 3600, 4)
    assert played.burning.left_s == 80.0
    assert (played.recording / "SHA256SUMS").exists()
    assert not played.aside.exists()


def test_a_segment_without_a_beat_is_not_tried_for_ever(tmp_path: Path) -> None:
    """All of its ranks came to an end, and none had done anything: that is said, and it stops."""
    played = Played(tmp_path)

    def idle(_job: Job) -> Results:
        return {("n1", local): Item("rank", 1, out=journal(_BEGIN, 0, {})) for local in (0, 1)}

    with pytest.raises(TargetError, match="segment 1 came to an end without a beat"):
        played.burning.go(idle, 600.0)
    assert all(isinstance(gpu.alive, Unread) for gpu in played.read().gpus)


def test_one_segment_has_no_gap(tmp_path: Path) -> None:
    """And what was never under load has none that could be told."""
    played = Played(tmp_path)
    played.burning.go(played.whole, 600.0)
    assert value(played.read().gap_s) == 0.0

    other = tmp_path / "other"
    other.mkdir()
    assert isinstance(Played(other).read().gap_s, Unread)


def test_ranks_run_in_the_image_of_the_site(tmp_path: Path) -> None:
    """As all other loads do: torch is in it, and maybe nowhere else."""
    played, images = Played(tmp_path), []

    def run(job: Job) -> Results:
        images.append(job.image)
        return played.whole(job)

    replace(played.burning, image="registry.example/torch@sha256:1").go(run, 600.0)
    assert images == ["registry.example/torch@sha256:1"]
