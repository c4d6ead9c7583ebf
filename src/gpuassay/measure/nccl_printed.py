"""What nccl-tests and rccl-tests print: their text, old and new, or the document that ``-J`` writes.

Columns are found by the header, never by number: releases added some, and left others out. Every line that
should be a row and is not is kept as a problem; a run without its last lines has died.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpuassay.facts.text import brief
from gpuassay.measure.plain import lines

if TYPE_CHECKING:
    from collections.abc import Sequence


_RANK = re.compile(r"^#\s+Rank\s+\d+ .*\bdevice\s+\d+")
_VERSION = re.compile(
    r"(?:nccl-tests|rccl-tests)[: ]+[Vv]ersion:? (?P<version>\S+)|nccl-library=(?P<library>\S+)"
)
_BOUNDS = re.compile(r"Out of bounds values\s*:\s*(?P<count>\d+)\s+(?P<word>OK|FAILED)")
_AVERAGE = re.compile(r"Avg bus bandwidth\s*:\s*(?P<value>\S+)")
_DIED = re.compile(r"Test (?:CUDA|HIP|NCCL|RCCL) failure|Test failure|\bERROR\b|Segmentation fault")
_NOTHING = frozenset({"n/a", "nan", "-nan"})
_SIZE_AND_COUNT = 2


@dataclass(frozen=True, slots=True)
class Half:
    """One of the two measurements of a row; None is what the tool printed as N/A or left out."""

    micros: float | None = None
    algbw: float | None = None
    busbw: float | None = None
    wrong: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One size, in bytes, out of place and in place."""

    size: int
    out_of_place: Half
    in_place: Half


@dataclass
class Printed:
    """All that a run printed; ``others`` are lines that are neither row nor header nor said elsewhere."""

    rows: list[Row] = field(default_factory=list)
    ranks: int = 0
    version: str = ""
    command: str = ""
    wrong: int | None = None
    passed: bool | None = None
    average: float | None = None
    problems: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    @property
    def finished(self) -> bool:
        """Whether the last lines, which are printed when all is over, are there."""
        return self.average is not None

    @property
    def largest(self) -> Row | None:
        """The row of the largest message: not the average, which is over all sizes."""
        return max(self.rows, key=lambda row: row.size, default=None)


def parse(text: str) -> Printed:
    """Read what a run printed, also if it was cut; any text may stand among its lines."""
    if text.lstrip().startswith("{"):
        return _of_document(text)
    printed = Printed()
    columns: list[str] = []
    for clean in lines(text):
        if not clean.strip("# "):
            continue
        if clean.lstrip().startswith("#"):
            columns = _header(clean) or columns
            _take_comment(printed, clean)
        elif re.match(r"\s*\d+\s+\d+\s", clean):
            _take_row(printed, clean, columns)
        else:
            _take_other(printed, clean)
    return printed


def _header(line: str) -> list[str]:
    """Give the names of the measured columns, both times, if the line is the header."""
    words = line.lstrip("# ").split()
    if words[:2] != ["size", "count"] or "time" not in words:
        return []
    return [word for word in words[words.index("time") :] if word != "%"]


def _take_comment(printed: Printed, line: str) -> None:
    if _RANK.match(line):
        printed.ranks += 1
    elif found := _BOUNDS.search(line):
        printed.wrong, printed.passed = int(found["count"]), found["word"] == "OK"
    elif found := _AVERAGE.search(line):
        printed.average = _number(found["value"])
    elif found := _VERSION.search(line):
        printed.version = found["version"] or found["library"]
    elif line.startswith("# command:"):
        printed.command = line.partition(":")[2].strip()


def _take_row(printed: Printed, line: str, columns: Sequence[str]) -> None:
    words = line.split()
    if not columns or len(words) < len(columns) + _SIZE_AND_COUNT:
        printed.problems.append(f"{brief(line.strip())}: its columns are not those of the header")
        return
    try:
        size, measured = int(words[0]), words[-len(columns) :]
        half = len(columns) // 2
        halves = [_half(columns[at : at + half], measured[at : at + half]) for at in (0, half)]
        printed.rows.append(Row(size, *halves))
    except ValueError as error:
        printed.problems.append(f"{brief(line.strip())}: {error}")


def _half(names: Sequence[str], words: Sequence[str]) -> Half:
    values = dict(zip(names, words, strict=True))
    wrong = _number(values["#wrong"]) if "#wrong" in values else None
    return Half(
        _number(values["time"]),
        _number(values["algbw"]),
        _number(values["busbw"]),
        None if wrong is None else int(wrong),
    )


def _number(word: str) -> float | None:
    """Read a number; N/A is none, and what is neither is a mistake. Raises ValueError."""
    if word.casefold() in _NOTHING:
        return None
    value = float(word)
    if not math.isfinite(value):
        raise ValueError(f"{word} is no finite number")
    return value


def _take_other(printed: Printed, line: str) -> None:
    if found := _VERSION.search(line):
        printed.version = printed.version or found["version"] or found["library"]
    elif _DIED.search(line):
        printed.problems.append(brief(line.strip()))
    else:
        printed.others.append(brief(line.strip()))


# --- the document of -J ------------------------------------------------------------------------------


def _of_document(text: str) -> Printed:
    """Read the document: infinity stands bare in it, NaN and booleans are strings; it may be cut."""
    try:
        document = json.loads(re.sub(r"(?<=[:\[,\s])(-?)inf\b", r"\1Infinity", text))
    except (ValueError, RecursionError) as error:
        return Printed(problems=[f"the document is not whole: {error}"])
    if not isinstance(document, dict):
        return Printed(problems=["the document is no object"])
    devices = _get(_get(document, "config"), "devices")
    printed = Printed(
        ranks=len(devices) if isinstance(devices, list) else 0,
        version=str(document.get("version", "")),
        command=" ".join(map(str, document["args"])) if isinstance(document.get("args"), list) else "",
    )
    results = document.get("results")
    for result in results if isinstance(results, list) else ():
        _take_result(printed, result)
    bounds, average = document.get("out_of_bounds"), document.get("average_bus_bandwidth")
    with_count = _get(bounds, "count")
    printed.wrong = with_count if type(with_count) is int else None
    printed.passed = {"true": True, "false": False}.get(str(_get(bounds, "okay")).casefold())
    printed.average = _plain(_get(average, "bandwidth"))
    errors = document.get("errors")
    printed.problems += [brief(str(one)) for one in errors] if isinstance(errors, list) else []
    return printed


def _take_result(printed: Printed, result: Any) -> None:
    size = _plain(_get(result, "size"))
    if size is None:
        printed.problems.append(f"a result without a size: {brief(repr(result))}")
        return
    halves = [_half_of(_get(result, key)) for key in ("out_of_place", "in_place")]
    printed.rows.append(Row(int(size), *halves))


def _half_of(value: Any) -> Half:
    time = _plain(_get(value, "time"))
    wrong = _plain(_get(value, "nwrong"))
    micros = time if time is not None else _plain(_get(value, "cpu_time"))
    alg, bus = _plain(_get(value, "alg_bw")), _plain(_get(value, "bus_bw"))
    return Half(micros, alg, bus, None if wrong is None else int(wrong))


def _plain(value: Any) -> float | None:
    try:
        return _number(str(value)) if isinstance(value, (int, float, str)) else None
    except ValueError:
        return None


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None
