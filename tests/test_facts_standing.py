"""Which nodes are out of service, and why nothing came from others: by the scheduler's word and their own."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from facts_evidence import absent, node, small, unread, value
from gpuassay.evidence.item import Item
from gpuassay.evidence.meta import Meta
from gpuassay.evidence.recording import Recording, read_recording
from gpuassay.evidence.writer import RecordingWriter
from gpuassay.facts import fleet
from gpuassay.facts.standing import scheduled_out
from gpuassay.judge.fact import Unread
from gpuassay.judge.site import undeclared
from gpuassay.suite import load_suite
from recorded.judge import ROOT, judge_named

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


NOW = datetime(2026, 11, 30, tzinfo=UTC)
SITE = undeclared(load_suite(ROOT).catalog)


def recording(folder: Path, nodes: Mapping[str, list[Item]], states: Mapping[str, str]) -> Recording:
    """Write and read a recording in which Slurm says these states."""
    writer = RecordingWriter(folder, Meta(target="slurm", probe="test", declared=(*nodes,), begin=NOW))
    shown = "\n\n".join(f"NodeName={name} State={state}\n   Reason=fan" for name, state in states.items())
    writer.add_cluster(Item("slurm/nodes", 1, out=shown.encode()))
    for name, items in nodes.items():
        for item in items:
            writer.add(name, item)
    writer.finish(NOW)
    return read_recording(folder)


def test_drained_nodes_are_out_of_service(tmp_path: Path) -> None:
    """Alike ones stand in one row with Slurm's reason; nodes that nobody declared are not spoken of."""
    states = {"n1": "IDLE", "n2": "IDLE+DRAIN", "n3": "IDLE+DRAIN", "n4": "DOWN*", "n9": "IDLE+DRAIN"}
    found = recording(tmp_path, {name: [] for name in ("n1", "n2", "n3", "n4")}, states)
    (out,) = scheduled_out(found, SITE)
    assert out.document() == {
        "where": "n[2-3]",
        "until": None,
        "reason": "Slurm says IDLE+DRAIN: fan",
        "expired": False,
        "source": "Slurm",
    }
    seen = fleet(found, SITE.without([out]))
    assert [one.name for one in seen.nodes] == ["n1", "n4"]
    assert seen.out == ("n2", "n3")
    assert scheduled_out(found, SITE.without([out])) == ()


@pytest.mark.parametrize("status", ["failed", "timed_out", "denied", "not_found"])
def test_a_node_of_which_only_the_reason_came(tmp_path: Path, status: Any) -> None:
    """It is silent for that reason, and every fact of it is unread in that way."""
    told = Item("probe", 1, status, why="the probe was late")
    nothing = Item("nvml", 2, status, why="the probe was late")
    (silent,) = fleet(recording(tmp_path, {"n1": [told, nothing]}, {}), SITE).nodes
    assert silent.silence == Unread(status, "the probe was late", "nodes/n1#1")
    assert unread(silent.uptime_hours).kind == status


def test_a_node_of_which_something_came(tmp_path: Path) -> None:
    """It is not silent, whatever became of its probe."""
    items = [Item("uptime", 1, out=b"7200.00 1.00\n"), Item("probe", 2, "timed_out", why="late")]
    (heard,) = fleet(recording(tmp_path, {"n1": items}, {}), SITE).nodes
    assert heard.silence is None
    assert value(heard.uptime_hours) == 2.0


def test_gpus_that_a_job_holds_are_not_idle() -> None:
    """Where they may not be looked at, no load is put on them."""
    held = node(small(nvml=absent("denied", "busy: held by job 12")))
    assert held.busy == "whether its GPUs are idle is not known: busy: held by job 12"


def test_a_cluster_with_a_drained_a_down_and_a_busy_node() -> None:
    """The drained one is out, though the site file says nothing; one is an error, the other's GPUs unseen."""
    results = judge_named("slurm-states").results
    assert results["coverage"]["nodes"] == {"declared": 4, "answered": 2, "out": 1}
    assert [(out["where"], out["source"]) for out in results["out_of_service"]] == [("gpu004", "Slurm")]
    rows = results["checks"]["audit.health.row_remaps"]["observations"]
    verdicts = {row["where"].partition("/")[0]: row["verdict"] for row in rows}
    assert verdicts == {"gpu001": "pass", "gpu002": "unseen", "gpu003": "error"}
    rows = results["checks"]["audit.host.memlock"]["observations"]
    assert {row["where"]: row["verdict"] for row in rows} == {"gpu[001-002]": "pass", "gpu003": "error"}


def test_a_node_that_slurm_knows_by_another_host_name(tmp_path: Path) -> None:
    """It may call itself as Slurm calls it, or its host; by any other name it is another machine."""
    for place, (hostname, right) in enumerate([("n1", True), ("worker-1", True), ("elsewhere", False)]):
        host = Item("host", 1, out=b'{"hostname": "%s.example.com"}' % hostname.encode())
        states = {"n1": "IDLE NodeHostName=worker-1"}
        (seen,) = fleet(recording(tmp_path / str(place), {"n1": [host]}, states), SITE).nodes
        assert value(seen.is_called_so) is right
