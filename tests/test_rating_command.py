"""gpuassay rate and podium as users start them: folders in, files out, plain words where all is not well."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.cli import main
from gpuassay.evidence.meta import dump_meta
from gpuassay.evidence.recording import read_recording
from recorded import build
from recorded.rated import moved

if TYPE_CHECKING:
    from pathlib import Path


def at(name: str, folder: Path, days: int) -> Path:
    """Copy a recorded cluster, as it was so many days later (or earlier), and as the cluster hgx-b200-4."""
    shutil.copytree(build(name), folder)
    meta = replace(read_recording(folder).meta, cluster="hgx-b200-4")
    (folder / "recording.toml").write_bytes(dump_meta(meta))
    moved(folder, timedelta(days=days))
    return folder


def load(path: Path) -> dict[str, Any]:
    """Read a file of JSON."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


@pytest.mark.timeout(600)
def test_a_check_that_was_run_until_it_passed_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two runs fail and the last one passes: rated by the last, with the fails and their number beside it.

    The ratings then go to a podium: by the passing run the cluster rose, and the check is named.
    """
    runs = [
        at("persistence-off", tmp_path / "first", -2),
        at("persistence-off", tmp_path / "second", -1),
        at("hgx-b200-4", tmp_path / "third", 0),
    ]
    assert main(["rate", *map(str, runs), f"--out={tmp_path / 'out'}"]) == 0
    said = capsys.readouterr().out
    assert "superseded: audit.hardware.persistence failed in 2 of 3 runs; now pass" in said
    found = load(tmp_path / "out" / "rating.json")
    [one] = found["superseded"]
    assert (one["check"], one["failed"], one["tried"], one["now"]) == (
        "audit.hardware.persistence",
        2,
        3,
        "pass",
    )
    assert len({fail["recording"] for fail in one["fails"]}) == 2
    assert [run["red"] for run in found["runs"]] == [False, True, True]
    page = (tmp_path / "out" / "rating.html").read_text(encoding="utf-8")
    assert "2 of 3 runs" in page
    again = load(tmp_path / "out" / "judged" / "results.json")
    assert found["computed"]["won"] == again["tier"]["won"] == "ribbon"

    assert main(["podium", str(tmp_path / "out"), f"--out={tmp_path / 'podium'}"]) == 0
    podium = load(tmp_path / "podium" / "podium.json")
    worse = dict(podium["clusters"][0], tier=None, state="underperforming")
    worse["against"] = {**worse["against"], "audit.hardware.gpu_count": {"verdict": "fail", "tier": "ribbon"}}
    (tmp_path / "before.json").write_text(json.dumps({**podium, "clusters": [worse]}))
    before = f"--earlier={tmp_path / 'before.json'}"
    assert main(["podium", str(tmp_path / "out" / "rating.json"), before, f"--out={tmp_path / 'now'}"]) == 0
    assert "hgx-b200-4 ribbon rose" in capsys.readouterr().out
    moved_by = load(tmp_path / "now" / "podium.json")["clusters"][0]["moved"]
    assert moved_by["why"] == ["no longer fail: audit.hardware.gpu_count"]


def test_what_cannot_be_rated_is_told_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With exit status 2, the place, and what to do; nothing is written."""
    a, b = at("hgx-b200-4", tmp_path / "a", 0), build("slurm-b200-4")
    out = f"--out={tmp_path / 'out'}"
    for words, why in (
        (["rate", str(tmp_path), out], "not a recording"),
        (["rate", str(a), str(b), out], "rate them apart"),
        (["rate", str(a), "--replaced", "gpu009=gpu001:x", out], "no run has a node gpu009"),
        (["rate", str(a), f"--site={tmp_path / 'none.toml'}", out], "cannot be read"),
        (["podium", str(a), out], "rating.json: cannot be read"),
    ):
        assert main(words) == 2
        assert why in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    with pytest.raises(SystemExit):
        main(["rate", str(a), "--replaced", "gpu003"])
    assert "expected OLD=NEW:REASON" in capsys.readouterr().err


def test_a_broken_assessors_file_stops_before_anything_is_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Minutes of judging are not thrown away for a slip in a file."""
    path = tmp_path / "assessor.toml"
    path.write_text('cluster = "another"\n')
    words = ["rate", str(build("hgx-b200-4")), f"--assessor={path}", f"--out={tmp_path / 'out'}"]
    assert main(words) == 2
    assert "is about another" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
