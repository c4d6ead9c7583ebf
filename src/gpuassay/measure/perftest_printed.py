"""What perftest prints: bandwidth or latency by size, in the unit that its header names."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from gpuassay.facts.text import brief
from gpuassay.measure.plain import lines

# Bandwidth is MiB/s unless it was asked for Gb/s; older releases call the very same MB/s.
_UNITS = {"Gb/sec": 1.0, "MiB/sec": 8 * 2**20 / 1e9, "MB/sec": 8 * 2**20 / 1e9}
_COLUMN = re.compile(
    r"#bytes|#iterations|BW (?P<bw>peak|average)\s*\[(?P<unit>[^\]]+)\]|MsgRate\s*\[[^\]]+\]"
    r"|CPU_Util\s*\[[^\]]+\]|t_(?P<t>\w+)\s*\[usec\]|99(?:\.9)?% percentile\s*\[usec\]|tps average"
)
_DIED = re.compile(
    r"Couldn't|Unable to|[Ff]ailed|\bERROR\b|(?:unrecognized|invalid) option|Segmentation fault"
    r"|Completion with error|Message Size should be"
)


@dataclass(frozen=True, slots=True)
class Row:
    """One size in bytes; Gb/s on the mean, or microseconds, of which "typical" is the median."""

    size: int
    gbps: float | None = None
    micros: float | None = None


@dataclass
class Printed:
    """All that one side printed."""

    rows: list[Row] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def parse(text: str) -> Printed:
    """Read what a client printed; warnings may stand among its rows, and a header comes before them."""
    printed, columns = Printed(), list[re.Match[str]]()
    for line in map(str.strip, lines(text)):
        if line.startswith("#bytes"):
            columns = list(_COLUMN.finditer(line))
        elif re.match(r"\d+\s+\d+\s+-?[\d.naif]+", line) and columns:
            _take(printed, line, columns)
        elif _DIED.search(line):
            printed.problems.append(brief(line))
    return printed


def _take(printed: Printed, line: str, columns: list[re.Match[str]]) -> None:
    words = line.split()
    named = dict(zip((_name(column) for column in columns), words, strict=False))
    unit = next((column["unit"] for column in columns if column["bw"] == "average"), "")
    try:
        if unit:
            gbps = _number(named["average"]) * _UNITS[unit]
            printed.rows.append(Row(int(words[0]), gbps=gbps))
        else:
            micros = _number(named.get("t_typical") or named["t_avg"])
            printed.rows.append(Row(int(words[0]), micros=micros))
    except (KeyError, ValueError) as error:
        printed.problems.append(f"{brief(line)}: {brief(str(error))}")


def _name(column: re.Match[str]) -> str:
    return column["bw"] or (f"t_{column['t']}" if column["t"] else column[0])


def _number(word: str) -> float:
    value = float(word)
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"{word} is no figure")
    return value
