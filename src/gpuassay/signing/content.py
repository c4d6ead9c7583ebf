"""What a run's folder holds, held against itself: its files, its results, its journal."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.files import RecordingError, list_tree, naming, open_regular
from gpuassay.evidence.run import REDACTED, RunFolder
from gpuassay.evidence.sums import hash_file
from gpuassay.report.contracted import CONTRACTED
from gpuassay.report.rebuilt import rebuild
from gpuassay.signing.envelope import SigningError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path


def digests(folder: Path, but: Collection[str] = ()) -> dict[str, str]:
    """Map every file below a folder to its SHA-256. Raises SigningError where something is no plain file."""
    with naming(folder):
        regular, other = list_tree(folder)
    if other:
        raise SigningError(f"{folder / other[0]}: not a regular file, so it cannot be signed")
    return {name: hash_file(folder / name) for name in regular if name not in but}


def read_results(run: Path) -> dict[str, Any]:
    """Read ``results.json``. Raises SigningError that names it."""
    path = RunFolder(run).results
    try:
        with naming(path), open_regular(path) as file:
            results = json.loads(file.read())
    except RecordingError as error:
        raise SigningError(f"{error}: expected the folder of a run") from error
    except (ValueError, RecursionError) as error:
        raise SigningError(f"{path}: not JSON: {error}") from error
    if not isinstance(results, dict) or not isinstance(results.get("checks"), dict):
        raise SigningError(f"{path}: not the results of a run")
    return results


def read_redaction(edition: Path) -> dict[str, Any]:
    """Read what a redacted edition tells of itself. Raises SigningError that names the file."""
    path = edition / REDACTED
    try:
        with naming(path), open_regular(path) as file:
            told = json.loads(file.read())
    except RecordingError as error:
        raise SigningError(f"{error}: expected a redacted edition") from error
    except (ValueError, RecursionError) as error:
        raise SigningError(f"{path}: not JSON: {error}") from error
    match told:
        case {"schema": 1, "full": str(), "kinds": [*kinds], "done": [*_], "replies": {}} if all(
            isinstance(kind, str) for kind in kinds
        ):
            return dict(told)
    raise SigningError(f"{path}: not as gpuassay redact writes it")


def unlike_journal(run: Path, results: Mapping[str, Any]) -> Iterator[str]:
    """Say in what results are not what the run's journal gives, and which checks the journal lacks."""
    folder = RunFolder(run)
    try:
        again, problems = rebuild(folder.journal)
    except RecordingError as error:
        yield str(error)
        return
    yield from problems
    again = json.loads(json.dumps(again))  # as it comes back from a file
    if again != results:
        yield from _unlike(again, results)
    expected = set(_checks_of(folder.thresholds))
    for check in sorted(expected.symmetric_difference(set(again["checks"]) - {CONTRACTED})):
        where = "journal.jsonl" if check in expected else "thresholds.effective.toml"
        yield f"{where}: {check} is missing"


def _unlike(again: Mapping[str, Any], results: Mapping[str, Any]) -> Iterator[str]:
    checks = results["checks"]
    for check in sorted({*again["checks"], *checks}):
        then, now = again["checks"].get(check), checks.get(check)
        if then is None or now is None:
            what = "was added" if then is None else "was removed"
            yield f"results.json: {check} {what}; journal.jsonl says otherwise"
        elif then != now:
            verdicts = [found.get("verdict") for found in (now, then)]
            told = "tells it otherwise" if verdicts[0] == verdicts[1] else f"gives {verdicts[1]}"
            yield f"results.json: {check} is {verdicts[0]}; journal.jsonl {told}"
    for part in sorted({*again, *results} - {"checks"}):
        if again.get(part) != results.get(part):
            yield f"results.json: {part} is not what journal.jsonl gives"


def _checks_of(path: Path) -> Iterator[str]:
    """Name the checks that effective thresholds have: the tables three deep below a phase."""
    try:
        with naming(path), open_regular(path) as file:
            tables = tomllib.loads(file.read().decode())
    except (RecordingError, ValueError) as error:
        raise SigningError(f"{path.name}: {error}") from error
    for phase in ("audit", "perf", "reliability"):
        for area, checks in tables.get(phase, {}).items():
            yield from (f"{phase}.{area}.{name}" for name in checks)
