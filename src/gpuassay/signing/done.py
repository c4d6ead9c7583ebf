"""What a run has run on the nodes, as its recording tells: workloads, commands, images, versions."""

from __future__ import annotations

import json
import shlex
import tomllib
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.files import naming, open_regular
from gpuassay.evidence.lines import load_items

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from gpuassay.evidence.item import Item

_LONGEST = 160  # of a command that is shown: some carry a program


def done(recording: Path) -> list[dict[str, str]]:
    """List each thing that was run once, by measurement, with the image and the versions it told of.

    Raises RecordingError.
    """
    told: dict[tuple[str, ...], dict[str, str]] = {}
    for path in sorted((recording / "measure").rglob("*.jsonl")):
        with naming(path), open_regular(path) as file:
            stored, _ = load_items(file.read(), path.name)
        name = path.relative_to(recording / "measure").parts[0].removesuffix(".jsonl")
        for item in (one.item for one in stored):
            row = {"name": name, "ran": _ran(item), "image": _image(item), "versions": _versions(item)}
            told.setdefault(tuple(row.values()), row)
    return [*_image_of_site(recording), *told.values()]


def _image_of_site(recording: Path) -> Iterator[dict[str, str]]:
    """Name the image that the site file gives workloads."""
    try:
        site = tomllib.loads((recording / "site.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # the recording's own problems say so
        return
    workload = site.get("workload")
    image = workload.get("image") if isinstance(workload, dict) else None
    if isinstance(image, str):
        yield {"name": "all workloads", "ran": "as the site file declares", "image": image, "versions": ""}


def _ran(item: Item) -> str:
    command, workload = item.asked.get("command"), item.asked.get("workload")
    if isinstance(command, list):
        own = [
            "…" if "\n" in word or ";" in word else word for word in map(str, command)
        ]  # a program of ours
        said = " ".join(own) if "…" in own else shlex.join(own)
    else:
        said = str(workload or item.id)
    arguments = (f"{key}={value}" for key, value in _mapping(item.asked.get("args")).items())
    said = " ".join((said, *arguments))
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"


def _image(item: Item) -> str:
    ordered = _mapping(item.asked.get("order")).get("image")
    return str(ordered or _printed(item).get("image") or "")


def _versions(item: Item) -> str:
    versions = _mapping(_printed(item).get("versions"))
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _printed(item: Item) -> Mapping[str, Any]:
    """Read what a workload printed, where that is one JSON object."""
    try:
        return _mapping(json.loads(item.out))
    except (ValueError, RecursionError):
        return {}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
