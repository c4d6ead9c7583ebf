"""Writers of checkpoints are really killed: torn ones are noticed, and what lies is found."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.enduring import Enduring
from gpuassay.evidence.item import Item
from gpuassay.facts import Node
from gpuassay.facts.record import Record
from gpuassay.judge.catalog import load_catalog
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.services import Mount
from gpuassay.judge.site import undeclared
from gpuassay.measure.journals import Journal
from gpuassay.measure.torn import CheckpointKills, Torn
from gpuassay.measure.work import checkpoint_kills
from gpuassay.target.local import Local
from gpuassay.target.progress import Tally
from recorded.items import encode
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuassay.judge.fact import Fact
    from gpuassay.target import Job, Results

pytest.importorskip(
    "torch.distributed.checkpoint", reason="torch is not installed: pip install torch==2.13.0"
)

ROOT = Path(__file__).parents[1]
CATALOG = load_catalog(ROOT / "thresholds.toml", ROOT / "advisories.toml")
KILLS = replace(CATALOG.measurements["checkpoint_kills"], deadline_s=120.0)


def load(folder: Path, seconds: float) -> Enduring:
    """Prepare the load of one folder, which stands in for a mount."""
    mount = folder / "mount"
    mount.mkdir(exist_ok=True)
    declared = [Mount(str(mount), "scratch", shared=True)]
    nodes = [Node(Local().declared()[0], None)]
    return Enduring(folder / "run", KILLS, CheckpointKills(), nodes, declared, seconds)


def run(made: Enduring, heard: Callable[[str], None] = lambda _line: None) -> Torn:
    """Make what is left of it, and read it."""

    def on(job: Job) -> Results:
        return Local().run(job, Tally(1, heard))

    made.go(on)
    (found,) = made.read(undeclared(CATALOG))
    assert isinstance(found, Torn)
    return found


def value(fact: Fact[object]) -> object:
    """Take the value of a fact, which must be there."""
    assert isinstance(fact, Read), fact
    return fact.value


def test_writers_are_killed_and_what_they_leave_is_torn_and_noticed(tmp_path: Path) -> None:
    """Really, by SIGKILL: the last good one is whole after each, and nothing is left in the end."""
    lines: list[str] = []
    found = run(load(tmp_path, 8.0), lines.append)

    assert value(found.unnoticed) == value(found.lost) == value(found.left) == 0
    assert value(found.whole) is True
    assert list((tmp_path / "mount").iterdir()) == []
    assert any("kill 1: step" in line for line in lines)
    beats = found.journal.beats if found.journal else ()
    moments = [beat.look("after_s") for beat in beats]
    assert len({one.value for one in moments if isinstance(one, Read)}) > 1
    assert found.journal
    assert found.journal.begin
    assert str(tmp_path / "mount") in str(found.journal.begin.look("seed"))


def test_what_is_interrupted_leaves_nothing_and_keeps_its_kills(tmp_path: Path) -> None:
    """Ctrl-C after the first kill: it stands in the recording, and the folder is gone."""

    def interrupt(line: str) -> None:
        if "kill 1:" in line:
            os.kill(os.getpid(), signal.SIGINT)

    made = load(tmp_path, 300.0)
    with pytest.raises(KeyboardInterrupt):
        run(made, interrupt)
    (found,) = made.read(undeclared(CATALOG))

    assert value(found.lost) == 0
    assert value(found.whole) is False
    assert isinstance(found.left, Unread)
    # Who is writing to a busy disk ends late, and we do not wait: its keeper removes the folder then.
    wait_until(lambda: not list((tmp_path / "mount").iterdir()), "the folder was left")


def trials(folder: Path) -> Any:
    """Give what kills and looks, in this process."""
    order = {"args": KILLS.args, "tiny": True, "mount": str(folder), "seconds": 1.0}
    return checkpoint_kills.Trials(order, folder, lambda _line: None)


def test_a_writer_that_is_killed_leaves_what_does_not_load(tmp_path: Path) -> None:
    """Kill after kill, with other moments: each torn one raises, or has all that was saved."""
    one = trials(tmp_path)
    told = one.kill(0)
    seen = one.look(told["saved"])

    assert seen["good"]["wrong"] == 0
    assert "why" in seen["torn"] or seen["torn"]["wrong"] == 0
    assert [entry.name for entry in tmp_path.iterdir()] == [f"step-{told['saved']}"]


def test_a_file_system_that_loses_what_was_synced_is_found(tmp_path: Path) -> None:
    """A page of zeros within a file, as after a lie about fsync: it loads, and its bits are wrong."""
    one = trials(tmp_path)
    saved = one.kill(0)["saved"]
    with max((tmp_path / f"step-{saved}").glob("*.distcp")).open("r+b") as file:
        file.seek(0, os.SEEK_END)
        middle = file.tell() // 2
        file.seek(middle)
        file.write(bytes(4096))
    seen = one.look(saved)

    assert seen["good"].get("wrong", -1) != 0


def test_a_checkpoint_that_is_gone_is_not_taken_for_one(tmp_path: Path) -> None:
    """Its index is there and a file is not: the loader says so."""
    one = trials(tmp_path)
    saved = one.kill(0)["saved"]
    max((tmp_path / f"step-{saved}").glob("*.distcp")).unlink()

    assert "why" in one.look(saved)["good"]


def read(*beats: dict[str, object]) -> Torn:
    """Read a journal of these kills."""
    lines = [{"line": "begin", "status": "ok"}, *({"line": "beat", "span": 1.0, **one} for one in beats)]
    out = b"".join(encode(line) + b"\n" for line in [*lines, {"line": "end", "left": 0}])
    journal = Journal(1, 0, Item("x/1/0", 1, out=out), "m#1")
    begin = journal.begin or Record(Unread("failed", "nothing"))
    return Torn("n1", Mount("/data", "scratch", shared=True), (), begin, begin, {}, (), journal, 4.0)


def test_what_loads_though_it_is_torn_is_unnoticed_and_what_does_not_load_though_saved_is_lost() -> None:
    """The words of the first are quoted; a kill that came too late has torn nothing."""
    good, bad = {"wrong": 0}, {"why": "CheckpointException: truncated"}
    found = read(
        {"torn": bad, "good": good},
        {"torn": {"wrong": 7}, "good": good, "words": "kill 2: step 4 loaded with 7 wrong"},
        {"torn": good, "good": bad, "words": "kill 3: step 5: truncated"},
        {"torn": bad, "good": {"wrong": 512}},
    )

    assert (value(found.torn), value(found.unnoticed), value(found.lost)) == (2, 1, 2)
    assert found.unnoticed.note == "kill 2: step 4 loaded with 7 wrong"  # type: ignore[union-attr]
    assert value(found.left) == 0
    assert json.dumps(found.at)
