"""What storage tools give on a healthy node: made up, around what is publicly known of good storage."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.judge.catalog import load_catalog
from gpuassay.judge.services import Mount
from gpuassay.measure import MOUNT_TOOLS
from recorded.emulated import trained
from recorded.items import encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuassay.judge.catalog import Measurement

ROOT = Path(__file__).parents[2]
SPREAD = 0.01
_UNITS = {"k": 1 << 10, "m": 1 << 20}
_TB = 10**12


@dataclass(frozen=True)
class Store:
    """A file system: what one node reads and writes in GB/s, operations a second, and an operation's time."""

    mount: Mount
    read: float
    write: float
    iops: float
    micros: float
    kind: str
    bytes: int


HOME = Store(Mount("/home", "home", shared=True), 14.0, 7.5, 420_000, 380, "nfs4", 20 * _TB)
SCRATCH = Store(Mount("/scratch", "local", shared=False), 25.2, 12.8, 2_400_000, 85, "xfs", 30 * _TB)
STORES = (HOME, SCRATCH)


def storage(node: str, index: int) -> Iterator[Item]:
    """Yield what each tool printed on a node; of those that run on one node, the first has it."""
    for measurement in _measurements():
        if measurement.args["nodes"] == "one" and index != 1:
            continue
        tool = MOUNT_TOOLS[measurement.tool]
        chosen = tool.mounts(measurement.args, [store.mount for store in STORES])
        rows = [_row(node, measurement, store) for store in STORES if store.mount in chosen]
        document = {
            "tool": tool.name,
            "method": tool.method,
            "found": f"/usr/bin/{tool.name}",
            "version": _VERSIONS[tool.name],
            "rows": rows,
        }
        place = f"measure/{measurement.name}"
        asked = tool.asked(measurement.args)
        yield Item(place, 0, asked=asked, exit=0, seconds=300.0, out=encode(document) + b"\n")


@cache
def _measurements() -> list[Measurement]:
    catalog = load_catalog(ROOT / "thresholds.toml", ROOT / "advisories.toml")
    return [one for one in catalog.measurements.values() if one.tool in MOUNT_TOOLS]


def made_from() -> str:
    """Return all that decides what is measured: a recording that was made of anything else is stale."""
    return repr([(one.name, MOUNT_TOOLS[one.tool].order(one.args, [])) for one in _measurements()])


def _row(node: str, measurement: Measurement, store: Store) -> dict[str, Any]:
    folder = f"{store.mount.path}/.gpuassay-{node}-4711-a1b2c3d4"
    told = _TOLD[measurement.tool](node, measurement, store)
    return {"mount": store.mount.path, "folder": folder, "fs": about(store), "status": "ok", **told}


def about(store: Store) -> dict[str, Any]:
    """Return what a node says of a file system."""
    return {
        "bytes": store.bytes,
        "free": store.bytes * 6 // 10,
        "at": store.mount.path,
        "type": store.kind,
        "source": "made up",
    }


# --- fio ----------------------------------------------------------------------------------------------


def _fio(node: str, measurement: Measurement, store: Store) -> dict[str, Any]:
    order = MOUNT_TOOLS["fio"].order(measurement.args, [])
    dice = random.Random(f"{node}/{measurement.name}/{store.mount.path}")  # noqa: S311 - made up
    return {
        "size_mib": measurement.args["size_mib"],
        "direct": True,
        "laid": {"exit": 0, "err": "", "json": _printed(store.read / 2, store.write, 1 << 20, 1.0)},
        "runs": [
            {
                "point": point,
                "exit": 0,
                "err": "",
                "json": _point(store, point, dice.uniform(1 - SPREAD, 1 + SPREAD)),
            }
            for point in order["points"]
        ],
    }


def _point(store: Store, point: Mapping[str, str], luck: float) -> dict[str, Any]:
    """Return what fio prints of a point: few in flight wait for each other, many for the store."""
    block = int(point["block"][:-1]) * _UNITS[point["block"][-1]]
    in_flight = int(point["depth"]) * int(point["jobs"])
    most = store.write if "write" in point["pattern"] else store.read
    rate = luck / (1 / (most * 1e9) + 1 / (store.iops * block) + store.micros / 1e6 / in_flight / block)
    if block == 1 << 20 and in_flight > 32:
        rate = luck * most * 1e9
    gbps = rate / 1e9
    return _printed(0.0, gbps, block, 1.0) if "write" in point["pattern"] else _printed(gbps, 0.0, block, 1.0)


def _printed(read: float, write: float, block: int, seconds: float) -> dict[str, Any]:
    """Return a document in the form of fio 3.36, of which only what is read is there."""
    job = {
        "jobname": "gpuassay",
        "error": 0,
        "read": _flow(read, block, seconds),
        "write": _flow(write, block, seconds),
    }
    return {"fio version": "fio-3.36", "jobs": [job]}


def _flow(gbps: float, block: int, seconds: float) -> dict[str, Any]:
    rate = round(gbps * 1e9)
    if not rate:
        return {"bw_bytes": 0, "iops": 0}
    ios = int(rate * seconds / block)
    return {"bw_bytes": rate, "iops": round(rate / block, 1), "total_ios": ios, "short_ios": 0}


# --- the other tools ---------------------------------------------------------------------------------


def _small(_node: str, _measurement: Measurement, store: Store) -> dict[str, Any]:
    files, each = 6464, 1.2 * store.micros / 1e6 / 8
    steps = {"create": 9.0, "stat": 1.0, "read": 3.0, "delete": 2.0}
    told: dict[str, Any] = {
        step: {"seconds": round(files * each * times, 3), "wrong": 0} for step, times in steps.items()
    }
    opened = [float(store.micros)] * 20
    return {
        "files": files,
        "bytes": 2_500_000_000,
        "cold": 1.0,
        "open_us": opened,
        "missing_us": opened,
        **told,
    }


def _ior(_node: str, _measurement: Measurement, store: Store) -> dict[str, Any]:
    header = "Operation   Max(MiB)   Min(MiB)  Mean(MiB)     StdDev"
    rows = [
        f"{name} {rate * 953.7:.2f} {rate * 940:.2f} {rate * 950:.2f} 9.00"
        for name, rate in (("write", store.write * 0.9), ("read", store.read * 0.9))
    ]
    lines = ["IOR-4.0.0: MPI Coordinated Test of Parallel I/O", "Summary of all tests:", header, *rows]
    return {"exit": 0, "out": "\n".join([*lines, "Finished            : made up\n"]), "err": ""}


def _mdtest(_node: str, _measurement: Measurement, store: Store) -> dict[str, Any]:
    rate = 8e6 / store.micros
    rows = [
        f"   File {name}      {rate * part:.3f}      {rate * part:.3f}      {rate * part:.3f}      0.000"
        for name, part in (("creation", 0.1), ("stat", 1.0), ("read", 0.4), ("removal", 0.5))
    ]
    lines = ["-- started at made up --", "SUMMARY rate (in ops/sec): (of 3 iterations)", *rows]
    return {"exit": 0, "out": "\n".join([*lines, "-- finished at made up --\n"]), "err": ""}


def _elbencho(_node: str, _measurement: Measurement, store: Store) -> dict[str, Any]:
    rows = [
        f"{name},1000,1010,{rate * 953:.0f}" for name, rate in (("WRITE", store.write), ("READ", store.read))
    ]
    table = "\n".join(["operation,time ms [first],time ms [last],MiB/s [last]", *rows])
    return {"exit": 0, "out": "", "err": "", "table": table + "\n"}


def _mlperf(_node: str, measurement: Measurement, _store: Store) -> dict[str, Any]:
    return trained(measurement.args)


_TOLD = {
    "fio": _fio,
    "small_files": _small,
    "ior": _ior,
    "mdtest": _mdtest,
    "elbencho": _elbencho,
    "mlperf": _mlperf,
}
_VERSIONS = {
    "fio": "fio-3.36",
    "small_files": "episodes of one video, frames of 50 to 500 KiB and a description",
    "ior": "IOR-4.0.0",
    "mdtest": "mdtest-4.0.0",
    "elbencho": "Version: 3.1-10",
    "mlperf": "DLIO 2.0.0",
}
