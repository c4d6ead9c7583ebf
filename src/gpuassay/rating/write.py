"""Write the evidence that a plan chose as one recording."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from gpuassay.burning import AFTER
from gpuassay.evidence.files import list_tree, naming
from gpuassay.evidence.sums import SUMS, write_sums
from gpuassay.measure.again import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpuassay.rating.merge import Plan, Take

_MEASURE = "measure"


def write_merged(plan: Plan, folder: Path) -> None:
    """Write the recording into a new folder. It is sealed only if all that it is made of was.

    Raises RecordingError.
    """
    base = plan.base.folder
    with naming(folder):
        folder.mkdir(mode=0o700, parents=True)
        files, _ = list_tree(base)
        for name in files:
            if name != SUMS:
                _copy(base / name, folder / name)
        for take in plan.takes:
            if take.source is not plan.base:
                _add(take, folder)
    if all(source.seal == "sealed" for source in plan.sources):
        write_sums(folder)


def _add(take: Take, folder: Path) -> None:
    for name in _files(take):
        place = take.source.folder / name
        if place.is_file():
            _copy(place, folder / name)
    blobs = take.source.folder / "blobs"
    if blobs.is_dir():  # named by what they hold, so none can stand in for another
        for blob in sorted(blobs.iterdir()):
            _copy(blob, folder / "blobs" / blob.name)


def _files(take: Take) -> Iterator[str]:
    if not take.source.measured[take.measurement]:
        yield f"{_MEASURE}/{take.measurement}.jsonl"
    for node in sorted(take.nodes):
        for name in (take.measurement, take.measurement + SUFFIX, take.measurement + AFTER):
            yield f"{_MEASURE}/{name}/{node}.jsonl"


def _copy(source: Path, to: Path) -> None:
    to.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copyfile(source, to, follow_symlinks=False)
