"""--earlier=DIR: which recordings may be compared, what is said of them, and what crosses to a worker."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gpuassay.earlier import load
from gpuassay.evidence.meta import dump_meta
from gpuassay.evidence.recording import RecordingError, read_recording
from gpuassay.session import Request
from plugging import ROOT, pytest_process
from recorded import build

if TYPE_CHECKING:
    from pathlib import Path

    from gpuassay.evidence.meta import Meta

NOW = build("earlier-restarted")
THEN = build("earlier-restarted@earlier")
JUDGED = read_recording(NOW)


def changed(folder: Path, **meta: object) -> Path:
    """Copy the earlier recording, and let it say other things of itself."""
    shutil.copytree(THEN, folder)
    told: Meta = replace(read_recording(THEN).meta, **meta)  # type: ignore[arg-type]
    (folder / "recording.toml").write_bytes(dump_meta(told))
    return folder


def refusal(folder: Path) -> str:
    """Give the reason why a recording is not compared with."""
    with pytest.raises(RecordingError) as caught:
        load(folder, JUDGED, NOW)
    assert str(folder) in str(caught.value)
    return str(caught.value)


# --- what may be compared ------------------------------------------------------------------------


def test_an_earlier_recording_of_the_cluster_is_taken(tmp_path: Path) -> None:
    """Also where it lies in the folder of its run."""
    shutil.copytree(THEN, tmp_path / "run" / "recording")
    for place in (THEN, tmp_path / "run"):
        before = load(place, JUDGED, NOW)
        assert before.hours == 168
        assert [stamp for stamp, _ in before.stamps()] == ["earlier synthetic"]


def test_another_cluster_is_refused(tmp_path: Path) -> None:
    """By its name, or where no node is in both; both recordings are named."""
    why = refusal(changed(tmp_path / "a", cluster="elsewhere"))
    assert "elsewhere" in why
    assert str(NOW) in why
    strangers = changed(tmp_path / "b", cluster="", declared=("x1",))
    shutil.rmtree(strangers / "nodes")
    (strangers / "site.toml").unlink()
    assert "no node in common" in refusal(strangers)


@pytest.mark.parametrize("later", [timedelta(days=7), timedelta(days=8)])
def test_a_recording_that_is_not_earlier_is_refused(tmp_path: Path, later: timedelta) -> None:
    """Nor is the judged one itself: no time lies between. Both times are named."""
    meta = read_recording(THEN).meta
    assert meta.begin is not None
    assert meta.end is not None
    why = refusal(changed(tmp_path / "a", begin=meta.begin + later, end=meta.end + later))
    assert "2026-11-30T08:00:09Z" in why
    assert "name the earlier one" in why


def test_a_recording_without_a_time_is_refused(tmp_path: Path) -> None:
    """It cannot be told whether it is the earlier one."""
    assert "does not say when" in refusal(changed(tmp_path / "a", begin=None, end=None))


# --- what is said of it --------------------------------------------------------------------------


def test_a_damaged_earlier_recording_is_stamped(tmp_path: Path) -> None:
    """Its seal is that of what the comparison rests on."""
    altered = changed(tmp_path / "a", probe="another")
    assert [stamp for stamp, _ in load(altered, JUDGED, NOW).stamps()] == [
        "earlier synthetic",
        "earlier altered",
    ]
    (altered / "SHA256SUMS").unlink()
    assert load(altered, JUDGED, NOW).stamps()[1][0] == "earlier unsealed"


def test_nodes_of_one_recording_alone_are_named() -> None:
    """New ones and those that have gone; one that is out of service is neither."""
    told = load(THEN, JUDGED, NOW).document(["h01", "h02", "h05"], ["h03"])
    assert (told["new"], told["gone"]) == (["h05"], ["h04"])
    assert (told["digest"], told["seal"]) == (read_recording(THEN).digest, "sealed")


def test_a_worker_is_told_where_it_lies(tmp_path: Path) -> None:
    """As all that a worker reads again."""
    request = Request(tmp_path, earlier=tmp_path / "then")
    assert Request.from_document(request.document()).earlier == tmp_path / "then"


# --- the option ----------------------------------------------------------------------------------


SUITE = ("-c", str(ROOT / "pyproject.toml"), f"--rootdir={ROOT}", "-p", "no:cacheprovider")
CHECKS = str(ROOT / "tests_audit" / "test_earlier.py")
ALONE = build("earlier-gpu-exchanged")
BEFORE = build("earlier-gpu-exchanged@earlier")


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "with workers"])
def test_a_run_compares_and_says_with_what(tmp_path: Path, workers: tuple[str, ...]) -> None:
    """From any folder, by a path from there, with workers or without: the verdicts, and every report."""
    (tmp_path / "last-week").symlink_to(BEFORE)
    words = (f"--target=recording:{ALONE}", "--earlier=last-week", *workers, CHECKS)
    run = pytest_process(tmp_path, *SUITE, *words)
    digest = read_recording(BEFORE).digest
    found = {name: verdict for name, verdict in run.verdicts.items() if name.startswith("audit.earlier")}

    assert run.status == 1
    assert found.pop("audit.earlier.gpus") == "fail"
    assert (found["audit.earlier.parts"], found["audit.earlier.gpu_errors"]) == ("pass", "unseen")
    assert run.results["earlier"]["digest"] == digest
    assert f"compared with {digest[:16]} of 2026-11-23 08:00:00" in run.output
    assert "EARLIER SYNTHETIC" in run.output
    assert digest in (run.folder / "report.html").read_text(encoding="utf-8")
    assert digest in (run.folder / "junit.xml").read_text(encoding="utf-8")


def test_a_run_without_one_skips_and_says_how(tmp_path: Path) -> None:
    """Nothing was seen of the past: no pass, and no fail."""
    run = pytest_process(tmp_path, *SUITE, f"--target=recording:{ALONE}", CHECKS)
    found = {name: check for name, check in run.results["checks"].items() if name.startswith("audit.earlier")}

    assert run.status == 0
    assert {check["verdict"] for check in found.values()} == {"skip"}
    assert "--earlier=DIR" in found["audit.earlier.parts"]["reason"]
    assert run.results["earlier"] is None
    assert not re.search("compared with [0-9a-f]{16}", run.output)


@pytest.mark.parametrize("target", ["local", f"recording:{BEFORE}"])
def test_what_cannot_be_compared_with_is_a_usage_error(tmp_path: Path, target: str) -> None:
    """Before anything is touched, and nothing is left behind."""
    earlier = tmp_path / "nothing" if target == "local" else ALONE
    run = pytest_process(tmp_path, *SUITE, f"--target={target}", f"--earlier={earlier}", CHECKS)

    assert run.status == 4
    assert str(earlier) in run.output
    assert not run.folder.exists()
