"""By when measurements were added to a recording: written once they were, and read again by a replay."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from socket import gethostname
from typing import Any

from gpuassay.earlier import stamp
from gpuassay.evidence.recording import read_recording

ROOT = Path(__file__).parents[1]
SITE = """
[cluster]
name = "here"
handed_over = 2020-01-01T00:00:00Z

[monitoring]
prometheus = "http://127.0.0.1:1"

[[pool]]
nodes = "{node}"
has = ["gpu"]
"""


def run(folder: Path, *options: str) -> dict[str, Any]:
    """Judge the scrape targets of a Prometheus, as a user does, and give the results."""
    check = ROOT / "tests_audit" / "test_monitoring.py::test_targets"
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}", str(check))
    command = [sys.executable, *words, f"--run-dir={folder}", "--sla=gold", *options]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert (folder / "results.json").exists(), done.stdout + done.stderr
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


def test_what_is_measured_moves_the_end_of_the_evidence(tmp_path: Path) -> None:
    """A live run that asks a service notes when and seals anew; its replay goes by the same times."""
    site = tmp_path / "site.toml"
    site.write_text(SITE.format(node=gethostname().partition(".")[0]))
    live = run(tmp_path / "live", "--target=local", f"--site={site}", "--allow=contact")
    recording = read_recording(tmp_path / "live" / "recording")
    assert isinstance(recording.meta.measured, datetime)
    assert isinstance(recording.meta.end, datetime)
    assert recording.meta.measured > recording.meta.end
    assert (recording.seal, recording.digest) == ("sealed", live["recording"]["digest"])
    assert live["recording"]["measured"] == stamp(recording.meta.measured)
    assert f"ends at {live['recording']['measured']}," in live["sla"]["terms"][1]["why"]

    replay = run(tmp_path / "replay", f"--target=recording:{tmp_path / 'live' / 'recording'}")
    assert (replay["recording"], replay["sla"]) == (live["recording"], live["sla"])


def test_a_run_that_measures_nothing_has_no_such_time(tmp_path: Path) -> None:
    """Without consent nothing is added, and the recording stays as it was sealed."""
    site = tmp_path / "site.toml"
    site.write_text(SITE.format(node=gethostname().partition(".")[0]))
    found = run(tmp_path / "run", "--target=local", f"--site={site}")
    assert found["recording"]["measured"] is None
    assert read_recording(tmp_path / "run" / "recording").meta.measured is None
    assert f"ends at {found['recording']['end']}," in found["sla"]["terms"][1]["why"]
