"""Runs that end badly: signals, kills, crashed workers, full disks. What was finished is kept."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gpuassay.cli import main
from judging import table
from plugging import FLEET, OBSERVE, QUICK, Run, audit, check, more, pytest_process, read_results, write_suite

if TYPE_CHECKING:
    from pathlib import Path

pytest_plugins = ["pytester"]

TARGET = f"--target=recording:{FLEET}"
WAITS = """
with open("waiting", "w") as pipe:
    pipe.write("here")
signal.pause()
"""
"""What comes through the pipe tells a test that the check is at work: nobody has to sleep."""


def waiting_suite(root: Path) -> None:
    """Write a suite of three checks, of which the second waits for ever."""
    files = {"a": "import signal" + check() + check(WAITS, "c") + check(OBSERVE, "d")}
    write_suite(root, files, more("c", "d"))
    os.mkfifo(root / "waiting")


def wait_for(pipe: Path) -> None:
    """Wait until something comes through a named pipe, but not for ever."""
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    assert poll.poll(60_000), "the check has not begun"
    os.close(descriptor)


def signalled(root: Path, number: signal.Signals) -> Run:
    """Send a signal to a run while its second check is at work."""
    waiting_suite(root)
    words = [sys.executable, "-m", "pytest", *QUICK, TARGET, f"--run-dir={root / 'run'}", "tests_audit"]
    with subprocess.Popen(
        words, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        wait_for(root / "waiting")
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
    return Run(process.returncode, output, root / "run")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_reports_what_was_finished(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C and a scheduler's SIGTERM are one: exit status 2, every report, sums over all of it."""
    run = signalled(tmp_path, number)

    assert run.status == 2
    assert list(run.verdicts.values()) == ["pass", "not_run", "not_run"]
    assert run.reason("audit.a.c") == run.reason("audit.a.d") == "the run was interrupted"
    assert run.results["tier"]["won"] is None
    assert {path.name for path in run.folder.iterdir()} == {
        "SHA256SUMS",
        "journal.jsonl",
        "junit.xml",
        "report.html",
        "results.json",
        "thresholds.effective.toml",
    }


def test_a_killed_run_is_reported_from_its_journal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After kill -9 there is no report, and `gpuassay report` makes it; what was finished is in it."""
    run = signalled(tmp_path, signal.SIGKILL)
    assert not (run.folder / "results.json").exists()

    assert main(["report", str(run.folder)]) == 0
    assert list(run.verdicts.values()) == ["pass", "not_run", "not_run"]
    assert run.reason("audit.a.c") == "the run was killed"
    assert run.results["tier"]["won"] is None
    assert capsys.readouterr().out.strip() == str(run.folder / "report.html")
    assert (run.folder / "SHA256SUMS").is_file()


def test_a_half_written_line_is_told_and_spoils_only_itself(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """A journal that was cut in a line gives all that stands before it."""
    write_suite(pytester.path, {"a": check() + check(OBSERVE, "c")}, more("c"))
    run = audit(pytester)
    journal = run.folder / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:2]) + lines[2][:40])

    assert main(["report", str(run.folder)]) == 0
    assert list(run.verdicts.values()) == ["pass", "not_run"]
    assert "journal.jsonl:3" in capsys.readouterr().err


def test_a_worker_that_dies_is_an_error_of_its_check(tmp_path: Path) -> None:
    """Under -n the others are judged, and the one that took its process with it is not forgotten.

    What a worker has to say reaches the controller, though it be no text that can be sent.
    """
    odd = "raise ValueError('\\udc80')"
    files = {"a": "import os" + check() + check(f"{OBSERVE}\nos._exit(0)", "c") + check(odd, "d")}
    write_suite(tmp_path, files, more("c", "d"))
    run = pytest_process(tmp_path, TARGET, "-n2", "tests_audit")

    assert run.status == 1
    assert list(run.verdicts.values()) == ["pass", "error", "error"]
    assert run.reason("audit.a.c") == "the process that judged this check died"
    assert run.reason("audit.a.d") == "the check raised ValueError: ?"


def test_a_process_that_ends_itself_leaves_its_journal(tmp_path: Path) -> None:
    """Without workers a check can end the whole run; it cannot take back what was found before."""
    files = {"a": "import os" + check("observe(fleet.nodes[0], value=2)") + check("os._exit(0)", "c")}
    write_suite(tmp_path, files, more("c"))
    run = pytest_process(tmp_path, TARGET, "tests_audit")

    assert not (run.folder / "results.json").exists()
    assert main(["report", str(run.folder)]) == 1
    assert list(run.verdicts.values()) == ["fail", "not_run"]


# --- a full disk ---------------------------------------------------------------------------------


def limited(blocks: int) -> list[str]:
    """Start Python so that no file of it can grow beyond so many blocks of 512 bytes, as on a full disk."""
    return ["sh", "-c", f'ulimit -f {blocks} && exec "$0" "$@"', sys.executable]


BIG = 'for node in fleet.nodes:\n    observe(node, value="x" * 20000)'


def test_a_disk_full_from_the_beginning_is_a_mistake(tmp_path: Path) -> None:
    """No run without a folder that can be written; the file is named."""
    write_suite(tmp_path, {"a": check()})
    run = pytest_process(tmp_path, TARGET, "tests_audit", python=limited(1))

    assert run.status == 4
    assert "run/thresholds.effective.toml: File too large" in run.output


def test_a_disk_that_fills_up_ends_the_run(tmp_path: Path) -> None:
    """A check whose outcome cannot be kept is the last one: exit status 3, one line, no traceback."""
    write_suite(tmp_path, {"a": check() + check(BIG, "c") + check(OBSERVE, "d")}, more("c", "d"))
    run = pytest_process(tmp_path, TARGET, "tests_audit", python=limited(24))

    assert run.status == 3
    assert "run/journal.jsonl: File too large" in run.output
    assert "Traceback" not in run.output
    assert "INTERNALERROR" not in run.output
    journal = (run.folder / "journal.jsonl").read_text()
    assert '"id":"audit.a.b"' in journal.replace(" ", "")
    assert '"id":"audit.a.d"' not in journal.replace(" ", "")


def test_reports_that_find_no_room_are_told(tmp_path: Path) -> None:
    """What was judged is in the results, and the page that could not be written is named: exit status 3."""
    write_suite(tmp_path, {"a": check()})
    run = pytest_process(tmp_path, TARGET, "tests_audit", python=limited(30))

    assert run.status == 3
    assert "run/report.html: File too large" in run.output
    assert run.verdicts == {"audit.a.b": "pass"}
    assert not (run.folder / "report.html").exists()

    assert main(["report", str(run.folder)]) == 0
    assert (run.folder / "report.html").is_file()


def test_a_run_can_be_reported_again_to_the_same_bytes(pytester: pytest.Pytester) -> None:
    """Everything in the reports comes from the journal."""
    tables = table(name="audit.c.d", over="gpu", fault="component")
    write_suite(pytester.path, {"a": check(), "c": check("observe(fleet.gpus[0], value=2)", "d")}, tables)
    run = audit(pytester)
    names = ("results.json", "junit.xml", "report.html", "SHA256SUMS")
    before = [(run.folder / name).read_bytes() for name in names]
    for name in names:
        (run.folder / name).unlink()

    assert main(["report", str(run.folder)]) == 1
    assert [(run.folder / name).read_bytes() for name in names] == before
    assert read_results(run.folder)["checks"]["audit.c.d"]["verdict"] == "fail"
