"""Bars by tier: the slowest node of each, as long as its time, with the limits; nothing else is drawn."""

from __future__ import annotations

from typing import Any

import pytest

from gpuassay.report import html
from gpuassay.report.bars import LEFT, bars
from recorded import build
from recorded.judge import judge

LIMITS = {"warm_seconds": "fail above 10, warn above 3, no platinum above 2 s"}


def results(*told: tuple[str, str, object, str]) -> dict[str, Any]:
    """Give results of one check: tier, place, value and verdict."""
    rows = [
        {"metric": "warm_seconds", "at": {"tier": tier}, "where": where, "value": value, "verdict": verdict}
        for tier, where, value, verdict in told
    ]
    return {"checks": {"perf.lifecycle.import": {"limits": LIMITS, "observations": rows}}}


def test_the_slowest_node_of_a_tier_is_its_bar() -> None:
    """Twice the time is twice as long, and the limits are on the same scale."""
    (one,) = bars(
        results(("/a", "n1/a", 2.0, "pass"), ("/a", "n2/a", 4.0, "warn"), ("/b", "n1/b", 8.0, "warn"))
    )
    first, second = one.bars

    assert [bar.words for bar in one.bars] == ["4 s, n2/a", "8 s, n1/b"]
    assert second.width == pytest.approx(2 * first.width, abs=0.2)
    assert {bound.level: bound.label for bound in one.bounds} == {"fail": "10", "warn": "3", "platinum": "2"}
    assert one.bounds[0].x - LEFT == pytest.approx(second.width * 10 / 8, abs=0.2)
    assert one.summary == "slowest of each tier: /a 4 s, /b 8 s; out of order: /a, /b"


@pytest.mark.parametrize("value", [None, 0, -1.0, True, "fast", float("nan"), float("inf")])
def test_what_is_no_time_has_no_bar(value: object) -> None:
    """It is said among the findings."""
    (one,) = bars(results(("/a", "n1/a", 2.0, "pass"), ("/b", "n1/b", value, "error")))
    assert [bar.name for bar in one.bars] == ["/a"]
    assert bars(results(("/b", "n1/b", value, "error"))) == []


def test_a_report_draws_the_slow_import() -> None:
    """In the tier's own bar, with the node that it was; a run without such figures has no such part."""
    page = html.render(judge(build("perf-import-slow")).results)
    assert 'id="waits"' in page
    assert "13.9 s, gpu002/home" in page
    assert 'id="waits"' not in html.render(judge(build("hgx-b200-4")).results)
