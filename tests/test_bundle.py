"""The offline bundle: made small and for real, verified, and spoilt."""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from gpuassay import cli
from gpuassay.bundle import content, make
from gpuassay.measure.work import install

if TYPE_CHECKING:
    from pathlib import Path

SMALL = {"hidden": 64, "layers": 1, "heads": 4, "kv_heads": 2, "intermediate": 128, "vocab": 320}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a bundle of a small model and a wheel from an index that is a folder."""
    place = tmp_path_factory.mktemp("bundle")
    index = place / "index" / install.STAND_IN
    file = install.stand_in(index)
    (index / "index.html").write_text(f'<a href="{file.name}">{file.name}</a>')
    folder = place / "bundle"
    make.make(make.Wanted(folder, SMALL, (install.STAND_IN,), index=(place / "index").as_uri()))
    return folder


def test_it_holds_wheels_a_model_and_images(made: Path) -> None:
    """And a manifest that has the sum of each."""
    listed = json.loads((made / content.MANIFEST).read_text())["files"]

    assert "wheels/gpuassay_stand_in-1.0-py3-none-any.whl" in listed
    assert {
        "model/config.json",
        "model/tokenizer.json",
        "model/model.safetensors.index.json",
    } <= listed.keys()
    assert {f"images/{name}.Containerfile" for name in ("cuda-x86", "cuda-arm64", "rocm")} <= listed.keys()
    assert content.verify(made) == []


@pytest.mark.parametrize("way", ["gone", "cut", "changed", "added", "linked"])
def test_whatever_is_done_to_it_is_named(made: Path, tmp_path: Path, way: str) -> None:
    """By the file, and by what is wrong with it."""
    folder = tmp_path / "bundle"
    shutil.copytree(made, folder)
    file = folder / "model" / "config.json"
    text = file.read_text()
    if way in ("gone", "linked"):
        file.unlink()
    if way == "linked":
        file.symlink_to(made / "model" / "config.json")
    if way == "cut":
        file.write_text(text[:-1])
    if way == "changed":
        file.write_text(text.replace("llama", "lamma"))
    if way == "added":
        (folder / "model" / "more.json").write_text("{}")
    (problem,) = content.verify(folder)

    assert problem.startswith("model/more.json: not in" if way == "added" else "model/config.json: ")


@pytest.mark.parametrize(
    "text", ["", "[]", '{"schema": 1, "files": {}}', '{"schema": 2, "files": {"a": {}}}']
)
def test_what_is_no_manifest_verifies_nothing(tmp_path: Path, text: str) -> None:
    """An empty one least of all."""
    (tmp_path / content.MANIFEST).write_text(text)
    with pytest.raises(content.BundleError, match="is not the manifest of a bundle"):
        content.verify(tmp_path)


def test_nothing_is_made_over_something(made: Path) -> None:
    """A folder that has files stays as it is."""
    with pytest.raises(content.BundleError, match="is not empty"):
        make.make(make.Wanted(made, SMALL))


def test_a_dry_run_says_bytes_and_makes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of Llama 3.1 8B, by the measurement that serves it."""
    folder = tmp_path / "bundle"
    assert cli.main(["bundle", str(folder), "--dry-run"]) == 0
    assert "at least 16060522496 bytes in all" in capsys.readouterr().out
    assert not folder.exists()


def test_verify_is_red_where_something_is_wrong(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And green where not; a mistake in the words is a usage error."""
    assert cli.main(["bundle", "verify", str(made)]) == 0
    assert cli.main(["bundle", "verify"]) == 2
    assert cli.main(["bundle", "verify", str(made / "model")]) == 2
    assert "expected one folder" in capsys.readouterr().err


def test_wheels_are_fetched_for_the_site_and_not_for_here(tmp_path: Path) -> None:
    """By platform and version, and never as a source."""
    command = make.Wanted(tmp_path, SMALL, platforms=("manylinux_2_28_aarch64",), python="3.11").download
    assert command[:4] == (sys.executable, "-m", "pip", "download")
    assert {"--only-binary=:all:", "manylinux_2_28_aarch64", "3.11"} <= {*command}
