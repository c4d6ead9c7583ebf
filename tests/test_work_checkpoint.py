"""Checkpoints by real ranks on this machine: what they find, and that nothing of it stays behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.measure import errand
from gpuassay.measure.work import pagecache, states
from gpuassay.measure.work.device import Device
from gpuassay.measure.work.scratch import PREFIX, Scratch, writable
from gpuassay.target import Job
from gpuassay.target.local import Local
from gpuassay.target.progress import Tally

if TYPE_CHECKING:
    from gpuassay.target import Results

ARGS: dict[str, Any] = {"rank_bytes": 1 << 32, "tensors": 32, "repeats": 3, "patience_s": 120}
ROOT = Path(__file__).parents[1]


def run(mounts: list[dict[str, Any]], ranks: int, deadline_s: float = 200.0, **args: object) -> Results:
    """Run the workload on this machine."""
    here = Local()
    order = {"workload": "checkpoint", "method": 1, "args": {**ARGS, **args}, "mounts": mounts}
    job = Job(
        "checkpoint", errand.ARGV, here.declared(), ranks, deadline_s=deadline_s, feed=errand.pack(order)
    )
    return here.run(job, Tally(1, lambda _line: None))


def mount(path: Path, *, shared: bool) -> dict[str, Any]:
    """Declare a file system."""
    return {"path": str(path), "role": "scratch" if shared else "local", "shared": shared}


def test_ranks_save_load_and_cut_anew_on_each_file_system(tmp_path: Path) -> None:
    """Three checkpoints are whole, and one rank loads what two have saved; nothing is left."""
    pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
    shared, own = tmp_path / "shared", tmp_path / "own"
    shared.mkdir()
    own.mkdir()

    found = run([mount(shared, shared=True), mount(own, shared=False)], ranks=2)

    documents = [json.loads(item.out) for _, item in sorted(found.items())]
    for document in documents:
        assert [row["status"] for row in document["rows"]] == ["ok", "ok"]
        for row in document["rows"]:
            assert len(row["save_seconds"]) == len(row["load_seconds"]) == len(row["aside"]) == 3
            assert row["wrong"] == row["anew"]["wrong"] == 0
            assert row["anew"]["ranks"] == 1
            assert row["bytes"] >= row["bytes_free"] > 0
    steps = documents[0]["rows"][0]["files"]
    assert [one["step"] for one in steps] == ["step-500", "step-1000", "step-1500"]
    assert steps[0]["needed"].keys() == {"__0_0.distcp", "__1_0.distcp"}
    assert all(steps[0]["sizes"][name] >= least for name, least in steps[0]["needed"].items())
    assert documents[1]["rows"][0]["files"] == []
    assert [*shared.iterdir(), *own.iterdir()] == []


def test_what_is_cut_leaves_nothing_behind(tmp_path: Path) -> None:
    """At the deadline the launcher ends the rank as Ctrl-C does; the keeper is let finish."""
    pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
    (item,) = run([mount(tmp_path, shared=False)], ranks=1, deadline_s=12.0, repeats=2000).values()

    assert item.status == "timed_out"
    assert [*tmp_path.iterdir()] == []


def test_a_place_without_leave_to_write_is_said(tmp_path: Path) -> None:
    """And the next file system is measured all the same."""
    pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
    gone = tmp_path / "gone"
    (item,) = run([mount(gone, shared=False), mount(tmp_path, shared=False)], ranks=1).values()

    first, second = json.loads(item.out)["rows"]
    assert first["status"] == "failed"
    assert str(gone) in first["why"]
    assert second["status"] == "ok"
    assert second["anew"]["status"] == "unsupported"


def test_the_folder_goes_when_its_process_is_killed(tmp_path: Path) -> None:
    """By a signal that no program can catch, also with files in it."""
    program = (
        "import sys\nfrom gpuassay.measure.work.scratch import Scratch\n"
        "scratch = Scratch(sys.argv[1]).__enter__()\n(scratch.path / 'file').write_text('x')\n"
        "print(scratch.path, flush=True)\nsys.stdin.read()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    with child:
        assert child.stdout
        folder = Path(child.stdout.readline().strip())
        assert (folder / "file").exists()
        child.send_signal(signal.SIGKILL)
    until = time.monotonic() + 30
    while folder.exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert not folder.exists()


def test_what_a_dead_node_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    """If it is ours and old; a young one may belong to somebody who is still at it."""
    old, young = tmp_path / f"{PREFIX}old", tmp_path / f"{PREFIX}young"
    old.mkdir()
    young.mkdir()
    os.utime(old, (1, 1))

    with Scratch(str(tmp_path)) as scratch:
        assert scratch.path.parent == tmp_path
        assert not old.exists()
        assert young.exists()
    assert not scratch.path.exists()


def test_a_home_is_written_to_where_its_top_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Users may not write at the top of /home, and have a folder there."""
    home = tmp_path / "alice"
    home.mkdir()
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path) == home)
    monkeypatch.setenv("HOME", str(home))

    assert writable(str(tmp_path)) == home


def test_files_leave_memory_and_it_is_seen_if_they_do_not(tmp_path: Path) -> None:
    """On a disk they do; in /dev/shm, which is memory, they cannot."""
    file = tmp_path / "file"
    file.write_bytes(os.urandom(4 << 20))
    shm = Path("/dev/shm") / f"gpuassay-test-{os.getpid()}"  # noqa: S108 - it is about memory
    try:
        shm.write_bytes(os.urandom(2 << 20))
        assert pagecache.evict([shm]) == 1.0
    finally:
        shm.unlink(missing_ok=True)
    if os.statvfs(tmp_path).f_fsid:
        assert pagecache.evict([file]) < 1.0


@pytest.mark.parametrize("ranks", [1, 2, 3, 8, 9, 72])
def test_half_as_many_ranks_share_evenly(ranks: int) -> None:
    """Whatever the number is, a tensor is divided without a rest, and stays near its size."""
    count = states.per_rank(1 << 26, 4, ranks)
    assert count * ranks % max(1, ranks // 2) == 0
    assert 0.99 < count * 4 * states.ELEMENT / (1 << 26) <= 1


def test_content_follows_from_its_place() -> None:
    """Any part of it can be made alone; no two are alike, and a changed bit is counted."""
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
    here = Device("cpu", "cpu", "x")
    whole = states.content(3, 0, 1000, here)
    assert torch.equal(whole[400:600], states.content(3, 400, 200, here))
    assert len(set(whole.tolist()) | set(states.content(2, 0, 1000, here).tolist())) == 2000
    whole[7] ^= 1
    assert states.changed(3, 0, whole, here) == 1
