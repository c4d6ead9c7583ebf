"""Clusters that are rated by several runs: what fixtures/recorded/ratings.toml describes, on the disk.

A measured cluster of Slurm's is two runs: the older one has the performance of its four nodes, the newer
one how it is set up, and what its provider did about a fault.
"""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gpuassay.burning import AFTER
from gpuassay.evidence.files import append_line
from gpuassay.evidence.lines import Stored, dump_item
from gpuassay.evidence.meta import dump_meta
from gpuassay.evidence.recording import read_recording
from gpuassay.evidence.sums import write_sums
from gpuassay.evidence.writer import add_measurement
from gpuassay.judge.catalog import load_catalog
from recorded import (
    burnt,
    exchanges,
    fabric,
    hgx_b200,
    measurements,
    object_hours,
    object_speeds,
    performance,
    perftest,
    storing,
    tools,
)
from recorded.build import build, write
from recorded.description import FIXTURES, describe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpuassay.evidence.item import Item

FILE = FIXTURES / "ratings.toml"
NODES = 4
ROOT = FIXTURES.parents[1]
LATER = timedelta(days=3)


@dataclass(frozen=True)
class Described:
    """A rating that is expected: of which cluster, with which faults on top, and what it has to come to."""

    name: str
    title: str
    cluster: str
    expected: str
    faults: tuple[str, ...] = ()
    measured: bool = False
    switches: bool = False
    unbroken: bool = False


def described() -> list[Described]:
    """Read what is expected of each rated cluster."""
    tables: dict[str, dict[str, Any]] = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return [
        Described(name, **{**table, "faults": tuple(table.get("faults", ()))})
        for name, table in tables.items()
    ]


def runs(one: Described, folder: Path) -> list[Path]:
    """Make the runs of a rated cluster, the newest first."""
    newer = folder / "newer"
    if one.faults:
        base = describe(one.cluster)
        overlays = tuple(each for fault in one.faults for each in describe(fault).overlays)
        write(replace(base, overlays=overlays), newer)
    else:
        shutil.copytree(build(one.cluster), newer)
    if one.switches:
        _told_by_switches(newer)
    if not one.measured:
        return [newer]
    older = folder / "older"
    shutil.copytree(build(one.cluster), older)
    for run in (newer, older) if one.unbroken else ():
        _without_faults(run)
    moved(older, -LATER)
    measure(older)
    return [newer, older]


def moved(folder: Path, by: timedelta) -> None:
    """Let a recording say that it was made at another time."""
    meta = read_recording(folder).meta
    if meta.begin is None or meta.end is None:
        raise ValueError(f"{folder}: without a time it cannot be moved in it")
    (folder / "recording.toml").write_bytes(
        dump_meta(replace(meta, begin=meta.begin + by, end=meta.end + by))
    )
    write_sums(folder)


def measure(folder: Path) -> None:
    """Add the performance of four HGX B200 nodes to a recording."""
    for index, name in enumerate(sorted(read_recording(folder).nodes), 1):
        for seq, item in enumerate(_measured(name, index), 1):
            _, measurement, *rank = item.id.split("/")
            kept = rank if measurement.endswith(AFTER) else (measurement, *rank)  # as the probe names it
            add_measurement(folder, measurement, name, replace(item, seq=seq, id="/".join(kept)))
    for objects in (object_speeds, object_hours):
        for seq, item in enumerate(objects.services(sorted(read_recording(folder).nodes)), 1):
            own = item.id.removeprefix(f"survey/{objects.NAME}/")
            add_measurement(folder, objects.NAME, "", replace(item, seq=seq, id=own))
    write_sums(folder)


def _measured(name: str, index: int) -> Iterator[Item]:
    gpus = [hgx_b200.gpu(rail) for rail in range(hgx_b200.GPUS)]
    yield measurements.nccl_tests(name, "NVIDIA B200", exchanges.B200.domain["all_reduce"])
    yield from performance.measured(performance.B200, name, index, gpus, nodes=NODES)
    yield tools.nvbandwidth("NVIDIA B200", 55.3, 752.0)
    yield tools.mamf("NVIDIA B200", 1447, 1741)
    yield tools.hpl_mxp(71.2)
    yield from storing.storage(name, index)
    yield perftest.item(name, index, [f"mlx5_{rail}" for rail in range(8)], 400, NODES)
    yield from performance.burned(performance.B200, name, index, gpus, NODES)
    own = hgx_b200.node(name, index)
    yield from burnt.after(own)
    yield from performance.lasted(performance.B200, name, index, own, NODES)


def _faults() -> list[str]:
    """Name the measurements that break something."""
    every = load_catalog(ROOT / "thresholds.toml", ROOT / "advisories.toml").measurements
    return [one.name for one in every.values() if one.fault]


def _without_faults(folder: Path) -> None:
    """Let nobody have broken anything."""
    for one in _faults():
        (folder / "measure" / f"{one}.jsonl").unlink(missing_ok=True)
    write_sums(folder)


def _told_by_switches(folder: Path) -> None:
    """Let the switches of the fabric tell of themselves."""
    for name in read_recording(folder).nodes:
        ports = {hgx_b200.netdev(rail): (f"leaf{rail}", f"p{name}") for rail in range(hgx_b200.GPUS)}
        item = replace(fabric.lldp(ports), seq=10_000)
        append_line(folder / "nodes" / f"{name}.jsonl", dump_item(Stored(item)))
    write_sums(folder)
