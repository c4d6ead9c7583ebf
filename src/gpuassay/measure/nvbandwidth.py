"""nvbandwidth: copies between host and GPU, and between GPUs, in its JSON or its text.

A cell is text, N/A where there is nothing to measure. Text may stand around the document, a test that failed
may be listed twice, and one that is still "Running" is where the program died. Latencies are nanoseconds.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.plain import lines
from gpuassay.measure.started import ToolRun, command, nothing, start

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.evidence.item import Item
    from gpuassay.judge.fact import Fact, Scalar

GET = "build it from github.com/NVIDIA/nvbandwidth into a folder of PATH"
_PLACES = "/opt/*nvbandwidth* /usr/libexec/datacenter-gpu-manager-*/plugins/cuda*"  # an image's, DCGM's
TO_DEVICE, TO_HOST = "host_to_device_memcpy_ce", "device_to_host_memcpy_ce"
BETWEEN = "device_to_device_memcpy_write_ce"

_DOCUMENT = re.compile(r'\{\s*"nvbandwidth"')
_RUNNING = re.compile(r"^Running (\w+)\.$")
_ABOUT = re.compile(r"\((GB/s|ns)\)\s*$")
_SUM = re.compile(r"^SUM (\w+) ")
_ROW = re.compile(r"^\s*\d+\s+(?:[\d.]+|N/A|-?nan|-?inf)(?:\s|$)")
_ERROR = re.compile(r"\berror\b|\bCUDA_ERROR|Assertion", re.IGNORECASE)
# The worse of two entries of one name counts.
_WORSE = ("Passed", "Waived", "Not Found", "Running", "Error")

Matrix = tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One test: how it ended, and its matrix, in ``unit``; None is N/A."""

    name: str
    status: str
    unit: str = ""
    matrix: Matrix = ()


@dataclass
class Printed:
    """All that a run printed."""

    cases: dict[str, Case] = field(default_factory=dict)
    version: str = ""
    problems: list[str] = field(default_factory=list)

    def add(self, case: Case) -> None:
        """Take a test; the worse of two of one name counts."""
        known = self.cases.get(case.name)
        if known is None or _rank(case.status) > _rank(known.status):
            self.cases[case.name] = case


def _rank(status: str) -> int:
    return _WORSE.index(status) if status in _WORSE else len(_WORSE)


def parse(text: str) -> Printed:
    """Read what a run printed, also if it was cut; any text may stand around it."""
    found = _DOCUMENT.search(text)
    return _of_document(text[found.start() :]) if found else _of_text(text)


def _of_document(text: str) -> Printed:
    printed = Printed()
    try:
        document, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError) as error:
        printed.problems.append(f"its document is not whole: {brief(str(error))}")
        return printed
    told = document["nvbandwidth"]
    if not isinstance(told, dict):
        printed.problems.append("its document has no content")
        return printed
    printed.version = str(told.get("version", ""))
    if told.get("error"):
        printed.problems.append(brief(str(told["error"])))
    listed = told.get("testcases")
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict) and isinstance(one.get("name"), str):
            _take(printed, one)
    return printed


def _take(printed: Printed, told: Mapping[str, Any]) -> None:
    about = _ABOUT.search(str(told.get("bandwidth_description", "")).rstrip())
    listed = told.get("bandwidth_matrix")
    rows = [row for row in listed if isinstance(row, list)] if isinstance(listed, list) else []
    try:
        matrix = tuple(tuple(_cell(str(cell)) for cell in row) for row in rows)
    except ValueError as error:
        printed.problems.append(f"{told['name']}: {brief(str(error))}")
        matrix = ()
    printed.add(Case(told["name"], str(told.get("status", "Running")), about[1] if about else "", matrix))


def _of_text(text: str) -> Printed:
    printed, name, unit = Printed(), "", ""
    rows: list[tuple[float | None, ...]] = []
    for line in lines(text):
        if found := _RUNNING.match(line):
            printed.add(Case(name, "Running")) if name else None
            name, unit, rows = found[1], "", []
        elif line.startswith("nvbandwidth Version:"):
            printed.version = line.partition(":")[2].strip()
        elif (found := _SUM.match(line)) and found[1] == name:
            printed.add(Case(name, "Passed", unit, tuple(rows)))
            name = ""
        elif found := _ABOUT.search(line):
            unit = found[1]
        elif unit and name and (_ROW.match(line) and not _is_header(line, rows)):
            _take_row(printed, line, rows)
        elif _ERROR.search(line):
            printed.problems.append(brief(line.strip()))
    if name:
        printed.add(Case(name, "Running"))
    return printed


def _is_header(line: str, rows: Sequence[object]) -> bool:
    """Tell the line of column numbers, which comes first, from a row: it counts from 0."""
    words = line.split()
    return not rows and words == [str(number) for number in range(len(words))]


def _take_row(printed: Printed, line: str, rows: list[tuple[float | None, ...]]) -> None:
    try:
        rows.append(tuple(_cell(word) for word in line.split()[1:]))
    except ValueError as error:
        printed.problems.append(f"{brief(line.strip())}: {brief(str(error))}")


def _cell(word: str) -> float | None:
    """Read a cell; what is neither a number nor N/A is a mistake. Raises ValueError."""
    if word.strip() == "N/A":
        return None
    value = float(word)
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{word} is no bandwidth")
    return value


@dataclass(frozen=True)
class NvBandwidthRun(ToolRun[Printed]):
    """One run on one node."""

    asked: tuple[str, ...] = ()

    @property
    def broken(self) -> Fact[int]:
        """How many of the tests that were asked for failed, are unknown to it, or never ended."""
        if isinstance(self.printed, Unread):
            return self.printed
        bad = [
            f"{name}: {self._status(name)}"
            for name in self.asked
            if self._status(name) not in ("Passed", "Waived")
        ]
        problems = self.printed.problems[:3] if bad else []
        return Read(len(bad), self.ref, "; ".join([*bad, *problems]))

    @property
    def to_device_gbps(self) -> Fact[float]:
        """Host to GPU, by the GPU that is slowest."""
        return self._least(TO_DEVICE)

    @property
    def to_host_gbps(self) -> Fact[float]:
        """GPU to host, by the GPU that is slowest."""
        return self._least(TO_HOST)

    @property
    def between_gbps(self) -> Fact[float]:
        """From GPU to GPU, one way, of the slowest pair."""
        return self._least(BETWEEN)

    @property
    def between_of_median(self) -> Fact[float]:
        """The slowest pair of GPUs as a share of the median pair."""
        least, values = self._least(BETWEEN), self._values(BETWEEN)
        if isinstance(least, Unread) or isinstance(values, Unread):
            return least if isinstance(least, Unread) else Unread("failed", "it has no matrix", self.ref)
        return Read(least.value / statistics.median(values.value.values()), self.ref, least.note)

    def _status(self, name: str) -> str:
        cases = {} if isinstance(self.printed, Unread) else self.printed.cases
        return cases[name].status if name in cases else "missing"

    def _values(self, name: str) -> Fact[Mapping[str, float]]:
        """Give each cell by its place; a pair without a value is no pair that may be left out."""
        if isinstance(self.printed, Unread):
            return self.printed
        case = self.printed.cases.get(name)
        if case is None or case.status != "Passed" or case.unit != "GB/s" or not case.matrix:
            told = "; ".join([f"{name}: {self._status(name)}", *self.printed.problems[:3]])
            return Unread("failed", told, self.ref)
        square = name == BETWEEN
        found = {}
        for row, cells in enumerate(case.matrix):
            for column, value in enumerate(cells):
                if value is not None:
                    found[f"{'GPU' if square else 'host'} {row} and GPU {column}"] = value
                elif not square or row != column:
                    return Unread("failed", f"{name}: N/A between {row} and {column}: no access", self.ref)
        return Read(found, self.ref) if found else Unread("failed", f"{name}: nothing but N/A", self.ref)

    def _least(self, name: str) -> Fact[float]:
        values = self._values(name)
        if isinstance(values, Unread):
            return values
        place = min(values.value, key=lambda one: values.value[one])
        version = self.printed.version if isinstance(self.printed, Printed) else ""
        return Read(values.value[place], self.ref, f"{place}, by {version or 'nvbandwidth'}: {self.said}")


class NvBandwidth:
    """``nvbandwidth`` on each node."""

    method = 1

    def argv(self, args: Mapping[str, Scalar]) -> tuple[str, ...]:
        """Give the command, for the tests that are named, blanks between."""
        how = ("-j", "-i", str(args["samples"]), "-t", *str(args["tests"]).split())
        return start("nvbandwidth", _PLACES, GET, "{tool}", *how)

    def read(self, node: str, args: Mapping[str, Scalar], item: Item | Unread, ref: str) -> NvBandwidthRun:
        """Read a run, whatever its exit status: a test that failed leaves the others."""
        asked = tuple(str(args["tests"]).split())
        if isinstance(item, Unread):
            return NvBandwidthRun(node, item, ref, asked=asked)
        text = item.out.decode("utf-8", "replace")
        printed = parse(text)
        if not printed.cases and not printed.problems:
            return NvBandwidthRun(node, nothing(item, ref, "nvbandwidth"), ref, asked=asked)
        return NvBandwidthRun(node, printed, ref, command(text), asked=asked)
