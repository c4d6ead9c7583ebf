"""The verdicts of the real suite on recorded clusters, by the arguments that a user gives to pytest."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from recorded.build import build
from recorded.description import describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[2]
JOBS = 2
DEADLINE = 120  # seconds for a run, which takes less than one

# A run is a process of its own, as a user's is. Forked from one that has loaded what all of them need, it
# takes half the time.
WARM = multiprocessing.get_context("forkserver")
WARM.set_forkserver_preload(["pytest", "gpuassay.fixtures", "gpuassay.wiring.controller"])


class JudgeError(RuntimeError):
    """A run that left no results; the message holds what it printed."""


@dataclass(frozen=True)
class Judged:
    """The results of one run."""

    results: Mapping[str, Any]
    exit: int | None

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of each check."""
        return {check: found["verdict"] for check, found in self.results["checks"].items()}

    def message(self, check: str) -> str:
        """Return all that is said about a check that is not as it should be."""
        found = self.results["checks"][check]
        rows = (row for row in found["observations"] if row["verdict"] != "pass")
        return "\n".join([found["reason"], *(f"{row['where']}: {row['reason']}" for row in rows)])


def judge(recording: Path, *options: str) -> Judged:
    """Run the audit on a recording; raise JudgeError if it leaves no results."""
    with tempfile.TemporaryDirectory() as folder:
        run, log = Path(folder, "run"), Path(folder, "log")
        where = [f"--target=recording:{recording}", f"--run-dir={run}"]
        process = WARM.Process(target=_audit, args=([*where, *options], log))
        process.start()
        process.join(DEADLINE)
        process.kill()
        process.join()
        try:
            results = json.loads((run / "results.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise JudgeError(f"{recording.name}: {error}\n{log.read_text(encoding='utf-8')}") from None
    return Judged(results, process.exitcode)


def judge_all(names: Iterable[str]) -> Iterator[tuple[str, Judged]]:
    """Run the audit on recorded clusters, a few at a time, and yield their results in order."""
    names = list(names)
    with ThreadPoolExecutor(JOBS) as pool:
        judged = pool.map(lambda name: judge(build(name), *describe(name).options), names)
        yield from zip(names, judged, strict=True)


def _audit(options: Sequence[str], log: Path) -> None:
    """Be the run: what it prints goes into ``log``, and its exit status is pytest's."""
    with log.open("wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    os.chdir(ROOT)
    sys.exit(pytest.main(["-m", "audit", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", *options]))
