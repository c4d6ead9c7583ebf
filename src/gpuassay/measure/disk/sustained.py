"""fio on one mount for a long time: a line for each window while it runs, so that nothing is lost with it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import tempfile
import time
from typing import IO, TYPE_CHECKING, Any

from gpuassay.measure.disk import commands, fio, place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_SHARE_OF_FREE = 0.2
_SILENCE_S = 120.0  # beside the window: after that, fio itself hangs, and not only what it asked for
_END_S = 5.0
_CHUNK = 1 << 16


def keep_journal(order: Mapping[str, Any], paper: IO[str]) -> int:
    """Load the mount of ``order`` for its ``seconds``. Gives the exit status."""
    found = commands.find(*fio.NAMES)
    ending = {"broken": f"none of {', '.join(fio.NAMES)} is here: {order['get']}"}
    if found:
        try:
            with place.folder(order["mount"]) as folder:
                ending = _load(found, folder, order, paper)
        except place.NoPlaceError as why:
            ending = {"broken": str(why)}
    _say(paper, {"line": "end", "at": time.time(), **ending})
    return 0 if found else 127


def _load(found: str, folder: Path, order: Mapping[str, Any], paper: IO[str]) -> dict[str, Any]:
    """Lay the files out, then read and write them at once for so long."""
    jobs, fs = int(order["jobs"]), place.about(folder)
    bound = int(_SHARE_OF_FREE * fs["free"]) // int(order["nodes"]) // jobs // fio.MIB
    size = max(1, min(int(order["size_mib"]), bound))
    direct = place.keeps_out_of_memory(folder)
    common = [*fio.common(found, folder, size, direct=direct), f"--numjobs={jobs}"]
    limit = fio.limit_s(jobs, size)
    laid = commands.run([*common, "--rw=write", "--bs=1m", "--iodepth=4", "--end_fsync=1"], limit)
    if laid.get("exit") != 0:
        said = [line.strip() for line in f"{laid['out']}\n{laid['err']}".splitlines() if "fio:" in line]
        return {"broken": f"its files could not be laid out: {said[-1][:300] if said else laid.get('exit')}"}
    command = [*common, *_words(order)]
    about = {"mount": order["mount"], "folder": str(folder), "fs": fs, "size_mib": size, "direct": direct}
    _say(
        paper,
        {
            "line": "begin",
            "at": time.time(),
            "status": "ok",
            "version": fio.version(found),
            "command": command,
            **about,
        },
    )
    return _watched(command, order, paper)


def _words(order: Mapping[str, Any]) -> list[str]:
    """Say what is asked for: reads and writes mixed, errors counted, and what was done told in between."""
    return [
        "--rw=rw",
        f"--rwmixread={order['read_percent']}",
        f"--bs={order['block']}",
        f"--iodepth={order['depth']}",
        f"--runtime={order['seconds']}",
        "--time_based",
        "--continue_on_error=all",
        f"--status-interval={order['window_s']}",
    ]


def _watched(command: Sequence[str], order: Mapping[str, Any], paper: IO[str]) -> dict[str, Any]:
    """Run it to its end, and write down each window as soon as it is over; whatever ends us ends it too."""
    silence = float(order["window_s"]) + _SILENCE_S
    with tempfile.TemporaryFile() as err:
        process = subprocess.Popen(  # noqa: S603 - a list, no shell
            command,
            stdout=subprocess.PIPE,
            stderr=err,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
        )
        last: Mapping[str, Any] = {}
        try:
            for number, (span, told) in enumerate(_windows(process, silence), 1):
                _say(paper, _beat(number, span, last, told))
                last = told
            process.wait(_END_S)
        except (TimeoutError, subprocess.TimeoutExpired):
            return {"broken": f"fio has told nothing for {silence:g} s", **_errors(last)}
        finally:
            _end(process)
        err.seek(0)
        said = [line.strip() for line in err.read().decode(errors="replace").splitlines() if line.strip()]
    ending: dict[str, Any] = {"exit": process.returncode, "err": said[-3:], **_errors(last)}
    if not last:
        ending["broken"] = (
            f"fio told nothing and ended with {process.returncode}: {' '.join(said[-1:])[:300]}"
        )
    return ending


def _windows(process: subprocess.Popen[bytes], silence: float) -> Iterator[tuple[float, Mapping[str, Any]]]:
    """Give what has been done so far, each time that fio tells, and the seconds since it last did.

    Raises TimeoutError.
    """
    last = 0.0
    for document in _documents(process, silence):
        now, jobs = time.monotonic(), document.get("jobs") or [{}]
        ran = max(float(jobs[0].get(way, {}).get("runtime", 0)) for way in ("read", "write")) / 1e3
        span, last = (now - last if last else ran), now
        yield span, jobs[0]


def _documents(process: subprocess.Popen[bytes], silence: float) -> Iterator[Mapping[str, Any]]:
    """Give each document as it is printed: one begins and ends with a brace that has a line for itself."""
    lines: list[bytes] = []
    rest = b""
    assert process.stdout is not None  # noqa: S101 - it was asked for
    while True:
        if not select.select([process.stdout], [], [], silence)[0]:
            raise TimeoutError
        data = os.read(process.stdout.fileno(), _CHUNK)
        if not data:
            return
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            lines = [line] if line == b"{" else [*lines, line]
            if line == b"}":
                yield json.loads(b"\n".join(lines))


def _beat(number: int, span: float, last: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    moved = {way: _bytes(told, way) - _bytes(last, way) for way in ("read", "write")}
    rate = sum(moved.values()) / span / 1e9 if span > 0 else 0.0
    return {
        "line": "beat",
        "beat": number,
        "at": round(time.time(), 3),
        "span": round(span, 3),
        **moved,
        **_errors(told),
        "words": f"window {number}: {rate:.3g} GB/s",
    }


def _bytes(told: Mapping[str, Any], way: str) -> int:
    return int(told.get(way, {}).get("io_bytes", 0))


def _errors(told: Mapping[str, Any]) -> dict[str, int]:
    """Count what went wrong so far; the first of it is an errno."""
    first = int(told.get("first_error", 0)) or int(told.get("error", 0))
    return {"errors": max(int(told.get("total_err", 0)), int(bool(first))), "first_error": first}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill it if it still runs; one that hangs in the kernel is left behind."""
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_S)


def _say(paper: IO[str], line: Mapping[str, Any]) -> None:
    paper.write(json.dumps(line) + "\n")
    paper.flush()
