"""Shared memory as the probe counts it: sizes by owner, and no name of any file."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from gpuassay.probe import leftovers

if TYPE_CHECKING:
    from pathlib import Path


def test_files_are_added_up_by_owner(tmp_path: Path) -> None:
    """Folders and links are entries, and only files hold memory; names stay where they are."""
    (tmp_path / "nccl-secret").write_bytes(b"x" * 10_000)
    (tmp_path / "torch_secret").write_bytes(b"x" * 10_000)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    found = leftovers.shm(str(tmp_path))
    (owner,) = found["owners"].items()
    assert owner[0] == str(os.getuid())
    assert owner[1]["files"] == 2
    assert owner[1]["bytes"] >= 20_000
    assert found["entries"] == 4
    assert 0 < found["free_bytes"] <= found["size_bytes"]
    assert found["newest_age_s"] < 60
    assert "secret" not in json.dumps(found)


def test_an_empty_folder_and_none(tmp_path: Path) -> None:
    """Nothing is an answer; no folder is none."""
    assert leftovers.shm(str(tmp_path))["owners"] == {}
    with pytest.raises(FileNotFoundError):
        leftovers.shm(str(tmp_path / "no"))
