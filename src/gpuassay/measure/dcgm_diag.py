"""``dcgmi diag``, NVIDIA's own diagnostic: read from its JSON of DCGM 3 and 4, or from its table.

A report is read whatever the exit status: 205 comes with a complete one (case dcgm-exit-205-with-json).
Tests that were skipped, and tests that a level should have and the report lacks (DCGM leaves out a plugin
that it cannot load), are unread: neither is a pass.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.diagnosis import Report, Test, no_report

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuassay.evidence.item import Item
    from gpuassay.judge.fact import Scalar

# What each level runs, from DCGM 4.6.0, FillTestVectors; EUD, which needs root, is not demanded.
_MEDIUM = ("software", "memory", "pcie")
_LONG = (*_MEDIUM, "diagnostic", "nvbandwidth", "memory_bandwidth", "targeted_stress", "targeted_power")
TESTS: Mapping[int, tuple[str, ...]] = {
    1: _MEDIUM[:1],
    2: _MEDIUM,
    3: _LONG,
    4: (*_LONG, "memtest", "pulse_test"),
}

_MIG = re.compile(r"MIG configuration is incompatible", re.IGNORECASE)
# A row of the table of DCGM 3: "| PCIe  | Fail - GPU: 0 |"; the next group of GPUs has an empty first cell.
_ROW = re.compile(
    r"^\|\s*(?P<name>[^|]*?)\s*\|\s*(?P<status>Pass|Fail|Warn|Skip)[^|]*?(?:GPUs?: (?P<gpus>[\d, ]+))?\s*\|"
)
_SECTION = re.compile(r"^[|+]-+\s+(?P<category>\w+)\s+-+\+")
_SOFTWARE = "Deployment"  # the category of checks that DCGM 3 lists apart, and DCGM 4 as one test, software


class DcgmDiag:
    """``dcgmi diag --run LEVEL --json``."""

    method = 1

    def argv(self, args: Mapping[str, Scalar]) -> tuple[str, ...]:
        """Give the command; ``level`` is 1 to 4."""
        return ("dcgmi", "diag", "--run", str(args["level"]), "--json")

    def read(self, node: str, args: Mapping[str, Scalar], item: Item | Unread, ref: str) -> Report:
        """Read a report; every test of the level is in it, were it only to say why it is unread."""
        expected = TESTS[int(args["level"])]
        found, why = ({}, item) if isinstance(item, Unread) else _results(item, ref)
        missing = why or Unread("failed", "it is not in the report: its plugin was not loaded", ref)
        names = dict.fromkeys((*expected, *found))
        return Report(node, tuple(_test(node, name, found.get(name, []), missing, ref) for name in names))


def _test(node: str, name: str, results: list[tuple[str, str]], missing: Unread, ref: str) -> Test:
    """Join the results of a test on all GPUs: a fail on one is a fail, and a skip of all is no result."""
    said: dict[str, list[str]] = defaultdict(list)
    for status, words in results:
        said[status].append(words)
    if said["fail"] or said["warn"]:
        failed, warned = (Read(bool(said[one]), ref, "; ".join(said[one])) for one in ("fail", "warn"))
        return Test(node, name, failed, warned)
    if said["pass"] and not said["skip"]:  # what was skipped on one GPU is not judged on that GPU
        return Test(node, name, Read(value=False, evidence=ref), Read(value=False, evidence=ref))
    skipped = "; ".join(dict.fromkeys(filter(None, said["skip"])))
    unread = (
        Unread("failed", f"it was skipped: {skipped or 'no reason given'}", ref) if said["skip"] else missing
    )
    return Test(node, name, unread, unread)


_Results = dict[str, list[tuple[str, str]]]


def _results(item: Item, ref: str) -> tuple[_Results, Unread | None]:
    """Give status and words of each test; or why there are none."""
    text = item.out.decode("utf-8", "replace")
    if _MIG.search(text):
        return {}, Unread("denied", "the diagnostic does not run while MIG is on", ref)
    found: _Results = defaultdict(list)
    document = _document(text)
    for name, status, words in _of_json(document) if document is not None else _of_table(text):
        found[name].append((_status(status), words))
    if found:
        return found, None
    error = document.get("runtime_error") if isinstance(document, dict) else None
    return {}, no_report(item, ref, "dcgmi diag", str(error or ""))


def _document(text: str) -> Any:
    """Find the JSON document; other lines may stand before it."""
    begin = text.find("{")
    if begin < 0:
        return None
    try:
        return json.JSONDecoder().raw_decode(text[begin:])[0]
    except (ValueError, RecursionError):
        return None


def _of_json(document: Any) -> Iterator[tuple[str, str, str]]:
    """Yield name, status and words of each result; DCGM 3 names document and GPUs otherwise than 4."""
    report = _get(document, "DCGM Diagnostic") or _get(document, "DCGM GPU Diagnostic")
    for category in _list(_get(report, "test_categories")):
        for test in _list(_get(category, "tests")):
            for result in _list(_get(test, "results")):
                gpu = _get(result, "entity_id")
                gpu = _get(result, "gpu_id") or _get(result, "gpu_ids") if gpu is None else gpu
                words = [str(_get(test, "name")), f"GPU {gpu}" if gpu is not None else "", *_warnings(result)]
                name = _plain(str(_get(category, "category")), str(_get(test, "name")))
                yield name, str(_get(result, "status")), ": ".join(filter(None, words))


def _warnings(result: Any) -> Iterator[str]:
    warnings = _get(result, "warnings")
    for warning in warnings if isinstance(warnings, list) else [warnings]:
        text = _get(warning, "warning") if isinstance(warning, dict) else warning
        if isinstance(text, str):
            yield text
    if isinstance(info := _get(result, "info"), str):
        yield info


def _of_table(text: str) -> Iterator[tuple[str, str, str]]:
    category = name = ""
    for line in text.splitlines():
        if section := _SECTION.match(line):
            category = section["category"]
        elif row := _ROW.match(line):
            name = row["name"] or name
            words = [name, f"GPU {row['gpus'].strip()}" if row["gpus"] else ""]
            yield _plain(category, name), row["status"], ": ".join(filter(None, words))


def _plain(category: str, name: str) -> str:
    """Give a test the name that DCGM 4 has for it."""
    if category == _SOFTWARE:
        return "software"
    return re.sub(r"[^a-z0-9]+", "_", name.casefold()).strip("_")


def _status(status: str) -> str:
    """Fold the statuses to four; an unknown one is a fail: it is surely no pass."""
    plain = status.casefold().strip()
    return (
        plain if plain in ("pass", "warn") else "skip" if plain in ("skip", "not run", "notrun") else "fail"
    )


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
