"""fio in one folder: files laid out and verified, then a sweep of block, depth, pattern and jobs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpuassay.measure.disk import commands
from gpuassay.measure.disk.place import keeps_out_of_memory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

NAMES = ("fio",)
MIB = 1 << 20
_SHARE_OF_FREE = 0.05
_PATIENCE = 120.0  # beside the run itself: a slow store may take that long to lay a file out, or to sync it


def version(found: str) -> str:
    """Ask for the version."""
    return commands.version([found, "--version"])


def measure(found: str, folder: Path, order: Mapping[str, Any], free: int) -> dict[str, Any]:
    """Lay files out with checksums and read them back, then run each point; every run as it came."""
    points: Sequence[Mapping[str, Any]] = order["points"]
    jobs = max(int(point["jobs"]) for point in points)
    bound = int(_SHARE_OF_FREE * free) // jobs // MIB
    size = max(1, min(int(order["size_mib"]), bound))
    direct = keeps_out_of_memory(folder)
    shared = common(found, folder, size, direct=direct)
    limit = limit_s(jobs, size)
    laid = commands.run([*shared, *_layout(jobs)], limit)
    runs = [
        {"point": dict(point), **_compact(commands.run([*shared, *_of(point, order)], limit))}
        for point in points
    ]
    return {"size_mib": size, "direct": direct, "laid": _compact(laid), "runs": runs}


def common(found: str, folder: Path, size: int, *, direct: bool) -> list[str]:
    """Give the words of every run: a file of so many MiB for each job, past the page cache if that can be."""
    return [
        found,
        "--name=gpuassay",
        f"--directory={folder}",
        "--filename_format=data.$jobnum",
        f"--size={size}m",
        f"--direct={int(direct)}",
        "--ioengine=libaio",
        "--thread",  # one process: killed, it leaves none behind
        "--group_reporting",
        "--fallocate=none",
        "--randrepeat=0",
        "--refill_buffers",
        "--norandommap",
        "--output-format=json",
    ]


def limit_s(jobs: int, size: int) -> float:
    """Give how long files may take to be laid out: 8 MiB/s would be very slow, and is still waited for."""
    return _PATIENCE + jobs * size / 8.0


def _layout(jobs: int) -> list[str]:
    """Write every file once, with a checksum in each block, and read all of it back."""
    verify = ["--verify=crc32c", "--do_verify=1", "--verify_fatal=0", "--verify_state_save=0"]
    return ["--rw=write", "--bs=1m", "--iodepth=4", f"--numjobs={jobs}", "--end_fsync=1", *verify]


def _of(point: Mapping[str, Any], order: Mapping[str, Any]) -> list[str]:
    return [
        f"--rw={point['pattern']}",
        f"--bs={point['block']}",
        f"--iodepth={point['depth']}",
        f"--numjobs={point['jobs']}",
        f"--runtime={order['seconds']}",
        f"--ramp_time={order['ramp']}",
        "--time_based",
        *(["--end_fsync=1"] if "write" in str(point["pattern"]) else []),
    ]


def _compact(told: dict[str, Any]) -> dict[str, Any]:
    """Keep what is one JSON document as one; all else stays the text that it is."""
    try:
        document = json.loads(told["out"])
    except (ValueError, RecursionError):
        return told
    return {**{key: value for key, value in told.items() if key != "out"}, "json": document}
