"""How long ``import torch`` takes from each file system: in a new process, the first and the next times."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.measure.work import errands, pagecache

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuassay.measure.work.scratch import Scratch

TINY = "jinja2"
"""What is copied where there is no accelerator: torch needs it, so it is there, and it is small."""
_STAYED = 0.02  # of the files: with more of them still in memory no reading is a first one
_TIMED = """\
import importlib, sys, time
begin = time.perf_counter()
module = importlib.import_module(sys.argv[1])
print(time.perf_counter() - begin, module.__file__)
"""


def measure(scratch: Scratch, order: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a package with all that it needs to a file system, and import it from there."""
    name = TINY if order["tiny"] else str(order["args"]["package"])
    place = scratch.path / "packages"
    begin = time.perf_counter()
    files = list(_copied(name, place))
    copied = {"copy_seconds": time.perf_counter() - begin, "files": len(files)}
    copied["copied_bytes"] = sum(file.stat().st_size for file in files)
    return {"package": name, **copied, **_timed(name, files, place, order["args"])}


def in_place(order: Mapping[str, Any]) -> dict[str, Any]:
    """Import from where the Python of the site has the package."""
    name = str(order["args"]["package"])
    row = {"mount": "", "role": "python", "package": name, "prefix": sys.prefix}
    try:
        files = [Path(str(file.locate())) for one in closure(name) for file in one.files or ()]
        return {**row, "status": "ok", **_timed(name, files, None, order["args"])}
    except Exception as error:  # noqa: BLE001 - what an import raises has no common kind
        return {**row, "status": "failed", "why": f"{type(error).__name__}: {error}"[:300]}


def closure(name: str) -> list[metadata.Distribution]:
    """Give an installed package and those that it needs, as far as they are installed."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [name]
    while waiting:
        one = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        try:
            about = metadata.distribution(one)
        except metadata.PackageNotFoundError:
            if not found:
                raise
            continue  # an extra, or for another platform
        if one not in found:
            found[one] = about
            waiting += [re.split(r"[^\w.-]", need, maxsplit=1)[0] for need in about.requires or ()]
    return list(found.values())


def _copied(name: str, place: Path) -> Iterator[Path]:
    """Copy the files of a package and of its needs; gives each new one. Scripts beside them are left out."""
    for one in closure(name):
        for file in one.files or ():
            source = Path(str(file.locate()))
            if ".." in file.parts or not source.is_file():
                continue
            target = place / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            yield target


def _timed(name: str, files: list[Path], place: Path | None, args: Mapping[str, Any]) -> dict[str, Any]:
    """Import once to have it compiled; then again and again, from the disk and from memory."""
    patience = float(args["patience_s"])
    first = once(name, place, patience)
    found: dict[str, Any] = {"first_seconds": first, "cold_seconds": [], "warm_seconds": [], "held": []}
    for _ in range(int(args["repeats"])):
        found["held"].append(round(pagecache.evict(files), 4))
        found["cold_seconds"].append(once(name, place, patience))
        found["warm_seconds"].append(once(name, place, patience))
    if max(found["held"]) > _STAYED:
        found["warm_only"] = f"{max(found['held']):.0%} of its large files stayed in memory"
    return found


def once(name: str, place: Path | None, patience_s: float) -> float:
    """Import in a new process; gives the seconds of the import alone. Raises ErrandError."""
    more = {"PYTHONPATH": str(place)} if place else {}
    folder = place or Path(os.sep)
    _, out = errands.timed((sys.executable, "-c", _TIMED, name), patience_s, folder, more)
    seconds, _, file = out.strip().splitlines()[-1].partition(" ")
    if place and not file.startswith(f"{place}{os.sep}"):
        raise errands.ErrandError(f"{name} was imported from {file}, not from {place}")
    return float(seconds)
