"""A copy of this repository inside another one: it breaks nothing there, and works when it is asked for."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from plugging import ROOT, pytest_process

if TYPE_CHECKING:
    from pathlib import Path

HGX = ROOT / "fixtures" / "recorded" / "hgx-b200-4"


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """Make a repository with tests, a conftest and a pytest.ini of its own, and a copy of this one."""
    copy = tmp_path / "third_party" / "gpuassay"
    for name in ("tests_audit", "tests_perf", "tests_reliability", "src"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("conftest.py", "pyproject.toml", "thresholds.toml", "advisories.toml"):
        shutil.copy(ROOT / name, copy)
    (copy / "tests").mkdir()
    (copy / "tests" / "test_own.py").write_text("import no_such_module\n")
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = -p no:cacheprovider\nmarkers =\n    mine: ours\n"
    )
    (tmp_path / "conftest.py").write_text(
        "import pytest\n\n@pytest.fixture\ndef fleet():\n    return 'ships'\n"
    )
    (tmp_path / "test_theirs.py").write_text("def test_ships(fleet):\n    assert fleet == 'ships'\n")
    return tmp_path


def plainly(folder: Path, *words: str) -> tuple[int, str]:
    """Run pytest as its users do, who know nothing of us."""
    run = pytest_process(folder, *words, run_dir=False)
    return run.status, run.output


def test_their_own_tests_run_as_before(theirs: Path) -> None:
    """Plain pytest at the top, strict about markers: our checks and tests are passed over."""
    status, output = plainly(theirs, "--strict-markers", "-W", "error")

    assert (status, "1 passed" in output) == (0, True), output
    assert not list(theirs.rglob("gpuassay-runs"))


def test_loading_the_plugin_themselves_runs_no_check_unasked(theirs: Path) -> None:
    """With `-p gpuassay.plugin` at their top nothing is judged either until a suite is named."""
    status, output = plainly(theirs, "-p", "gpuassay.plugin", "--ignore=third_party/gpuassay/tests")

    assert (status, "1 passed" in output) == (0, True), output


def test_the_copy_works_when_it_is_asked_for(theirs: Path) -> None:
    """As an argument, from their top and past their pytest.ini, it judges; their fixtures are not its own."""
    run = pytest_process(
        theirs, "-m", "audit", f"--target=recording:{HGX}", "third_party/gpuassay/tests_audit"
    )

    assert run.status == 0, run.output
    audited = {verdict for check, verdict in run.verdicts.items() if check.startswith("audit.")}
    assert "pass" in audited
    assert audited <= {"pass", "skip", "unseen"}  # a healthy cluster does not show all from every seat
    assert "rootdir: " + str(theirs / "third_party" / "gpuassay") in run.output
