"""What ior, mdtest and elbencho print: a figure for each operation, and what went wrong.

ior counts in MiB, mdtest in operations. elbencho gives each figure twice, until the first thread has
ended and until the last: the last counts.
"""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass, field

from gpuassay.facts.text import brief

_MIB = 1 << 20
_ERROR = re.compile(r"^(?:\S+ )?ERROR\b.*", re.MULTILINE)
# What the storage refused: an operation that failed on a file, as each of the three says it.
_REFUSED = re.compile(
    r"^WARNING: (?:unable to |write\(|read\().*|^.*ERROR: (?:IO failed|File \w+ failed).*", re.MULTILINE
)
_WRONG = re.compile(r"Incorrect data on (?:read|write) \((\d+) errors? found\)")
_COLUMNS = 2


@dataclass
class Printed:
    """Figures by operation, in ``unit``; with a problem, they are none. ``said`` quotes the first error."""

    unit: str
    rates: dict[str, float] = field(default_factory=dict)
    wrong: int = 0
    said: str = ""
    problems: list[str] = field(default_factory=list)


def ior(text: str) -> Printed:
    """Read ior's summary: the mean of its repeats in GB/s, by the names in its header."""
    printed = Printed("GB/s", wrong=sum(int(count) for count in _WRONG.findall(text)))
    _, _, summary = text.partition("Summary of all tests:")
    lines = [line.split() for line in summary.splitlines() if line.strip()]
    if lines and "Mean(MiB)" in lines[0]:
        at = lines[0].index("Mean(MiB)")
        for words in lines[1:]:
            if words[0] in ("write", "read") and len(words) > at:
                _take(printed, words[0], words[at], _MIB / 1e9)
    return _judged(printed, text, ended="Finished  " in text)


def mdtest(text: str) -> Printed:
    """Read mdtest's table: the mean of operations a second."""
    printed = Printed("operations/s")
    _, _, table = text.partition("SUMMARY rate")
    for line in table.splitlines():
        words = re.split(r"\s{2,}", line.strip())
        if re.match(r"(?:File|Directory|Tree) \w+$", words[0]) and len(words) > _COLUMNS:
            _take(printed, words[0].casefold(), words[3] if len(words) > _COLUMNS + 1 else "", 1.0)
    return _judged(printed, text, ended="-- finished at" in text)


def elbencho(table: str, text: str) -> Printed:
    """Read elbencho's table of results; what it printed beside tells of errors."""
    printed = Printed("GB/s")
    try:
        rows = list(csv.DictReader(table.splitlines()))
    except csv.Error as error:
        return Printed("GB/s", problems=[f"its table cannot be read: {error}"])
    for row in rows:
        name = (row.get("operation") or "").casefold()
        if name in ("write", "read"):
            _take(printed, name, row.get("MiB/s [last]") or "", _MIB / 1e9)
    return _judged(printed, text, ended=True)


def _take(printed: Printed, name: str, word: str, unit: float) -> None:
    value = _number(word)
    if not value:
        printed.problems.append(f"{name}: {brief(word) or 'nothing'} is no rate")
    else:
        printed.rates[name] = value * unit


def _judged(printed: Printed, text: str, *, ended: bool) -> Printed:
    """Note what the tool complained of, a missing end, and a summary without figures."""
    refused = _REFUSED.findall(text)
    printed.wrong += len(refused)
    printed.said = brief(next(iter(refused), ""))
    printed.problems = [brief(line) for line in _ERROR.findall(text)[:3]] + printed.problems
    if not printed.rates and not printed.problems:
        printed.problems.append("it printed no summary")
    if not ended and not printed.problems:
        printed.problems.append("it did not come to its end")
    return printed


def _number(word: str) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
