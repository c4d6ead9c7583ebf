"""Many small files, as a robot's simulator makes them: episodes of a video, frames and a description.

Modelled, and nobody's code: each writer makes whole episodes, a file at a time: written, synced, renamed.
What is in a file follows from its number, so a reader can tell whether it is the right one.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

NAMES = ()
_KIB, _MIB = 1 << 10, 1 << 20
_POOL = 8 * _MIB
_LOOKS = 200


def version(_found: str) -> str:
    """Name the shape of an episode: other sizes make other figures."""
    return "episodes of one video, frames of 50 to 500 KiB and a description"


def measure(_found: str, folder: Path, order: Mapping[str, Any], free: int) -> dict[str, Any]:
    """Create, stat, read and delete; each step by all writers at once, timed from first to last."""
    writers, frames, video = int(order["writers"]), int(order["frames"]), int(order["video_mib"]) * _MIB
    needed = writers * int(order["episodes"]) * (frames * 275 * _KIB + video)
    if needed > free // 20:
        raise OSError(
            f"{needed / _MIB:.0f} MiB of small files would take more than a twentieth of what is free"
        )
    plan = [_files(folder, writer, int(order["episodes"]), frames, video) for writer in range(writers)]
    told: dict[str, Any] = {
        "files": sum(map(len, plan)),
        "bytes": sum(size for one in plan for _, size in one),
    }
    with ProcessPoolExecutor(writers, mp_context=get_context("fork")) as pool:
        list(pool.map(_nothing, range(writers)))  # started before anything is timed
        told["create"] = _timed(pool.map, _create, plan)
        told["stat"] = _timed(pool.map, _stat, plan)
        told["cold"] = _forget(plan)
        told["read"] = _timed(pool.map, _read, plan)
        told["open_us"] = _opened([path for one in plan for path, _ in one])
        told["missing_us"] = _opened([folder / f"none-{number}" for number in range(_LOOKS)])
        told["delete"] = _timed(pool.map, _delete, plan)
    return told


def _files(folder: Path, writer: int, episodes: int, frames: int, video: int) -> list[tuple[Path, int]]:
    """List the files of a writer; sizes are seeded."""
    dice = random.Random(writer)  # noqa: S311 - sizes, no secrets
    made: list[tuple[Path, int]] = []
    for episode in range(episodes):
        at = folder / f"w{writer}-e{episode}"
        at.mkdir()
        made += [(at / "video.mp4", video), (at / "episode.json", 2 * _KIB)]
        made += [(at / f"frame-{frame:05}.jpg", dice.randint(50, 500) * _KIB) for frame in range(frames)]
    return made


def _content(number: int, size: int) -> bytes:
    """Make what is in a file: random, so that nothing can be compressed, and another for each number."""
    block = random.Random(number).randbytes(min(size, 64 * _KIB))  # noqa: S311
    return (block * (size // len(block) + 1))[:size]


def _nothing(_: int) -> None:
    """Be there."""


def _timed(
    spread: Callable[..., Iterable[int]], step: Callable[[Any], int], plan: Sequence[Any]
) -> dict[str, Any]:
    begin = time.monotonic()
    wrong = sum(spread(step, plan))
    return {"seconds": time.monotonic() - begin, "wrong": wrong}


def _create(files: Sequence[tuple[Path, int]]) -> int:
    for number, (path, size) in enumerate(files):
        unfinished = path.with_suffix(".part")
        with unfinished.open("wb") as file:
            file.write(_content(number, size))
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(path)
    return 0


def _stat(files: Sequence[tuple[Path, int]]) -> int:
    return sum(path.stat().st_size != size for path, size in files)


def _read(files: Sequence[tuple[Path, int]]) -> int:
    """Read in another order than they were written; count what is not as it was."""
    numbers = list(range(len(files)))
    random.Random(0).shuffle(numbers)  # noqa: S311
    return sum(files[number][0].read_bytes() != _content(number, files[number][1]) for number in numbers)


def _delete(files: Sequence[tuple[Path, int]]) -> int:
    for path, _ in files:
        path.unlink()
    return 0


def _forget(plan: Sequence[Sequence[tuple[Path, int]]]) -> float:
    """Ask for the files to be dropped from memory; tells what share of them is really gone."""
    gone = total = 0
    for path, _ in (one for files in plan for one in files):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            gone += not _cached(descriptor)
            total += 1
        finally:
            os.close(descriptor)
    return gone / total if total else 0.0


def _cached(descriptor: int) -> bool:
    """Tell whether the first page is in memory: a read that may not wait gets it."""
    try:
        return os.preadv(descriptor, [bytearray(1)], 0, os.RWF_NOWAIT) > 0
    except OSError as error:
        return not isinstance(error, BlockingIOError)  # where it cannot be told, it is taken for warm


def _opened(paths: Sequence[Path]) -> list[float]:
    """Time how long it takes to open some of these, in microseconds; also where there is none."""
    times = []
    for path in paths[:: max(1, len(paths) // _LOOKS)][:_LOOKS]:
        begin = time.perf_counter_ns()
        with contextlib.suppress(FileNotFoundError):
            os.close(os.open(path, os.O_RDONLY))
        times.append((time.perf_counter_ns() - begin) / 1e3)
    return times
