"""SHA256SUMS: the seal of a folder, in the format of coreutils' ``sha256sum``."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from gpuassay.evidence.files import list_tree, naming, open_regular, write_atomic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

SUMS = "SHA256SUMS"

Seal: TypeAlias = Literal["sealed", "unsealed", "altered"]

_NAMED = 10  # files that the reason of an altered seal names; the rest is counted


@dataclass(frozen=True, slots=True)
class Sealed:
    """How a folder stands to its sums, ``why`` it is altered, and the digest of its content.

    ``digest`` is the SHA-256 of the sums that the content should have. So it depends on nothing but names
    and bytes, and for a sealed folder it is what ``sha256sum SHA256SUMS`` prints.
    """

    seal: Seal
    why: str
    digest: str


def write_sums(folder: Path, but: Collection[str] = ()) -> None:
    """Seal a folder: write the sums of every other file below it, last of all; ``but`` come after the seal.

    Raises ``RecordingError``.
    """
    with naming(folder):
        regular, _ = list_tree(folder)
    write_atomic(folder / SUMS, _text(_hash_all(folder, (name for name in regular if name not in but))))


def check_sums(folder: Path, but: Collection[str] = ()) -> Sealed:
    """Compare a folder with its seal; only one that matches to the byte is sealed. Raises OSError."""
    regular, other = list_tree(folder)
    found = _hash_all(folder, (name for name in regular if name not in but))
    expected = _text(found)
    digest = hashlib.sha256(expected).hexdigest()
    try:
        with open_regular(folder / SUMS) as file:
            written = file.read()
    except FileNotFoundError:
        return Sealed("unsealed", "", digest)
    except OSError as error:
        return Sealed("altered", f"{SUMS}: {error.strerror}", digest)
    if written == expected and not other:
        return Sealed("sealed", "", digest)
    faults = [*_differences(_parse(written), found), *(f"{name} is not a regular file" for name in other)]
    return Sealed("altered", _fold(faults) or f"{SUMS} is not as a seal is written", digest)


def _hash_all(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Map every file but the seal itself to its SHA-256, one that cannot be read to a word that says so."""
    return {name: hash_file(folder / name) for name in names if name != SUMS}


def hash_file(path: Path) -> str:
    """Give the SHA-256 of a regular file; of what cannot be read as one, a word that says so."""
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return "unreadable"


def _text(sums: Mapping[str, str]) -> bytes:
    """Write sums as ``sha256sum`` does, which marks an escaped name by a backslash before the sum."""
    return b"".join(_line(name, digest) for name, digest in sums.items())


def _line(name: str, digest: str) -> bytes:
    escaped = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    mark = "\\" if escaped != name else ""
    return os.fsencode(f"{mark}{digest}  {escaped}\n")


def _parse(written: bytes) -> dict[bytes, bytes]:
    """Map each whole line of a seal, by its name, to itself."""
    lines = written.splitlines(keepends=True)
    return {line.partition(b"  ")[2].rstrip(b"\n"): line for line in lines}


def _differences(written: Mapping[bytes, bytes], found: Mapping[str, str]) -> list[str]:
    """Say which files are new, other than sealed, or gone."""
    faults = []
    left = dict(written)
    for name, digest in found.items():
        line = _line(name, digest)
        sealed = left.pop(line.partition(b"  ")[2].rstrip(b"\n"), None)
        if sealed is None:
            faults.append(f"{name} is not in {SUMS}")
        elif sealed != line:
            faults.append(f"{name} is not as it was sealed")
    return faults + [f"{os.fsdecode(name)} is missing" for name in left]


def _fold(faults: list[str]) -> str:
    more = len(faults) - _NAMED
    return "; ".join(faults[:_NAMED]) + (f"; and {more} more" if more > 0 else "")
