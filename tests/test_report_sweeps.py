"""Heat maps of storage: every point in its place, the fastest darkest, and what has no value says so."""

from __future__ import annotations

from typing import Any

from gpuassay.report import html
from gpuassay.report.sweeps import sweeps
from recorded import build
from recorded.judge import judge


def results(values: dict[tuple[str, str, str], object]) -> dict[str, Any]:
    """Give results of one check that swept block, depth and jobs."""
    about = {"metric": "gbps", "where": "n1/home", "reference": None, "verdict": "pass"}
    rows = [
        {**about, "at": {"pattern": "read", "block": block, "depth": depth, "jobs": jobs}, "value": value}
        for (block, depth, jobs), value in values.items()
    ]
    return {"checks": {"perf.storage.sweep": {"observations": rows}}}


def test_larger_blocks_are_to_the_right_and_more_in_flight_is_higher() -> None:
    """By size and not by name: 4k before 1m, and 8 x 1 before 1 x 16."""
    (sweep,) = sweeps(
        results({("1m", "1", "16"): 4.0, ("4k", "8", "1"): 1.0, ("4k", "1", "1"): 0.5, ("1m", "1", "1"): 2.0})
    )
    by_words = {cell.words: cell for cell in sweep.cells}

    assert [label.text for label in sweep.across] == ["4k", "1m"]
    assert [label.text for label in sweep.up] == ["1 x 1", "8 x 1", "1 x 16"]
    fastest, slowest = by_words["1m, depth 1, 16 jobs: 4"], by_words["4k, depth 1, 1 jobs: 0.5"]
    assert (fastest.share, slowest.share) == (1.0, 0.125)
    assert fastest.x > slowest.x
    assert fastest.y < slowest.y
    assert sweep.summary == "at most 4 with 1m, depth 1, 16 jobs"


def test_a_point_without_a_value_is_empty_and_named() -> None:
    """It is not taken for slow."""
    given = results({("4k", "1", "1"): None, ("4k", "2", "1"): 1.0})
    given["checks"]["perf.storage.sweep"]["observations"][0]["verdict"] = "error"
    (sweep,) = sweeps(given)
    assert [(cell.text, cell.share) for cell in sweep.cells] == [("error", 0.0), ("1", 1.0)]
    assert sweep.summary.endswith("out of order at 1 point")


def test_what_is_no_sweep_is_not_drawn() -> None:
    """Other coordinates, and blocks that are none."""
    assert sweeps(results({("many", "1", "1"): 1.0})) == []
    assert sweeps({"checks": {"a": {"observations": [{"at": {"size": "1 MiB"}}]}}}) == []


def test_the_report_of_a_measured_cluster_shows_its_sweeps() -> None:
    """Each pattern of each mount, with the volume that it was measured on."""
    page = html.render(judge(build("hgx-b200-measured")).results)
    for pattern in ("read", "write", "randread", "randwrite"):
        assert f"<b>gpu001/home {pattern}</b>" in page
        assert f"<b>gpu001/scratch {pattern}</b>" in page
    assert "nfs4, 20 TB, 40% full" in page
