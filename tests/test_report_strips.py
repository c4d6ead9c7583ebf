"""The strips of measured figures: every GPU is drawn, and no slow one is lost among many."""

from __future__ import annotations

from typing import Any

import pytest

from gpuassay.report.strips import MOST_MARKS, strips
from recorded import build
from recorded.judge import judge


def results(values: dict[str, float | None], **row: object) -> dict[str, Any]:
    """Give results of one check that measured places against a figure of 100."""
    about = {"metric": "tflops", "reference": 100.0, "verdict": "pass", "at": {}, **row}
    rows = [{"where": where, "value": value, **about} for where, value in values.items()]
    shares = {"tflops": {"fail_below": 0.9}, "median": {"warn_below": 0.95}}
    return {
        "checks": {"perf.gemm.bf16": {"over": "gpu", "phase": "perf", "shares": shares, "observations": rows}}
    }


def test_each_gpu_is_a_mark_in_natural_order_with_the_limits() -> None:
    """A faster GPU stands higher, and the limit lies below the figure."""
    (strip,) = strips(results({"n10/gpu0": 101.0, "n2/gpu0": 88.0}))

    assert [mark.words for mark in strip.marks] == ["n2/gpu0: 0.880", "n10/gpu0: 1.010"]
    assert strip.marks[0].y > strip.marks[1].y
    assert {line.level: line.label for line in strip.lines} == {"rated": "1.00", "fail": "0.90"}
    assert strip.summary == "2 GPUs: median 0.945, slowest 0.880 (n2/gpu0)"


def test_in_a_large_fleet_the_slowest_of_neighbours_is_shown() -> None:
    """No GPU that fails may vanish because there is no room for it."""
    fleet: dict[str, float | None] = {
        f"n{node:04d}/gpu{gpu}": 100.0 for node in range(1250) for gpu in range(8)
    }
    fleet["n0777/gpu3"] = 50.0

    (strip,) = strips(results(fleet))
    assert len(strip.marks) <= MOST_MARKS
    assert [mark.words for mark in strip.marks if "0.500" in mark.words] == ["n0777/gpu3: 0.500"]
    assert strip.bundled == 32


@pytest.mark.parametrize("row", [{"reference": None}, {"reference": 0}, {"at": {"size": "1"}}])
def test_what_has_no_share_has_no_strip(row: dict[str, object]) -> None:
    """Without a figure to compare with there is nothing to draw; a curve is another picture."""
    assert strips(results({"n1/gpu0": 1.0}, **row)) == []
    assert strips(results({"n1/gpu0": None})) == []


def test_a_recorded_straggler_lies_below_the_line() -> None:
    """In the results of the real suite, on the recorded cluster."""
    drawn = strips(judge(build("perf-straggler")).results)
    bf16 = next(strip for strip in drawn if strip.check == "perf.gemm.bf16")

    assert len(bf16.marks) == 16
    limit = next(line.y for line in bf16.lines if line.level == "fail")
    assert [mark.verdict for mark in bf16.marks if mark.y > limit] == ["fail"]
