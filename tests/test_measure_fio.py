"""fio is run for real at tiny size, cleans up however it ends, and is read whatever it printed."""

from __future__ import annotations

import json
import os
import shutil
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
from gpuassay.measure.fio import FIO, FioVolume
from gpuassay.measure.fio_points import points
from gpuassay.measure.fio_printed import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.judge.fact import Scalar

SAMPLES = Path(os.environ.get("GPUASSAY_SAMPLES", Path(__file__).parents[2] / "shared"))
CAPTURES = SAMPLES / "captures" / "fio"
ARGS: dict[str, Scalar] = {
    "nodes": "one",
    "mounts": "all",
    "pattern": "read randwrite",
    "block": "4k",
    "depth": "1 2",
    "jobs": "1",
    "repeats": 1,
    "size_mib": 1,
    "seconds": 1,
    "ramp": 0,
    "noise": 0.9,
}
real = pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
samples = pytest.mark.skipif(not CAPTURES.exists(), reason="no samples here: set GPUASSAY_SAMPLES")


def start(mounts: list[Path], path: str = os.environ["PATH"], **args: Scalar) -> subprocess.Popen[bytes]:
    """Start the node's part, in these folders."""
    order = FIO.order({**ARGS, **args}, [Mount(str(one), "scratch", shared=True) for one in mounts])
    command = [sys.executable, *errand.ARGV[1:]]
    environment = {"PATH": path, "HOME": "/nowhere"}
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    assert process.stdin
    process.stdin.write(errand.pack(order, "disk"))
    process.stdin.close()
    process.stdin = None
    return process


def volume(document: Mapping[str, Any], mount: Path, args: Mapping[str, Scalar] = ARGS) -> FioVolume:
    """Read the mount of a document as a check would."""
    told = Record(document, "m#1")
    beside: list[Any] = []
    row = next(Record(row, "m#1") for row in document["rows"] if row["mount"] == str(mount))
    made = FioVolume("n1", Mount(str(mount), "scratch", shared=True), (), told, row, args, beside)
    beside.append(made)
    return made


def fake(folder: Path, body: str) -> str:
    """Put a program of that name at the front of PATH."""
    tool = folder / "fio"
    tool.write_text(f"#!/bin/sh\n{body}\n")
    tool.chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def capture(name: str) -> str:
    """Read a capture."""
    return (CAPTURES / name).read_text(encoding="utf-8")


@real
def test_fio_measures_a_folder_and_leaves_nothing(tmp_path: Path) -> None:
    """The real tool, a real file system: figures, checksums that hold, and the mount as empty as before."""
    out, err = start([tmp_path]).communicate()
    document = json.loads(out)
    found = volume(document, tmp_path)

    assert document["version"].startswith("fio-3"), err
    assert list(tmp_path.iterdir()) == []
    assert found.corrupt == Read(0, "m#1")
    assert found.short == Read(0, "m#1")
    assert {len(found.points), len(document["rows"][0]["runs"])} == {4}
    if document["rows"][0]["direct"]:
        assert all(isinstance(point.gbps, Read) and point.gbps.value > 0 for point in found.points)
        assert isinstance(found.read_gbps, Read)
        assert "% full" in found.at["volume"]
    else:
        assert isinstance(found.read_gbps, Unread)
        assert "O_DIRECT" in found.read_gbps.why


def test_a_mount_that_is_not_there_says_so_and_the_others_are_measured(tmp_path: Path) -> None:
    """Each mount has a row of its own."""
    path = fake(tmp_path, 'echo "fio-9"')
    (tmp_path / "there").mkdir()
    out, _ = start([tmp_path / "gone", tmp_path / "there"], path).communicate()
    rows = json.loads(out)["rows"]

    assert [row["status"] for row in rows] == ["denied", "ok"]
    assert "No such file or directory" in rows[0]["why"]
    assert isinstance(volume(json.loads(out), tmp_path / "gone").read_gbps, Unread)


def test_a_missing_tool_says_how_to_get_it(tmp_path: Path) -> None:
    """The document is a reason, and no folder was made."""
    (tmp_path / "mount").mkdir()
    process = start([tmp_path / "mount"], str(tmp_path))
    out, _ = process.communicate()

    assert process.returncode == 127
    assert "apt-get install fio" in json.loads(out)["failed"]
    assert list((tmp_path / "mount").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_what_ends_it_does_not_leave_its_folder(tmp_path: Path, number: signal.Signals) -> None:
    """As the launcher does when the suite is interrupted or killed."""
    mount = tmp_path / "mount"
    mount.mkdir()
    os.mkfifo(tmp_path / "begun")
    path = fake(tmp_path, f'[ "$1" = --version ] && echo fio-9 && exit\necho > {tmp_path}/begun\nsleep 600')
    process = start([mount], path)
    (tmp_path / "begun").read_bytes()  # until the tool has begun
    assert list(mount.iterdir())
    process.send_signal(number)
    process.communicate()

    assert process.returncode == 128 + number
    assert list(mount.iterdir()) == []


def test_what_was_killed_outright_is_removed_by_the_next(tmp_path: Path) -> None:
    """Its process is gone, and its folder bears the name of this host."""
    mount = tmp_path / "mount"
    mount.mkdir()
    os.mkfifo(tmp_path / "begun")
    path = fake(tmp_path, f'[ "$1" = --version ] && echo fio-9 && exit\necho > {tmp_path}/begun\nsleep 600')
    process = start([mount], path)
    (tmp_path / "begun").read_bytes()
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    left = list(mount.iterdir())
    start([mount], fake(tmp_path, "echo fio-9")).communicate()

    assert len(left) == 1
    assert list(mount.iterdir()) == []


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("exit 3", "fio printed no document"),
        ('echo "{\\"jobs\\": [{\\"jobname\\": "', "fio printed no document"),
        ('echo "{\\"jobs\\": []}"', "has no jobs"),
        (
            'echo "{\\"jobs\\": [{\\"error\\": 0, \\"read\\": {\\"bw_bytes\\": \\"NaN\\"}}]}"',
            "no bytes a second",
        ),
        ('echo "{\\"jobs\\": [{\\"read\\": {}}]}"', "does not say whether it ended well"),
        ("echo fio: engine libaio not loadable >&2; exit 1", "engine libaio not loadable"),
    ],
)
def test_a_broken_tool_gives_no_figure(tmp_path: Path, body: str, why: str) -> None:
    """And the reason is what it said."""
    mount = tmp_path / "mount"
    mount.mkdir()
    out, _ = start([mount], fake(tmp_path, body)).communicate()
    document = json.loads(out)
    document["rows"][0]["direct"] = True  # the file system of the test is another matter
    found = volume(document, mount)

    for fact in (found.read_gbps, found.corrupt, found.short):
        assert isinstance(fact, Unread)
        assert why in fact.why


@samples
def test_rates_are_those_of_the_captures() -> None:
    """Bytes, not KiB; a mixed run both ways; clones added up."""
    mixed = parse(capture("fio-3.16_seq_rand.json"))
    (clones,) = parse(capture("multi-job-nogroup.json")).jobs

    assert mixed.version == "fio-3.16"
    assert mixed.jobs[0].read.bytes_per_s == 348743777
    assert mixed.jobs[0].write.iops == pytest.approx(85066.129, rel=1e-5)
    assert clones.write.bytes_per_s == 1198372571 + 3355443200 + 1290555076


@samples
def test_jobs_that_ran_apart_are_not_added_up() -> None:
    """Two jobs of other names may have run one after the other, and text may stand before the document."""
    first, second = parse(capture("twojobs.json")).jobs
    assert (first.read.bytes_per_s, second.write.bytes_per_s) == (1290555076, 4194304000)
    names = [job.name for job in parse(capture("fio-3.20_kubestr_4jobs.json")).jobs]
    assert names == ["read_iops", "write_iops"]


@samples
def test_of_several_documents_the_last_counts() -> None:
    """With an interval for its status, fio prints one after the other."""
    text = capture("status-interval.json")
    documents = text.split('"fio version"')
    (job,) = parse(text).jobs
    assert len(documents) > 2
    assert job.read.ios == max(int(part.split('"total_ios" : ')[1].split(",")[0]) for part in documents[1:])


@samples
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("err-enospc", "No space left on device"),
        ("err-badengine", "failed to load engine"),
        ("err-nodir", "failed parsing directory"),
        ("err-rdma", "error 1"),
        ("err-libcufile", "failed to load engine"),
        ("err-readmissing-ro", "refusing extend of file"),
        ("err-badoption", "fio printed no document"),
    ],
)
def test_what_failed_has_no_figures(name: str, why: str) -> None:
    """The reason is fio's own last word, wherever it was printed."""
    files = [CAPTURES / f"{name}.json", CAPTURES / f"{name}.json.stderr"]
    out, err = (path.read_text(encoding="utf-8") if path.exists() else "" for path in files)
    printed = parse(out, err)
    assert printed.jobs == []
    assert why in printed.problems[0]


@samples
@pytest.mark.parametrize("name", ["verify-corrupt", "verify-corrupt-fatal"])
def test_a_block_that_changed_is_counted(name: str) -> None:
    """Whether or not the run ended at it."""
    printed = parse(capture(f"{name}.json"), capture(f"{name}.json.stderr"))
    assert printed.corrupt == 1
    assert printed.jobs == []


@samples
def test_every_other_capture_has_figures() -> None:
    """Whatever engine, pattern or release; what is no JSON has none."""
    for path in sorted(CAPTURES.glob("*.json")):
        text = path.read_text(encoding="utf-8")
        whole = not path.name.startswith(("err-", "verify-", "http-"))
        assert bool(parse(text).jobs) is whole, path.name
    for name in ("normal.txt", "terse.txt"):
        assert parse(capture(name)).problems == ["fio printed no document"]


def test_old_units_and_clients_are_read() -> None:
    """Releases before 3 had KiB and microseconds alone; of clients, only their sum counts."""
    way = {"bw": 1000, "iops": 250.0, "clat": {"percentile": {"99.000000": 740}}}
    job = {"jobname": "a", "error": 0, "read": way}
    (old,) = parse({"fio version": "fio-2.21", "jobs": [job]}).jobs
    served = {"client_stats": [job, job, {**job, "jobname": "All clients"}]}

    assert (old.read.bytes_per_s, old.read.p99_us) == (1_024_000, 740)
    assert [job.name for job in parse(served).jobs] == ["All clients"]


def test_a_sweep_has_all_combinations_and_repeats_the_widest() -> None:
    """What sequential speed is told from is run again, apart from the first time."""
    made = points({**ARGS, "pattern": "read randread", "block": "4k 1m", "repeats": 3})["points"]
    again = [point for point in made if "repeat" in point]
    assert len(made) == 2 * 2 * 2 + 2
    assert {(point["pattern"], point["block"], point["depth"]) for point in again} == {("read", "1m", "2")}


@given(st.text(max_size=300), st.text(max_size=80))
def test_any_text_is_read_without_an_exception(out: str, err: str) -> None:
    """And no figure comes of it."""
    assert parse(out, err).problems


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["jobs", "error", "read", "bw", "iops", "clat_ns"]), inner, max_size=4
            )
        ),
        max_leaves=12,
    )
)
def test_any_document_is_read_without_an_exception(content: object) -> None:
    """Whatever stands where jobs, directions or rates should be; a figure is finite and not negative."""
    for key in ("jobs", "client_stats"):
        text = json.dumps({key: content})
        for job in parse(text).jobs:
            assert 0 <= job.read.bytes_per_s < float("inf")
