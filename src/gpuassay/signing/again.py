"""Judge a run's recording once more, and hold what comes out against what was signed.

A journal can be edited as results can, by whoever holds the key. The recording decides.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.recording import read_recording
from gpuassay.evidence.run import RunFolder
from gpuassay.signing.content import read_results
from gpuassay.signing.envelope import SigningError
from gpuassay.signing.plan import read_plan
from gpuassay.target.recording import locate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CALL = "import sys; from gpuassay.cli import main; sys.exit(main(sys.argv[1:]))"
_LAST = 500  # characters of what pytest printed, where it left no results


def unlike_recording(run: Path, earlier: Path | None = None) -> Iterator[str]:
    """Name each check that comes out otherwise now; ``earlier`` is the recording that it was compared with.

    Raises SigningError and RecordingError where it cannot be judged again.
    """
    results = read_results(run)
    recording = RunFolder(run).recording
    if not (recording / "recording.toml").is_file():
        raise SigningError(f"{run}: it holds no recording, so nothing of it can be judged again")
    if another := _another_earlier(run, results, earlier):
        yield another
        return
    with tempfile.TemporaryDirectory() as scratch:
        again = _judged(run, results, Path(scratch), earlier)
    if again["suite"] != results["suite"]:
        yield "results.json: judged by another version, thresholds or advisories than those at hand here"
    for check, found in results["checks"].items():
        now = again["checks"].get(check, {"verdict": "no check of this version", "counts": {}})
        if found["verdict"] != "not_run" and found["verdict"] != now["verdict"]:
            yield f"results.json: {check} is {found['verdict']}; the recording gives {now['verdict']}"
        elif found["verdict"] != "not_run" and found["counts"] != now["counts"]:
            yield f"results.json: {check} counts {found['counts']}; the recording gives {now['counts']}"


def _another_earlier(run: Path, results: Mapping[str, Any], earlier: Path | None) -> str:
    """Say in what a recording is not the earlier one that a run was compared with."""
    wanted = results["earlier"]["digest"] if results.get("earlier") else None
    if wanted is None and earlier is not None:
        raise SigningError(f"--earlier: {run} was compared with no earlier recording")
    if wanted is None:
        return ""
    if earlier is None:
        raise SigningError(
            f"{run}: it was compared with an earlier recording that is not in it (its hash is {wanted}): "
            "name it with --earlier=DIR"
        )
    found = read_recording(locate(earlier)).digest
    return (
        "" if found == wanted else f"{earlier}: not the earlier recording: its hash is {found}, not {wanted}"
    )


def _judged(run: Path, results: Mapping[str, Any], scratch: Path, earlier: Path | None) -> dict[str, Any]:
    words = [
        f"--target=recording:{RunFolder(run).recording.absolute()}",
        f"--profile={results['profile']}",
        f"--run-dir={scratch / 'run'}",
        *([f"--earlier={earlier.absolute()}"] if earlier else []),
        *_declared(run, results, scratch),
    ]
    command = [sys.executable, "-c", _CALL, "run", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ourselves
    if not RunFolder(scratch / "run").results.is_file():
        raise SigningError(f"{run}: it could not be judged again: {(done.stdout + done.stderr)[-_LAST:]}")
    return read_results(scratch / "run")


def _declared(run: Path, results: Mapping[str, Any], scratch: Path) -> Iterator[str]:
    """Judge by the same site file and thresholds where they were not the recorded and our own."""
    stamps = {stamp["stamp"] for stamp in results["stamps"]}
    if "re-declared" in stamps:
        plan = RunFolder(run).plan
        site = read_plan(plan).terms.site if plan.is_file() and not results["plan"]["differs"] else None
        if site is None:
            raise SigningError(f"{run}: it was judged by a site file that is neither recorded nor in a plan")
        (scratch / "site.toml").write_text(site, encoding="utf-8")
        yield f"--site={scratch / 'site.toml'}"
    if "other thresholds" in stamps:
        yield f"--thresholds={RunFolder(run).thresholds.absolute()}"
