"""What a bundle holds: a manifest with the size and the sum of every file, and what of it does not hold."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

MANIFEST = "manifest.json"
SCHEMA = 1


class BundleError(Exception):
    """A bundle cannot be made, or is none; says what is wrong and what to do."""


def files_of(folder: Path) -> Iterator[Path]:
    """List all files of a bundle but its manifest, in order."""
    found = (path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
    return (path for path in sorted(found) if path != folder / MANIFEST)


def seal(folder: Path, made: Mapping[str, Any]) -> dict[str, Any]:
    """Write the manifest: how the bundle was made, and of what it consists."""
    listed = {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": digest(path)}
        for path in files_of(folder)
    }
    document = {"schema": SCHEMA, "made": dict(made), "files": listed}
    (folder / MANIFEST).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return document


def verify(folder: Path) -> list[str]:
    """Name every file that is missing, changed, cut or not of the bundle. Raises BundleError."""
    listed = _listed(folder)
    problems = []
    here = {path.relative_to(folder).as_posix(): path for path in files_of(folder)}
    for name, about in listed.items():
        path = here.pop(name, None)
        if path is None or path.is_symlink():
            problems.append(f"{name}: {'not there' if path is None else 'a link, not a file'}")
        elif path.stat().st_size != about["bytes"]:
            problems.append(f"{name}: has {path.stat().st_size} bytes, not {about['bytes']}")
        elif digest(path) != about["sha256"]:
            problems.append(f"{name}: its content was changed")
    return [*problems, *(f"{name}: not in the manifest" for name in here)]


def digest(path: Path) -> str:
    """Give the SHA-256 of a file."""
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _listed(folder: Path) -> Mapping[str, Mapping[str, Any]]:
    try:
        document = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        listed: Mapping[str, Mapping[str, Any]] = document["files"]
        known = document["schema"] == SCHEMA and bool(listed)
        sums = [(about["bytes"], about["sha256"]) for about in listed.values()]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise BundleError(f"{folder / MANIFEST} is not the manifest of a bundle: {why}") from None
    if not known or not all(isinstance(size, int) and isinstance(text, str) for size, text in sums):
        raise BundleError(f"{folder / MANIFEST} is not the manifest of a bundle of schema {SCHEMA}")
    return listed
