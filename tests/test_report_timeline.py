"""The timeline of a fault: its times in order, each state a stretch, and the events beneath."""

from __future__ import annotations

from pathlib import Path

from gpuassay.report import html
from gpuassay.report.timeline import timelines
from recorded.judge import judge

HEALTHY = Path(__file__).parents[1] / "fixtures" / "recorded"


def test_a_trial_is_drawn_once_with_all_its_times() -> None:
    """Two checks look at one trial: there is one picture, and it says what the stopwatch read."""
    results = judge(HEALTHY / "slurm-b200-4" / "recording").results
    every = timelines(results)
    assert not [drawn for drawn in every if drawn.check.endswith("frozen_scheduler_daemon")]
    (one,) = (drawn for drawn in every if drawn.check.endswith("frozen_node_replaced"))

    assert [moment["what"] for moment in one.told["moments"]] == [
        "detected",
        "isolated",
        "notified",
        "replaced",
        "restored",
    ]
    node = next(lane for lane in one.lanes if lane.name == "slurm-node")
    assert [span.text for span in node.spans] == ["in service", "out of service", "in service"]
    assert node.spans[0].x + node.spans[0].width == node.spans[1].x
    assert [label.place for label in one.marks] == sorted(label.place for label in one.marks)
    page = html.render(results)
    assert 'id="faults"' in page
    assert "right of reply" in page


def test_a_run_in_which_nothing_was_broken_has_no_such_part() -> None:
    """Nothing is drawn where there is no trial."""
    results = judge(HEALTHY / "hgx-b200-4" / "recording").results
    assert timelines(results) == []
    assert 'id="faults"' not in html.render(results)


def test_a_wave_of_reboots_is_one_picture_with_a_lane_for_each_node() -> None:
    """Both nodes of a wave stand below each other, by one clock that begins with the order."""
    every = timelines(judge(HEALTHY / "slurm-b200-4" / "recording").results)
    first, second = (drawn for drawn in every if drawn.told["fault"] == "reboot")
    assert (first.told["node"], second.told["node"]) == ("gpu[001-002]", "gpu[003-004]")
    assert [lane.name for lane in first.lanes] == ["gpu001", "gpu002"]
    for lane in first.lanes:
        assert [span.text for span in lane.spans] == ["in service", "out of service", "in service"]
    assert [(one["what"], one["s"]) for one in first.told["moments"]] == [("down", 1.8), ("back", 410.3)]
    assert "2 of 2 nodes are back" in first.summary
