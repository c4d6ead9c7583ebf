"""The folder of a run, and the journal that survives whatever ends the run."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from gpuassay.evidence.files import RecordingError, write_atomic
from gpuassay.evidence.run import KILLED, Journal, RunFolder, read_journal

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 2, 9, 30, 5, tzinfo=UTC)
CONTEXT = {"schema": 1, "checks": {}}


def begun(folder: Path) -> Journal:
    """Begin a journal."""
    journal = Journal(folder / "journal.jsonl")
    journal.begin(CONTEXT)
    return journal


def test_default_folder_is_named_after_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that begin in one second get a private folder each, by its absolute path."""
    monkeypatch.chdir(tmp_path)
    first, second = RunFolder.create(None, NOW), RunFolder.create(None, NOW)
    assert first.path == tmp_path / "gpuassay-runs" / "20261102T093005Z"
    assert second.path == tmp_path / "gpuassay-runs" / "20261102T093005Z-2"
    assert {stat.S_IMODE(run.path.stat().st_mode) for run in (first, second)} == {0o700}


def test_a_given_folder_is_made_or_must_be_empty(tmp_path: Path) -> None:
    """``--run-dir`` may name a new or an empty folder; what is in another is never overwritten."""
    run = RunFolder.create(tmp_path / "new" / "run", NOW)
    assert RunFolder.create(tmp_path / "new" / "run", NOW) == run
    run.results.write_text("{}")
    with pytest.raises(RecordingError, match=r"new/run: not empty"):
        RunFolder.create(tmp_path / "new" / "run", NOW)
    with pytest.raises(RecordingError, match=r"results\.json: File exists"):
        RunFolder.create(run.results, NOW)


def test_every_file_has_its_place(tmp_path: Path) -> None:
    """The names of a run's files are those that its users rely on."""
    run = RunFolder(tmp_path)
    places = (run.recording, run.journal, run.results, run.junit, run.html, run.thresholds)
    assert [place.relative_to(tmp_path).as_posix() for place in places] == [
        "recording",
        "journal.jsonl",
        "results.json",
        "junit.xml",
        "report.html",
        "thresholds.effective.toml",
    ]


def test_seal_covers_the_whole_run(tmp_path: Path) -> None:
    """The sums of a run hold for everything in it, the recording's own seal included."""
    run = RunFolder.create(tmp_path / "run", NOW)
    run.recording.mkdir()
    (run.recording / "SHA256SUMS").write_text("seal")
    begun(run.path)
    run.seal()
    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"],
        cwd=run.path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert checked.stdout == "journal.jsonl: OK\nrecording/SHA256SUMS: OK\n"


def test_journal_reads_what_was_noted(tmp_path: Path) -> None:
    """Context, the last word on each check, and how the run ended."""
    journal = begun(tmp_path)
    journal.check("audit.health.ecc", {"verdict": "error"})
    journal.check("audit.health.ecc", {"verdict": "pass"})
    journal.check("audit.health.xid", {"verdict": "fail", "reason": "é\n"})
    journal.end("SIGTERM")
    record = read_journal(journal.path)
    assert (record.context, record.cut, record.problems) == (CONTEXT, "SIGTERM", ())
    assert record.checks == {
        "audit.health.ecc": {"verdict": "pass"},
        "audit.health.xid": {"verdict": "fail", "reason": "é\n"},
    }
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600


def test_a_finished_run_was_not_cut(tmp_path: Path) -> None:
    """Only a run that noted its end came to it."""
    journal = begun(tmp_path)
    assert read_journal(journal.path).cut == KILLED
    journal.end()
    assert read_journal(journal.path).cut == ""


def test_journal_survives_a_kill(tmp_path: Path) -> None:
    """After SIGKILL everything that was noted is there."""
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom gpuassay.evidence.run import Journal\n"
        "journal = Journal(Path(sys.argv[1]))\njournal.begin({})\njournal.check('a', {'verdict': 'pass'})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path = tmp_path / "journal.jsonl"
    ended = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert (read_journal(path).checks, read_journal(path).cut) == ({"a": {"verdict": "pass"}}, KILLED)


def test_each_line_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that dies keeps what was noted: each line is synchronised before the next."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    journal = begun(tmp_path)
    journal.end()
    sizes = [len(line) for line in journal.path.read_bytes().splitlines(keepends=True)]
    assert synced == [sizes[0], sum(sizes)]


def test_a_torn_line_spoils_only_itself(tmp_path: Path) -> None:
    """A line that a kill cut off is a problem; what a later run appends to the journal is whole."""
    journal = begun(tmp_path)
    journal.check("a", {"verdict": "pass"})
    with journal.path.open("ab") as file:
        file.write(b'{"kind":"check","id":"b","resu')
    torn = read_journal(journal.path)
    assert (list(torn.checks), torn.problems) == (["a"], ("journal.jsonl:3: cut off",))
    journal.check("c", {"verdict": "fail"})
    mended = read_journal(journal.path)
    assert (list(mended.checks), mended.problems) == (["a", "c"], ("journal.jsonl:3: not a JSON object",))


@pytest.mark.parametrize(
    "line",
    [
        {"kind": "mood"},
        {"kind": "check", "id": 5, "result": {}},
        {"kind": "check", "id": "a", "result": None},
        {"kind": "end"},
        {},
    ],
)
def test_a_strange_line_is_a_problem(tmp_path: Path, line: dict[str, Any]) -> None:
    """A line that is none of a journal's is told, and nothing is concluded from it."""
    journal = begun(tmp_path)
    with journal.path.open("a") as file:
        file.write(json.dumps(line) + "\n")
    record = read_journal(journal.path)
    assert record.problems == ("journal.jsonl:2: not a line of a journal",)
    assert (record.checks, record.cut) == ({}, KILLED)


@pytest.mark.parametrize("content", [None, b"", b"\xff\n", b'{"kind":"end","cut":""}\n'])
def test_what_is_no_journal(tmp_path: Path, content: bytes | None) -> None:
    """Without the line that says what the run was there is nothing to report on."""
    path = tmp_path / "journal.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RecordingError, match=r"journal\.jsonl: "):
        read_journal(path)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is replaced whole or stays as it was, with nothing left beside it."""
    path = tmp_path / "results.json"
    write_atomic(path, b"old")
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(RecordingError, match=r"results\.json: No space left on device"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
