"""A recording that is judged by another site file: what was asked of services is these services' own."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from gpuassay.measuring import NotMeasuredError
from gpuassay.session import Request, prepare
from recorded.judge import ROOT

if TYPE_CHECKING:
    from pathlib import Path

RECORDING = ROOT / "fixtures/recorded/monitored-2/recording"
S3 = ("s3.example.com", "s3.example.org")
BUCKET = ('"acceptance"', '"prod"')
MEASURED = ROOT / "fixtures/recorded/hgx-b200-measured/recording"
PROMETHEUS = ("prometheus.example.com", "prometheus.example.org")


def measured(site: Path, name: str, recording: Path = RECORDING) -> bool:
    """Tell whether the recorded answers count for this site file."""
    request = Request(ROOT, f"recording:{recording}", site=site)
    try:
        return bool(prepare(request, recording).measure(name))
    except NotMeasuredError:
        return False


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [(*S3, {"s3"}), (*BUCKET, {"s3"}), (*PROMETHEUS, {"prometheus"}), ("gpus        = 8", "gpus = 7", set())],
)
def test_answers_of_one_service_are_not_taken_for_another(
    tmp_path: Path, old: str, new: str, lost: set[str]
) -> None:
    """Whoever names another bucket or address afterwards has measured neither; all else still counts."""
    site = tmp_path / "site.toml"
    declared = (RECORDING / "site.toml").read_text()
    assert old in declared
    site.write_text(declared.replace(old, new))
    names = ("s3", "prometheus", "alertmanager", "grafana", "exporters")

    assert {name for name in names if not measured(site, name)} == lost


@pytest.mark.parametrize(
    ("old", "new"), [("inference.example.com", "other.example.com"), ("gpt-oss-120b", "m")]
)
def test_answers_of_one_endpoint_are_not_taken_for_another(tmp_path: Path, old: str, new: str) -> None:
    """Another address or another model is another endpoint."""
    site = tmp_path / "site.toml"
    declared = (MEASURED / "site.toml").read_text()
    assert old in declared
    site.write_text(declared)
    assert measured(site, "inference", MEASURED)
    site.write_text(declared.replace(old, new))
    assert not measured(site, "inference", MEASURED)


def test_a_recorded_site_file_that_is_no_toml_declares_nothing(tmp_path: Path) -> None:
    """What was asked then is not known, and judging by a good site file goes on without it."""
    site, damaged = tmp_path / "site.toml", tmp_path / "recording"
    shutil.copytree(RECORDING, damaged)
    shutil.copy(RECORDING / "site.toml", site)
    (damaged / "site.toml").write_text("[cluster")

    assert not measured(site, "s3", damaged)
