"""MLPerf Storage's workloads: DLIO is run by a stand-in, and its summary read, whole or broken."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.facts.record import Record
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.services import Mount
from gpuassay.measure import errand
from gpuassay.measure.disk import dlio
from gpuassay.measure.disk.forgetting import forget
from gpuassay.measure.mlperf import MLPERF
from recorded.emulated import trained

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.judge.fact import Fact

# A dozen steps, whose data are planned to be small enough for any disk; a stand-in makes one file of them.
ARGS: dict[str, Any] = {
    "nodes": "one",
    "mounts": "all",
    "models": "cosmoflow",
    "accelerators": 1,
    "writers": 1,
    "seconds": 0.04,
}
DLIO = """
import json, pathlib, sys, time
told = dict(word.lstrip("+").split("=", 1) for word in sys.argv[1:])
at = lambda key: pathlib.Path(told["workload." + key])
at("output.folder").mkdir(parents=True, exist_ok=True)
if told["workload.workflow.generate_data"] == "True":
    (at("dataset.data_folder") / "train").mkdir(parents=True)
    (at("dataset.data_folder") / "train" / "img_0.npz").write_bytes(b"x" * 100_000)
    MADE
else:
    summary = {"start": "9999-01-01T00:00:00.000000", "end": "9999-01-01T00:00:09.000000"}
    summary["num_accelerators"] = 1
    summary["num_files_train"] = int(told["workload.dataset.num_files_train"])
    summary["potential_caching"] = [1]
    summary["metric"] = {
        "train_au_percentage": [97.0], "train_au_mean_percentage": 97.0,
        "train_throughput_mean_samples_per_second": 21.0, "train_io_mean_MB_per_second": 2936.0,
    }
    (at("output.folder") / "summary.json").write_text(json.dumps(summary))
    TRAINED
"""


@pytest.fixture
def small(tmp_path: Path) -> tuple[Path, Path]:
    """Give a folder for programs, and a mount."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "mount").mkdir()
    return tmp_path / "bin", tmp_path / "mount"


def stand_in(bin_: Path, made: str = "pass", trained: str = "pass") -> str:
    """Put a DLIO there that does this at the end of each phase; gives a PATH."""
    tool = bin_ / "dlio_benchmark"
    text = DLIO.replace("MADE", made).replace("TRAINED", trained)
    tool.write_text(f"#!{sys.executable}\n{text}")
    tool.chmod(0o755)
    return str(bin_)


def started(path: str, mount: Path) -> subprocess.Popen[bytes]:
    """Start the node's part in one mount."""
    order = MLPERF.order(ARGS, [Mount(str(mount), "scratch", shared=True)])
    feed = errand.pack(order, "disk")
    program = [sys.executable, *errand.ARGV[1:]]
    child = subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={"PATH": path}
    )
    assert child.stdin
    child.stdin.write(feed)
    child.stdin.close()
    child.stdin = None
    return child


def document(path: str, mount: Path) -> dict[str, Any]:
    """Run it to its end, and give what it printed."""
    out, _ = started(path, mount).communicate(timeout=60)
    told: dict[str, Any] = json.loads(out)
    return told


def au(told: Mapping[str, Any], model: str = "cosmoflow") -> Fact[float]:
    """Read it as the check would."""
    mount = Mount("/x", "scratch", shared=True)
    row = Record(told["rows"][0], "m#1")
    fact: Fact[float] = getattr(
        MLPERF.subject("n1", mount, (), Record(told, "m#1"), row, ARGS), f"{model}_au"
    )
    return fact


def recorded(*changes: tuple[str, Any], **summary: Any) -> dict[str, Any]:
    """Give a healthy run of CosmoFlow with changes: of what the node kept, and of the summary."""
    row = {"mount": "/x", "status": "ok", **trained(ARGS)}
    run = row["runs"][0]
    told = json.loads(run["summary"])
    for key, value in summary.items():
        (told["metric"] if key.startswith("train_") else told)[key] = value
    run |= {"summary": json.dumps({key: value for key, value in told.items() if value is not None})}
    run |= dict(changes)
    return {"rows": [row]}


def why(fact: Fact[float]) -> str:
    """Give the reason for which there is no figure."""
    assert isinstance(fact, Unread), fact
    return fact.why


def test_a_healthy_summary_gives_the_share_of_time() -> None:
    """As a share, with samples and GB/s beside it: DLIO's MB are MiB."""
    fact = au(recorded(train_io_mean_MB_per_second=1000.0))
    assert isinstance(fact, Read)
    assert fact.value == pytest.approx(0.882)
    assert "1.05 GB/s" in fact.note


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (recorded(("exit", 1), ("err", "ValueError: bad\n-----\n")), "ended with 1: ValueError: bad"),
        (recorded(("exit", -9)), "ended with -9"),
        (recorded(("timed_out", 1200)), "did not end within 1200 s"),
        (recorded(("made", {"exit": 1, "out": "", "err": "no space"})), "data were not made"),
        (recorded(("summary", {"unread": "failed"})), "no summary"),
        (recorded(("summary", "")), "cannot be read"),
        (recorded(("summary", "note\n{}")), "cannot be read"),
        (recorded(("summary", "[1]")), "no object"),
        (recorded(("summary", '{"start": "2026')), "cannot be read"),
        (recorded(end=None), "no end was recorded"),
        (recorded(metric={}), "no figure above 0"),
        (recorded(start="2026-11-29T08:00:00.000000"), "of an earlier run"),
        (recorded(num_accelerators=8), "another run: num_accelerators"),
        (recorded(num_files_train=7), "another run: num_files_train"),
        (recorded(train_au_mean_percentage=float("nan")), "no figure above 0"),
        (recorded(train_au_mean_percentage="97.1"), "no figure above 0"),
        (recorded(train_io_mean_MB_per_second=float("inf")), "no figure above 0"),
        (recorded(train_au_percentage=[40.0]), "mean is not that"),
        (recorded(train_au_percentage=[]), "mean is not that"),
        (recorded(train_au_percentage=[130.0], train_au_mean_percentage=130.0), "130 % of the time"),
    ],
)
def test_a_summary_that_does_not_count_gives_no_figure(told: dict[str, Any], said: str) -> None:
    """Whatever the status says, and whatever a figure in it may be; the reason is told."""
    assert said in why(au(told))


def test_success_of_cached_data_is_none() -> None:
    """DLIO says success beside its own word that memory may hold the data: that is not judged."""
    said = why(au(recorded(("cold", 0.4), train_au_meet_expectation="success")))
    assert "may be cached" in said
    assert "60% of them still were, although DLIO says success" in said


@pytest.mark.parametrize("cold", [float("nan"), "1.0", True, None])
def test_what_was_dropped_from_memory_must_be_known(cold: object) -> None:
    """Where it is not, as little is taken to be gone as can be."""
    assert "an unknown share" in why(au(recorded(("cold", cold))))


@pytest.mark.parametrize(
    ("times", "potential", "judged"), [(5.1, [0], True), (4.9, [0], False), (5.1, [1], False)]
)
def test_five_times_the_memory_is_not_cached(times: float, potential: list[int], *, judged: bool) -> None:
    """By the rules of MLPerf Storage, where DLIO does not contradict."""
    told = recorded(("cold", 0.0), potential_caching=potential)
    told["rows"][0]["memory"] = told["rows"][0]["runs"][0]["bytes"] / times
    assert isinstance(au(told), Read) is judged


def test_a_model_that_was_not_run_has_no_figure() -> None:
    """Nor has one in a mount that could not be written to."""
    assert "unet3d is not among its runs" in why(au(recorded(), "unet3d"))
    assert "read-only" in why(au({"rows": [{"mount": "/x", "status": "denied", "why": "read-only"}]}))


@given(st.text(max_size=200))
def test_any_summary_is_read_without_an_exception(text: str) -> None:
    """And no figure comes of it."""
    assert isinstance(au(recorded(("summary", text))), Unread)


def test_a_missing_tool_says_how_to_get_it(small: tuple[Path, Path]) -> None:
    """And that it needs an MPI."""
    bin_, mount = small
    failed = document(str(bin_), mount)["failed"]
    assert "mlpstorage" in failed
    assert "MPI" in failed


def test_a_stand_in_is_run_and_its_command_kept(small: tuple[Path, Path]) -> None:
    """Data are made first, into a folder that is gone afterwards; one epoch, parameters as overrides."""
    bin_, mount = small
    run = document(stand_in(bin_), mount)["rows"][0]["runs"][0]
    words = run["command"]
    assert words[:2] == [str(bin_ / "dlio_benchmark"), "workload=cosmoflow_h100"]
    assert {"++workload.train.epochs=1", "++workload.workflow.generate_data=False"} <= {*words}
    assert "++workload.workflow.generate_data=True" in run["made"]["command"]
    assert json.loads(run["summary"])["metric"]["train_au_mean_percentage"] == 97.0
    assert list(mount.iterdir()) == []


@pytest.mark.parametrize(
    ("made", "trained", "said"),
    [
        ("sys.exit('disk full')", "pass", "data were not made: it ended with 1: disk full"),
        ("pass", "sys.exit(3)", "it ended with 3"),
        ("pass", "(at('output.folder') / 'summary.json').unlink()", "no summary"),
        ("pass", "(at('output.folder') / 'summary.json').write_text('{')", "cannot be read"),
    ],
)
def test_a_broken_stand_in_gives_no_figure(
    made: str, trained: str, said: str, small: tuple[Path, Path]
) -> None:
    """Whether it dies while it makes data, after its summary, or writes none."""
    bin_, mount = small
    assert said in why(au(document(stand_in(bin_, made, trained), mount)))
    assert list(mount.iterdir()) == []


def test_ctrl_c_removes_the_data_and_ends_what_it_left(small: tuple[Path, Path]) -> None:
    """Also a loader that DLIO had started, and that would go on writing."""
    bin_, mount = small
    loader = "import subprocess; child = subprocess.Popen(['/bin/sleep', '600']); "
    told = bin_ / "loader"
    os.mkfifo(told)
    path = stand_in(bin_, made=f"{loader}open({str(told)!r}, 'w').write(str(child.pid)); time.sleep(600)")
    child = started(path, mount)
    pid = int(told.read_text())
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=60)
    assert child.returncode == 128 + signal.SIGINT
    assert list(mount.iterdir()) == []
    assert not Path(f"/proc/{pid}").exists()


def test_what_is_dropped_from_memory_is_counted(tmp_path: Path) -> None:
    """Files just written are in memory; what is gone afterwards is a share, and of nothing it is 0."""
    (tmp_path / "a").write_bytes(b"x" * 1_000_000)
    (tmp_path / "empty").touch()
    assert 0 <= forget([tmp_path / "a", tmp_path / "empty"]) <= 1
    assert forget([]) == 0


def test_the_version_is_that_of_the_package(tmp_path: Path) -> None:
    """DLIO's own option tells Hydra's; where the program is no script of a Python, none is told."""
    tool = tmp_path / "dlio_benchmark"
    tool.write_text("#!/bin/sh\n")
    assert dlio.version(str(tool)) == ""
    (tmp_path / "python3").write_text("#!/bin/sh\necho DLIO 2.0.0\n")
    (tmp_path / "python3").chmod(0o755)
    tool.write_text(f"#!{tmp_path}/python3\n")
    assert dlio.version(str(tool)) == "DLIO 2.0.0"
