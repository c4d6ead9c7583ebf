"""A recording with one trial: a frozen slurmd that the provider notices, and takes the node over."""

from __future__ import annotations

import shutil
from pathlib import Path

_RECORDED = Path(__file__).parents[1] / "fixtures" / "recorded" / "slurm-b200-4" / "recording"
BEGUN = 1_796_025_600
"""When the trial began, in seconds since 1970; within that second the daemon was frozen."""


def one_trial(folder: Path) -> Path:
    """Copy the recorded cluster, and leave one trial alone in it."""
    shutil.copytree(_RECORDED, folder)
    for measured in (folder / "measure").glob("*.jsonl"):
        if measured.stem != "frozen_slurmd":
            measured.unlink()
    return folder
