"""The controller of a burn-in is killed in the middle of a segment, and the run is taken up again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from burning_on_slurm import RANKS, ROOT, argv, beats_aside, cluster, results, row
from gpuassay.evidence.sums import check_sums
from gpuassay.measure.work.burn_in import FLIP
from nodes import needs
from slurmd import needs_slurm
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.timeout(300)
pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")

LENGTH = "30s"
_PATIENCE_S = 120.0


def kept(run: Path, node: str) -> list[dict[str, Any]]:
    """Give what is recorded of the burn-in on a node, with the beats of each rank of each segment."""
    file = run / "recording" / "measure" / "burn_in" / f"{node}.jsonl"
    items = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for item in items:
        lines = [json.loads(line) for line in item.get("out", "").splitlines()]
        item["beats"] = [line for line in lines if line["line"] == "beat"]
    return items


def assert_taken_up(run: Path, nodes: tuple[str, ...], heard: int, seconds: float) -> None:
    """Each rank has two segments, the first one cut; what it had told is there, and its time counts once."""
    items = [item for node in nodes for item in kept(run, node)]
    first, second = ([item for item in items if item["asked"]["segment"] == number] for number in (1, 2))
    assert len(first) == len(second) == len(items) / 2
    assert len({item["id"] for item in items}) * len(nodes) == len(items), "something is there twice"
    assert all(item["asked"].get("cut") is True and len(item["beats"]) >= heard for item in first)
    burnt = min(sum(beat["span"] for beat in item["beats"]) for item in first)
    assert {round(item["asked"]["seconds"], 3) for item in second} == {round(seconds - burnt, 3)}
    assert all(item["status"] == "ok" and "cut" not in item["asked"] for item in second)
    assert not (run / "heard").exists()


def assert_told(found: dict[str, Any], ranks: tuple[str, ...]) -> None:
    """All came through, for as long as was asked, and the gap is told with the segment before it."""
    for where in ranks:
        assert row(found, "alive", "alive", where)["value"] is True
    assert row(found, "length", "whole", "")["value"] is True
    gap = next(
        one
        for one in found["checks"]["reliability.burn_in.length"]["observations"]
        if one["metric"] == "gap_s"
    )
    assert gap["value"] > 0


def children(pid: int) -> set[int]:
    """Give what a process has started."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return {int(word) for file in files for word in file.read_text(encoding="ascii").split()}


def descendants(pid: int) -> set[int]:
    """Give all that a process has started, and that these have."""
    own = children(pid)
    return own.union(*map(descendants, own))


def assert_ended(ranks: set[int]) -> None:
    """All of them end within the time that is allowed to a whole run's end."""
    wait_until(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in ranks), "they outlived their controller"
    )


def said_of(run: Path) -> Path:
    """Give the file for what a run prints: beside the disk that its folder is on."""
    return run.parent.with_suffix(".said")


@contextmanager
def begun(
    words: list[str], run: Path, start: Callable[..., subprocess.Popen[bytes]]
) -> Iterator[subprocess.Popen[bytes]]:
    """Begin a burn-in, and give it once a beat of each rank was heard."""
    with said_of(run).open("wb") as said:
        process = start(*words, stdout=said, stderr=said)
    try:
        wait_until(lambda: beats_aside(run) >= 1, "not one beat of each rank was heard", _PATIENCE_S)
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def local(*more: str) -> list[str]:
    """Give the command that burns in this machine."""
    words = [str(ROOT / "tests_reliability" / "test_burn_in.py"), "-c", str(ROOT / "pyproject.toml")]
    how = ["--target=local", "--allow=load", f"--burn-in={LENGTH}", "-k", "alive or length", *more]
    return [sys.executable, "-m", "pytest", *words, *how, "-p", "no:cacheprovider"]


def test_on_this_machine_the_ranks_end_with_it_and_the_next_one_goes_on(tmp_path: Path) -> None:
    """By kill -9 in the middle of a segment."""
    run = tmp_path / "run"
    with begun(local(f"--run-dir={run}"), run, started) as process:
        ranks = descendants(process.pid)
        heard = beats_aside(run)
        process.kill()
        process.wait()
    assert len(ranks) >= 3, "a launcher and two ranks"
    assert_ended(ranks)

    done = subprocess.run(local(f"--resume={run}"), capture_output=True, text=True, check=False)
    assert (run / "results.json").exists(), done.stdout + done.stderr
    (file,) = (run / "recording" / "measure" / "burn_in").glob("*.jsonl")
    assert_taken_up(run, (file.stem,), heard, 30.0)
    assert_told(results(tmp_path), (f"{file.stem}/cpu0", f"{file.stem}/cpu1"))


def started(*words: str, **how: Any) -> subprocess.Popen[bytes]:
    """Start a command on this machine."""
    return subprocess.Popen(words, **how)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_stops_it_loses_nothing_that_was_heard(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C, or a scheduler's SIGTERM: its beats are in the recording, which is sealed; no rank runs on."""
    run = tmp_path / "run"
    with begun(local(f"--run-dir={run}"), run, started) as process:
        ranks, heard = descendants(process.pid), beats_aside(run)
        process.send_signal(number)
        assert process.wait(timeout=_PATIENCE_S) == pytest.ExitCode.INTERRUPTED
    assert_ended(ranks)

    (file,) = (run / "recording" / "measure" / "burn_in").glob("*.jsonl")
    items = kept(run, file.stem)
    assert [item["id"] for item in items] == ["burn_in/1/0", "burn_in/1/1"]
    assert all(item["asked"]["cut"] is True and len(item["beats"]) >= heard for item in items)
    assert not (run / "heard").exists()
    assert check_sums(run / "recording").seal == "sealed"
    assert results(tmp_path)["checks"]["reliability.burn_in.alive"]["reason"] == "the run was interrupted"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of few megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "disk", str(place)], check=True)
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(folder: Path) -> Path:
    """Leave not a byte on the disk of a folder; gives what takes all of it."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return filler


@needs("mount", "umount")
def test_a_full_disk_ends_it_and_loses_nothing_that_was_heard(small_disk: Path) -> None:
    """It says where, no rank runs on; with room again the next run goes on from there."""
    run = small_disk / "run"
    with begun(local(f"--run-dir={run}"), run, started) as process:
        ranks, heard = descendants(process.pid), beats_aside(run)
        filler = fill(small_disk)
        # Whether the reports find room decides which.
        ends = (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERNAL_ERROR)
        assert process.wait(timeout=_PATIENCE_S) in ends
    assert_ended(ranks)
    assert "No space left on device" in said_of(run).read_text(encoding="utf-8")
    filler.unlink()

    done = subprocess.run(local(f"--resume={run}"), capture_output=True, text=True, check=False)
    assert (run / "results.json").exists(), done.stdout + done.stderr
    (file,) = (run / "recording" / "measure" / "burn_in").glob("*.jsonl")
    assert_taken_up(run, (file.stem,), heard, 30.0)
    assert_told(results(small_disk), (f"{file.stem}/cpu0", f"{file.stem}/cpu1"))


@needs("nsenter", "ip")
@needs_slurm()
def test_over_slurm_its_job_is_found_and_ended_and_a_bit_that_was_wrong_stays_wrong(tmp_path: Path) -> None:
    """By kill -9; the allocation, which nobody would have ended for an hour, goes first."""
    run = tmp_path / "run"
    with cluster(tmp_path) as slurm:
        spoilt = {**slurm.environment, FLIP: "1:1"}

        def start(*words: str, **how: Any) -> subprocess.Popen[bytes]:
            return slurm.rack["login"].start(*words, env=spoilt, **how)

        again = argv(tmp_path, LENGTH, f"--resume={run}")
        with begun(argv(tmp_path, LENGTH, f"--run-dir={run}"), run, start) as process:
            heard = beats_aside(run)
            refused = slurm.rack["login"].run(*again, env=slurm.environment, check=False)
            (controller,) = children(process.pid)  # of nsenter
            os.kill(controller, signal.SIGKILL)
            process.wait()
        assert "another process is at work in it" in refused.stderr
        assert len(slurm.jobs()) == 1, "nobody was there to end its job"

        done = slurm.rack["login"].run(*again, env=slurm.environment, check=False)
        assert (run / "results.json").exists(), done.stdout + done.stderr
        slurm.assert_nothing_runs()

    found = results(tmp_path)
    assert_taken_up(run, ("n1", "n2"), heard, 30.0)
    assert_told(found, RANKS)
    ill = row(found, "bits", "wrong_tiles", "n1/cpu1")
    assert (ill["value"], ill["verdict"]) == (1, "fail"), "what was found before the kill is lost"
    assert '"ended":"job ' in (run / "progress.jsonl").read_text(encoding="utf-8")
