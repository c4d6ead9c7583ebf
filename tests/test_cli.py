"""The ``gpuassay`` command: run, record, report, probe; and the wheel, which does the same as a clone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import wheels
from gpuassay import cli
from gpuassay.evidence.recording import read_recording
from gpuassay.probe.items import QUESTIONS
from plugging import QUICK, ROOT

pytest_plugins = ["pytester"]

HGX = ROOT / "fixtures" / "recorded" / "hgx-b200-4"
SITE = '[cluster]\nname = "here"\n\n[[pool]]\nnodes = "n[1-3]"\n'


def called(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Call the command; give its exit status and what it printed, out and err."""
    status = cli.main([str(word) for word in words])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


# --- run -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "passed"),
    [
        ([], ["ROOT/tests_audit", "ROOT/tests_perf", "ROOT/tests_reliability"]),
        (
            ["-m", "audit", "-n2"],
            ["-m", "audit", "-n2", "ROOT/tests_audit", "ROOT/tests_perf", "ROOT/tests_reliability"],
        ),
        (["tests_audit"], ["ROOT/tests_audit"]),
        (
            ["tests_audit/test_health.py::test_row_remaps", "-x"],
            ["ROOT/tests_audit/test_health.py::test_row_remaps", "-x"],
        ),
        (
            ["--site=tests_audit.toml"],
            ["--site=tests_audit.toml", "ROOT/tests_audit", "ROOT/tests_perf", "ROOT/tests_reliability"],
        ),
    ],
)
def test_run_is_pytest_on_the_suite(
    monkeypatch: pytest.MonkeyPatch, words: list[str], passed: list[str]
) -> None:
    """All words are pytest's; a part of the suite is meant where the suite lies, not where the caller is."""
    seen: list[str] = []

    def main(arguments: list[str]) -> int:
        seen.extend(arguments)
        return 1

    monkeypatch.setattr(pytest, "main", main)
    assert cli.main(["run", *words]) == 1
    assert seen[:4] == ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
    assert seen[6:] == [word.replace("ROOT", str(ROOT)) for word in passed]


# --- record --------------------------------------------------------------------------------------


def test_record_only_gathers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sealed recording of this machine, the site file in it, its path on standard output; no verdict."""
    (tmp_path / "site.toml").write_text(SITE)
    status, out, err = called(capsys, "record", f"--site={tmp_path / 'site.toml'}", tmp_path / "run")

    assert (status, out) == (0, f"{tmp_path / 'run' / 'recording'}\n")
    left = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert left == ["live.html", "progress.jsonl", "recording"]
    recording = read_recording(tmp_path / "run" / "recording")
    assert (recording.seal, recording.site_text) == ("sealed", SITE)
    assert (recording.meta.target, len(recording.meta.declared)) == ("local", 1)
    assert "host (1 of" in err


def test_record_makes_a_folder_named_after_the_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below `gpuassay-runs`, as a run does, so that no recording is ever written into another."""
    monkeypatch.chdir(tmp_path)
    status, out, _ = called(capsys, "record")

    assert status == 0
    assert Path(out.strip()).parent.parent == tmp_path / "gpuassay-runs"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--site=SITE", "run"], "site.toml: [[pool]] 1 nods: unknown"),
        (["--site=nowhere.toml", "run"], "nowhere.toml: cannot be read: No such file or directory"),
        (["full"], "full: not empty; a run needs a folder of its own"),
    ],
)
def test_record_touches_nothing_where_there_is_a_mistake(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    says: str,
) -> None:
    """It is told in one line, the exit status is 2, and no folder is left behind."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "old").write_text("")
    (tmp_path / "site.toml").write_text(SITE.replace("nodes", "nods"))
    status, out, err = called(capsys, "record", *[word.replace("SITE", "site.toml") for word in words])

    assert (status, out) == (2, "")
    assert says in err
    assert not (tmp_path / "run").exists()


# --- report --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("journal", "says"),
    [
        (None, "journal.jsonl: No such file or directory"),
        ("", "journal.jsonl: not a journal"),
        ('{"kind": "begin", "context": {}}\n', "journal.jsonl: expected a journal of schema 1"),
        ('{"kind": "begin", "context": {"schema": 99}}\n', "journal.jsonl: expected a journal of schema 1"),
        ('{"kind": "begin", "context": {"schema": 1}}\n', "journal.jsonl: not as a run wrote it: KeyError"),
    ],
)
def test_report_needs_a_journal_of_this_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], journal: str | None, says: str
) -> None:
    """What cannot be read is told by its place, and nothing is written."""
    if journal is not None:
        (tmp_path / "journal.jsonl").write_text(journal)
    status, out, err = called(capsys, "report", tmp_path)

    assert (status, out) == (2, "")
    assert says in err
    assert not (tmp_path / "results.json").exists()


# --- probe, and none of these --------------------------------------------------------------------


def test_probe_lists_all_that_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """An administrator reads it before anything runs: each question once, with its reason."""
    status, out, _ = called(capsys, "probe", "--list")

    assert status == 0
    for question in QUESTIONS:
        assert question.id in out
    assert "dcgmi diag --run 2 --json\n    consent: --allow=load" in out
    assert "169.254.169.254" in out


@pytest.mark.parametrize("words", [[], ["probe"], ["report"], ["judge"], ["record", "--all"]])
def test_what_is_no_command_is_a_usage_error(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    """With the usage, and exit status 2."""
    with pytest.raises(SystemExit) as caught:
        cli.main(words)
    assert caught.value.code == 2
    assert "usage: gpuassay" in capsys.readouterr().err


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Each with a line."""
    with pytest.raises(SystemExit) as caught:
        cli.main(["--help"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    for command in ("run", "record", "report", "probe"):
        assert f"\n    {command} " in out


# --- the wheel -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel and install it alone into a new environment; give that environment's programs."""
    folder = tmp_path_factory.mktemp("wheel")
    return wheels.install(wheels.build(folder), folder / "venv")


def test_the_wheel_does_the_same_as_the_clone(
    installed: Path, tmp_path: Path, pytester: pytest.Pytester
) -> None:
    """In an empty folder, with the suite inside the package: the same bytes, and nothing else is left."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    words = ["-m", "audit", f"--target=recording:{HGX}", "--run-dir=run", *QUICK]
    done = subprocess.run(
        [installed / "gpuassay", "run", *words],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"rootdir: {installed.parent}" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["run"]

    assert pytester.runpytest_inprocess(*words, "-c", ROOT / "pyproject.toml", ROOT / "tests_audit").ret == 0
    for name in ("results.json", "junit.xml", "report.html"):
        assert (tmp_path / "run" / name).read_bytes() == (pytester.path / "run" / name).read_bytes(), name


def test_the_wheel_holds_the_suite_and_no_recording(installed: Path) -> None:
    """Checks, tables and templates are in it; tests, and clusters that were made up, are not."""
    package = next((installed.parent / "lib").glob("python*/site-packages/gpuassay"))
    held = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}

    assert {"suite/thresholds.toml", "suite/advisories.toml", "suite/conftest.py", "facts/xid.toml"} <= held
    for phase in ("tests_audit", "tests_perf", "tests_reliability"):
        assert {f"suite/{phase}/{path.name}" for path in (ROOT / phase).glob("*.py")} <= held
    assert any(name.startswith("report/templates/") for name in held)
    assert not [name for name in held if "recorded" in name or name.startswith("suite/tests/")]
