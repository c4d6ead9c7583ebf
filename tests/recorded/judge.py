"""The verdicts of the real suite on recorded clusters, by the same command that a user types."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recorded.build import build

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ROOT = Path(__file__).parents[2]
JOBS = 2
DEADLINE = 120  # seconds for one run, which takes about one


class JudgeError(RuntimeError):
    """A run that left no results; the message holds what it printed."""


@dataclass(frozen=True)
class Judged:
    """The results of one run."""

    results: Mapping[str, Any]
    exit: int

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of each check."""
        return {check: found["verdict"] for check, found in self.results["checks"].items()}

    def message(self, check: str) -> str:
        """Return all that is said about a check that is not as it should be."""
        found = self.results["checks"][check]
        rows = (row for row in found["observations"] if row["verdict"] != "pass")
        lines = (f"{row['where']}: {row['metric']} {row['value']}: {row['reason']}" for row in rows)
        return "\n".join([found["reason"], *lines])


def judge(recording: Path, *options: str) -> Judged:
    """Run the audit on a recording; raise JudgeError if it leaves no results."""
    with tempfile.TemporaryDirectory() as folder:
        audit = [sys.executable, "-m", "pytest", "-m", "audit", "-q", "-p", "no:cacheprovider"]
        where = [f"--target=recording:{recording}", f"--run-dir={folder}/run"]
        done = subprocess.run(
            [*audit, *where, *options],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        try:
            results = json.loads(Path(folder, "run", "results.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise JudgeError(f"{recording.name}: {error}\n{done.stdout}{done.stderr}") from None
    return Judged(results, done.returncode)


def judge_all(names: Iterable[str]) -> Iterator[tuple[str, Judged]]:
    """Run the audit on recorded clusters, a few at a time, and yield their results in order."""
    names = list(names)
    with ThreadPoolExecutor(JOBS) as pool:
        yield from zip(names, pool.map(lambda name: judge(build(name)), names), strict=True)
