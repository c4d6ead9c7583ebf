"""What fio prints with ``--output-format=json``: whatever stands around the document, from 2.x to 3.x.

Jobs of different names may have run one after the other, so only clones of one job are added up. Rates come
from ``bw_bytes``, or in old releases from ``bw``, which is in KiB; times are in nanoseconds, and were in
microseconds in 2.x. A job with an error has no figures.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpuassay.facts.text import brief

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_ALL_CLIENTS = "All clients"
_CORRUPT = re.compile(r"\bverify(?:: bad magic header|: bad header|[^\n]*? failed at file)[^\n]*")
_BAD_DATA = 84  # EILSEQ: what fio gives for a block that is not what was written
_DOCUMENT = re.compile(r"^\s*\{", re.MULTILINE)


@dataclass(frozen=True)
class Flow:
    """One direction: bytes and operations a second, and the time of the slowest of a hundred."""

    bytes_per_s: float = 0.0
    iops: float = 0.0
    ios: int = 0
    short: int = 0
    p99_us: float | None = None


@dataclass(frozen=True)
class Job:
    """A job with its clones."""

    name: str
    read: Flow
    write: Flow


@dataclass
class Printed:
    """All that a run printed; with a problem, its figures are none."""

    version: str = ""
    jobs: list[Job] = field(default_factory=list)
    corrupt: int = 0
    problems: list[str] = field(default_factory=list)


def parse(out: str | Mapping[str, Any], err: str = "") -> Printed:
    """Read what a run printed: its text, or the document where that was all."""
    document = out if not isinstance(out, str) else _last_document(out)
    text = err if not isinstance(out, str) else f"{out}\n{err}"
    printed = Printed(corrupt=len(_CORRUPT.findall(text)))
    if document is None:
        said = [line.strip() for line in text.splitlines() if line.strip().startswith("fio:")]
        printed.problems.append(brief(said[-1]) if said else "fio printed no document")
        return printed
    printed.version = str(document.get("fio version", ""))
    clones: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for job in _jobs(document):
        clones[str(job.get("jobname"))].append(job)
    for name, jobs in clones.items():
        _take(printed, name, jobs, text)
    if not clones:
        printed.problems.append("fio's document has no jobs")
    return printed


def _last_document(text: str) -> Mapping[str, Any] | None:
    """Find the last whole document: with ``--status-interval`` there are several, and only that is final."""
    found, begin = None, 0
    while match := _DOCUMENT.search(text, begin):
        try:
            document, begin = json.JSONDecoder().raw_decode(text, match.end() - 1)
        except (ValueError, RecursionError):
            begin = match.end()
            continue
        if isinstance(document, dict) and ("jobs" in document or "client_stats" in document):
            found = document
    return found


def _jobs(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Give the jobs; where clients ran them, the row that already adds them up."""
    jobs = document.get("jobs")
    clients = document.get("client_stats")
    if isinstance(clients, list):
        whole = [one for one in clients if isinstance(one, dict) and one.get("jobname") == _ALL_CLIENTS]
        jobs = whole or clients
    yield from (job for job in (jobs if isinstance(jobs, list) else ()) if isinstance(job, dict))


def _take(printed: Printed, name: str, jobs: Sequence[Mapping[str, Any]], text: str) -> None:
    errors = [job.get("error") for job in jobs]
    if any(type(error) is not int for error in errors):
        printed.problems.append(f"{brief(name)}: it does not say whether it ended well")
        return
    if _BAD_DATA in errors:
        printed.corrupt = max(1, printed.corrupt)
    if any(errors):
        said = [line.strip() for line in text.splitlines() if "error=" in line or "io_u error" in line]
        number = next(error for error in errors if error)
        printed.problems.append(f"{brief(name)}: error {number}{f': {brief(said[-1])}' if said else ''}")
        return
    flows = []
    for way in ("read", "write"):
        parts = [_flow(job.get(way)) for job in jobs]
        read = [part for part in parts if part is not None]
        if len(read) < len(parts):
            printed.problems.append(f"{brief(name)}: its {way} has no bytes a second that are a number")
            return
        flows.append(_sum(read))
    printed.jobs.append(Job(name, *flows))


def _sum(flows: Sequence[Flow]) -> Flow:
    slowest = [flow.p99_us for flow in flows if flow.p99_us is not None]
    return Flow(
        sum(flow.bytes_per_s for flow in flows),
        sum(flow.iops for flow in flows),
        sum(flow.ios for flow in flows),
        sum(flow.short for flow in flows),
        max(slowest, default=None),
    )


def _flow(told: Any) -> Flow | None:
    """Read one direction; None where it has no rate. A direction that a release leaves out moved nothing."""
    if told is None:
        return Flow()
    if not isinstance(told, dict):
        return None
    kib, exact = _number(told.get("bw")), _number(told.get("bw_bytes"))
    rate = exact if exact is not None else (kib * 1024 if kib is not None else None)
    iops = _number(told.get("iops"))
    if rate is None or iops is None:
        return None
    ios, short = _number(told.get("total_ios")), _number(told.get("short_ios"))
    return Flow(rate, iops, int(ios or 0), int(short or 0), _slowest(told))


def _slowest(told: Mapping[str, Any]) -> float | None:
    """Read the 99th percentile in microseconds; there is none where nothing was done or asked."""
    for key, unit in (("clat_ns", 1000.0), ("clat", 1.0)):
        times = told.get(key)
        percentiles = times.get("percentile") if isinstance(times, dict) else None
        value = _number(percentiles.get("99.000000")) if isinstance(percentiles, dict) else None
        if value is not None:
            return value / unit
    return None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
