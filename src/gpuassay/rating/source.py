"""One run that is rated: its recording, the hardware that it saw, and the measurements that it holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuassay.burning import AFTER
from gpuassay.evidence.files import list_tree, naming
from gpuassay.evidence.recording import read_recording
from gpuassay.facts import fleet as read_fleet
from gpuassay.judge.config import ConfigError
from gpuassay.judge.fact import Read
from gpuassay.judge.reach import Reach
from gpuassay.judge.services import Services
from gpuassay.judge.site import load_services, undeclared
from gpuassay.measure.again import SUFFIX
from gpuassay.rating.words import RatingError
from gpuassay.target.recording import locate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from pathlib import Path

    from gpuassay.facts import Node
    from gpuassay.judge.catalog import Catalog

_FOLDER = "measure"


@dataclass(frozen=True, slots=True)
class Source:
    """A recording as merging sees it.

    ``hardware`` is what the parts of each node call themselves, nothing where none could be read;
    ``measured`` names the nodes on which each measurement was made, none for one of the cluster as a whole.
    """

    folder: Path
    digest: str
    seal: str
    clock: datetime
    begin: datetime | None
    target: str
    cluster: str
    synthetic: bool
    hardware: Mapping[str, frozenset[str]]
    measured: Mapping[str, frozenset[str]]
    services: Services


def read_source(place: Path, catalog: Catalog) -> Source:
    """Read a run's folder, or a recording. Raises RecordingError and RatingError, which name it."""
    folder = locate(place)
    recording = read_recording(folder)
    meta = recording.meta
    if meta.clock is None:
        raise RatingError(f"{place}: does not say when it was made, so which run is newer is not known")
    with naming(folder):
        files, _ = list_tree(folder)
    nodes = read_fleet(recording, undeclared(catalog)).nodes
    try:
        services = load_services(folder / "site.toml") if recording.site_text is not None else Services()
    except ConfigError as error:
        raise RatingError(f"{place}: {error}") from error
    return Source(
        folder=folder,
        digest=recording.digest,
        seal=recording.seal,
        clock=meta.clock,
        begin=meta.begin,
        target=meta.target,
        cluster=meta.cluster,
        synthetic=meta.synthetic,
        hardware={node.name: _parts(node) for node in nodes},
        measured=_measured(files),
        services=replace(services, reach=Reach()),  # how nodes are got is another matter
    )


def _parts(node: Node) -> frozenset[str]:
    """Name the parts of a node: its GPUs, on one without GPUs its network cards."""
    for parts in (node.gpus, node.nics):
        told = [part.identity for part in parts]
        if told:
            named = frozenset(fact.value for fact in told if isinstance(fact, Read))
            return named if len(named) == len(told) else frozenset()  # half a node is not known again
    return frozenset()


def first(name: str) -> str:
    """Name the measurement that another one belongs to: its second look at suspects, or the look after it."""
    return name.removesuffix(SUFFIX).removesuffix(AFTER)


def _measured(files: Iterable[str]) -> dict[str, frozenset[str]]:
    """List measurements with their nodes."""
    found: dict[str, set[str]] = {}
    for file in files:
        match file.split("/"):
            case [folder, leaf] if folder == _FOLDER and leaf.endswith(".jsonl"):
                found.setdefault(leaf.removesuffix(".jsonl"), set())
            case [folder, name, leaf] if folder == _FOLDER and leaf.endswith(".jsonl"):
                found.setdefault(first(name), set()).add(leaf.removesuffix(".jsonl"))
    return {name: frozenset(nodes) for name, nodes in sorted(found.items())}
