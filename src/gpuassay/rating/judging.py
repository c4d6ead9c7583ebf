"""Judge a recording by the suite, in a process of its own: exactly as any run of pytest would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuassay.rating.words import RatingError

if TYPE_CHECKING:
    from pathlib import Path

_MAIN = "import sys; from gpuassay.cli import main; sys.exit(main())"
_JUDGED = (0, 1)  # passed, or red; all else is no judgement
_TOLD = 12


@dataclass(frozen=True, slots=True)
class Rules:
    """By what is judged: the same for each run of a rating."""

    profile: str = "acceptance"
    site: Path | None = None
    thresholds: Path | None = None

    def options(self) -> list[str]:
        """Give them as options of a run."""
        named = {"site": self.site, "thresholds": self.thresholds}
        paths = [f"--{key}={path.absolute()}" for key, path in named.items() if path]
        return [f"--profile={self.profile}", *paths]


def judge(recording: Path, folder: Path, rules: Rules) -> dict[str, Any]:
    """Judge a recording into a new run's folder; returns its results. Raises RatingError."""
    where = [f"--target=recording:{recording.absolute()}", f"--run-dir={folder.absolute()}"]
    environment = {key: value for key, value in os.environ.items() if key != "PYTEST_ADDOPTS"}
    done = subprocess.run(  # noqa: S603 - this very program
        [sys.executable, "-c", _MAIN, "run", "-q", *where, *rules.options()],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env=environment,
    )
    if done.returncode not in _JUDGED:
        told = "\n".join((done.stdout + done.stderr).strip().splitlines()[-_TOLD:])
        raise RatingError(f"{recording}: could not be judged (status {done.returncode}):\n{told}")
    found: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return found
