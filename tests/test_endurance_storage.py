"""fio loads storage for long, for real at tiny size: each window kept; a loss is no noise."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuassay.enduring import Enduring
from gpuassay.facts import Node
from gpuassay.judge.catalog import load_catalog
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.services import Mount
from gpuassay.judge.site import undeclared
from gpuassay.measure.drift import last_of_first, lowest_of_median
from gpuassay.measure.sustained import SustainedLoad
from gpuassay.target.local import Local
from gpuassay.target.progress import Tally

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuassay.measure.sustained import Sustained
    from gpuassay.target import Job, Results

ROOT = Path(__file__).parents[1]
CATALOG = load_catalog(ROOT / "thresholds.toml", ROOT / "advisories.toml")
SUSTAINED = CATALOG.measurements["sustained_storage"]
real = pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed: apt-get install fio")
NODE = Local().declared()[0]


class Bench:
    """A load on folders of this machine, which stand in for mounts."""

    def __init__(self, folder: Path, seconds: float, mounts: int = 1) -> None:
        self.lines: list[str] = []
        self.jobs: list[Job] = []
        self.mounts = [folder / f"mount{number}" for number in range(mounts)]
        for one in self.mounts:
            one.mkdir(exist_ok=True)
        args = {**SUSTAINED.args, "size_mib": 4, "jobs": 2, "depth": 2, "most_error": 9.0}
        small = type(SUSTAINED)(SUSTAINED.name, "", args, 60.0, "load", SUSTAINED.workload)
        declared = [Mount(str(one), "scratch", shared=True) for one in self.mounts]
        kind = SustainedLoad()
        self.load = Enduring(folder / "run", small, kind, [Node(NODE, None)], declared, seconds)

    def run(self, heard: Callable[[str], None] = lambda _line: None) -> list[Sustained]:
        """Make what is left of it, and read all."""

        def show(line: str) -> None:
            self.lines.append(line)
            heard(line)

        def run(job: Job) -> Results:
            self.jobs.append(job)
            return Local().run(job, Tally(1, show))

        self.load.go(run)
        return list(self.load.read(undeclared(CATALOG)))

    @property
    def is_tidy(self) -> bool:
        """Whether nothing is left in the mounts."""
        return not any(list(one.iterdir()) for one in self.mounts)


def fake(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program of that name at the front of PATH."""
    tool = folder / "bin" / "fio"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo fio-9 && exit\n{body}\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")


def status(seconds: int, written: int, errors: int = 0) -> str:
    """Give what fio prints in between, as far as it is read."""
    flow = {"io_bytes": written, "runtime": 1000 * seconds}
    job = {"error": 0, "read": flow, "write": {"io_bytes": 0, "runtime": 1000 * seconds}}
    return json.dumps({"jobs": [{**job, "total_err": errors, "first_error": 5 * bool(errors)}]}, indent=2)


@real
def test_a_load_is_kept_up_in_each_mount_window_by_window(tmp_path: Path) -> None:
    """The real tool in two mounts, one after the other: all windows, no error, heard of, and tidied up."""
    bench = Bench(tmp_path, 10.0, mounts=2)
    found = bench.run()

    assert [one.mount.path for one in found] == [str(one) for one in bench.mounts]
    assert len(bench.jobs) == 2
    for one in found:
        assert isinstance(one.minutes, Read), one.minutes
        assert one.minutes.value >= 0.15
        assert one.whole == Read(value=True, evidence=one.row.evidence)
        assert one.errors == Read(0, one.errors.evidence)
        assert isinstance(one.last_of_first, Read), one.last_of_first
        assert isinstance(one.all_gbps, Read)
        assert len(one.all_gbps.value) >= 8
        assert one.of_fastest.value == 1.0  # type: ignore[union-attr]
        assert "% full" in one.at["volume"]
    assert any("window 3: " in line and "GB/s" in line for line in bench.lines)
    assert bench.is_tidy
    assert bench.load.is_over


@real
def test_what_was_cut_is_kept_and_the_mount_is_loaded_anew(tmp_path: Path) -> None:
    """Ctrl-C in the third window: those before are in the recording; taken up again, it is made whole."""
    bench = Bench(tmp_path, 9.0)

    def interrupt(line: str) -> None:
        if "window 3" in line:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        bench.run(interrupt)
    assert bench.is_tidy
    (cut,) = bench.load.read(undeclared(CATALOG))
    assert isinstance(cut.minutes, Read)
    assert isinstance(cut.whole, Read)
    assert cut.whole.value is False
    assert "it was cut by who started it" in cut.whole.note
    assert bench.load.left_s(str(bench.mounts[0])) == 9.0

    again = Bench(tmp_path, 60.0)  # what was asked for first stands
    (whole,) = again.run()
    assert len(again.jobs) == 1
    assert whole.whole.value is True  # type: ignore[union-attr]
    assert again.load.is_over


def test_operations_that_fail_are_counted_and_the_first_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fio goes on after an error, and its count is judged."""
    documents = "\n".join(status(at, at * 10**9, errors=3 * (at > 4)) for at in range(1, 10))
    (tmp_path / "said").write_text(documents + "\n")
    fake(tmp_path, f'case "$*" in *time_based*) cat {tmp_path}/said;; esac', monkeypatch)
    (found,) = Bench(tmp_path, 9.0).run()

    assert found.errors.value == 3  # type: ignore[union-attr]
    assert "errno 5" in found.errors.note  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "echo 'fio: pid=1, err=28/file:x, func=xfer, error=No space left on device' >&2; exit 1",
            "No space",
        ),
        ('case "$*" in *time_based*) echo "fio: engine libaio not loadable" >&2; exit 1;; esac', "libaio"),
    ],
)
def test_a_tool_that_breaks_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, words: str
) -> None:
    """While files are laid out, or after: nothing was measured, and its own words say why."""
    fake(tmp_path, body, monkeypatch)
    bench = Bench(tmp_path, 9.0)
    (found,) = bench.run()

    for fact in (found.last_of_first, found.stalled_s, found.errors, found.whole, found.of_fastest):
        assert isinstance(fact, Unread)
        assert words in fact.why
    assert bench.load.is_over, "it came to its end, and is not made again"


def test_without_the_tool_it_is_said_how_to_get_it(tmp_path: Path) -> None:
    """In the last line of the journal; and no folder was made."""
    job = SustainedLoad().job("x", SUSTAINED.args, [Node("n1", None)], str(tmp_path), 9.0)
    done = subprocess.run(
        [sys.executable, *job.argv[1:]],
        input=job.feed,
        check=False,
        capture_output=True,
        env={"PATH": str(tmp_path)},
    )

    assert done.returncode == 127
    assert "apt-get install fio" in json.loads(done.stdout)["broken"]
    assert not list(tmp_path.iterdir())


def test_all_nodes_together_leave_most_of_the_free_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each node is told how many share the store, and takes its part of a fifth of what is free."""
    fake(tmp_path, f'echo "$*" >> {tmp_path}/asked; exit 1', monkeypatch)
    args = {**SUSTAINED.args, "size_mib": 1 << 40}
    nodes = [Node(f"n{number}", None) for number in range(64)]
    job = SustainedLoad().job("x", args, nodes, str(tmp_path), 9.0)
    subprocess.run([sys.executable, *job.argv[1:]], input=job.feed, check=False, stdout=subprocess.DEVNULL)
    asked = re.search(r"--size=(\d+)m", (tmp_path / "asked").read_text())

    assert asked
    whole = int(asked[1]) * (1 << 20) * int(args["jobs"]) * len(nodes)
    assert 0.1 < whole / shutil.disk_usage(tmp_path).free < 0.21


def noisy(count: int, spread: float, seed: int, loss: Callable[[float], float]) -> list[float]:
    """Give windows around one, each off by so much, of which something is lost over time."""
    dice = random.Random(seed)  # noqa: S311 - made up
    return [max(0.0, dice.gauss(1.0, spread)) * (1 - loss(at / count)) for at in range(count)]


@pytest.mark.parametrize("count", [12, 60, 360])
def test_noise_is_no_loss_and_a_loss_of_40_percent_is_never_noise(count: int) -> None:
    """For a hundred seeds: what scatters by a tenth never fails, and a loss always does."""
    for seed in range(100):
        steady = last_of_first(noisy(count, 0.05, seed, lambda _: 0.0), 0.1)
        sudden = last_of_first(noisy(count, 0.05, seed, lambda at: 0.4 * (at > 0.3)), 0.1)
        slowly = last_of_first(noisy(count, 0.05, seed, lambda at: min(0.4, 0.5 * at)), 0.1)
        if isinstance(steady, Read):
            assert 0.8 < steady.value < 1.25
        for lossy in (sudden, slowly):
            assert isinstance(lossy, Unread) or lossy.value < 0.8


def test_a_single_bad_window_counts_for_nothing_and_a_wild_store_is_inconclusive() -> None:
    """A median goes by what is usual; where nothing is, no share is told."""
    rates = [5.0, 0.1, 5.1, *[5.0] * 20, 5.1, 0.0, 5.0]

    assert last_of_first(rates, 0.05).value == 1.0  # type: ignore[union-attr]
    wild = last_of_first(noisy(60, 0.6, 1, lambda _: 0.0), 0.05)
    assert isinstance(wild, Unread)
    assert "inconclusive" in wild.why


def test_too_few_windows_tell_nothing_and_a_dip_is_found_wherever_it_lies() -> None:
    """A drift takes a begin and an end; a dip between them leaves both as they were."""
    dip = [*[4.0] * 30, *[1.0] * 8, *[4.0] * 30]

    assert isinstance(last_of_first([1.0] * 7, 0.05), Unread)
    assert last_of_first(dip, 0.05).value == 1.0  # type: ignore[union-attr]
    assert lowest_of_median(dip).value == 0.25  # type: ignore[union-attr]
