"""Curves by size: every size that was measured is drawn, in its place, with the limits; nothing else is."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from gpuassay.report import html
from gpuassay.report.curves import curves
from recorded import build
from recorded.judge import judge


def results(values: dict[str, object], reference: object = 100.0) -> dict[str, Any]:
    """Give results of one check that measured sizes."""
    about = {"metric": "busbw_gbps", "where": "hgx", "reference": reference, "verdict": "pass"}
    rows = [
        {**about, "at": {"collective": "x", "size": size}, "value": value} for size, value in values.items()
    ]
    shares = {"busbw_gbps": {"fail_below": 0.5, "warn_below": 0.85}}
    return {"checks": {"perf.collectives.sizes": {"shares": shares, "observations": rows}}}


def test_sizes_stand_in_their_order_and_limits_where_they_are() -> None:
    """Ten times the bandwidth is as far up everywhere, and 1 MiB half way from 1 KiB to 1 GiB."""
    (curve,) = curves(results({"1 GiB": 100.0, "1 KiB": 1.0, "1 MiB": 10.0}))
    first, middle, last = curve.marks

    assert [mark.words for mark in curve.marks] == ["1 KiB: 1", "1 MiB: 10", "1 GiB: 100"]
    assert middle.x - first.x == pytest.approx(last.x - middle.x, abs=0.2)
    assert first.y - middle.y == pytest.approx(middle.y - last.y, abs=0.2)
    assert first.y > last.y
    fail = float(curve.limits["fail"].split()[0].split(",")[1])
    warn = float(curve.limits["warn"].split()[0].split(",")[1])
    assert last.y < warn < fail < middle.y
    assert curve.summary == "100 at 1 GiB, at most 100 at 1 GiB"


@pytest.mark.parametrize("value", [None, 0, -1.0, True, "fast"])
def test_what_is_no_figure_has_no_place(value: object) -> None:
    """It is said among the findings; a curve goes on without it."""
    (curve,) = curves(results({"8 B": 1.0, "64 B": value, "1 KiB": 2.0}))
    assert [mark.words for mark in curve.marks] == ["8 B: 1", "1 KiB: 2"]


@pytest.mark.parametrize("values", [{"8 B": 1.0}, {"large": 1.0, "0 B": 1.0, "8 XB": 2.0}, {}])
def test_fewer_than_two_sizes_are_no_curve(values: dict[str, object]) -> None:
    """Nor are words that are no sizes."""
    assert curves(results(values)) == []


def test_without_a_reference_there_is_no_limit_to_draw() -> None:
    """As on a processor, where figures are shown and not judged."""
    (curve,) = curves(results({"8 B": 1.0, "1 KiB": 2.0}, reference=None))
    assert curve.limits == {}


def test_labels_do_not_run_into_each_other() -> None:
    """And the last size is always named."""
    (curve,) = curves(results({f"{8**power} B": float(power + 1) for power in range(12)}))
    places = [label.place for label in curve.across]

    assert min(after - before for before, after in pairwise(places)) > 60
    assert curve.across[-1].text == f"{8**11} B"


def test_a_recorded_dip_is_below_the_line_and_named() -> None:
    """In the results of the real suite, and on the page."""
    found = judge(build("perf-exchange-dip")).results
    drawn = {curve.name: curve for curve in curves(found)}

    assert set(drawn) == {"all_reduce hgx", "all_gather hgx", "reduce_scatter hgx", "all_to_all hgx"}
    dip = drawn["all_reduce hgx"]
    assert [mark.verdict for mark in dip.marks] == ["pass"] * 11 + ["fail"]
    assert dip.marks[-1].y > float(dip.limits["fail"].split()[-1].split(",")[1])
    assert dip.summary.endswith("out of order at 16 GiB")
    assert html.render(found).count('class="strip curve"') == 4
