"""A run that may take only so long: what does not fit is not run, says so, and is no fault of any node."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuassay.evidence.meta import Meta
from gpuassay.evidence.recording import read_recording
from gpuassay.evidence.run import RunFolder
from gpuassay.evidence.writer import RecordingWriter
from gpuassay.facts import fleet
from gpuassay.gathering import runner
from gpuassay.judge.fact import Unread
from gpuassay.judge.site import undeclared
from gpuassay.options import until
from gpuassay.probe.frames import frame
from gpuassay.session import Request
from gpuassay.suite import load_suite
from gpuassay.target import Job, TargetError
from gpuassay.target.answers import WIDTH, ask_nodes
from gpuassay.target.channel import Command, Ending
from gpuassay.watching import Watch

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
WHY = "the budget was used up before this node had answered"


@dataclass(frozen=True)
class Prompt:
    """A channel to a node that answers one question at once, and that this is all."""

    node: str

    async def talk(self, _feed: bytes, _deadline_s: float, take: Callable[[bytes], bool]) -> Ending:
        """Answer."""
        take(frame({"item": {"id": "uptime", "seq": 1, "status": "ok", "out": "7200.00 1.00\n"}}))
        assert take(frame({"end": {"items": 1}}))
        return Ending()


def test_nodes_that_do_not_fit_are_not_run(tmp_path: Path) -> None:
    """More nodes hang than are asked at once; all have ended with the budget, and none is in error."""
    hung = [Command(f"hung{number:02}", ("sleep", "1000")) for number in range(WIDTH + 1)]
    names = ["prompt", *(channel.node for channel in hung)]
    now = datetime.now(UTC)
    writer = RecordingWriter(
        tmp_path / "recording", Meta(target="ssh", probe="test", declared=tuple(names), begin=now)
    )
    end = time.monotonic() + 1
    with Watch(RunFolder(tmp_path), "gathering", names, lambda _line: None, end) as watch:
        ask_nodes([Prompt("prompt"), *hung], writer, watch)
    writer.finish(now)

    nodes = fleet(read_recording(tmp_path / "recording"), undeclared(load_suite(ROOT).catalog)).nodes
    facts = {node.name: node.uptime_hours for node in nodes}
    assert facts.pop("prompt").evidence == "nodes/prompt#1"
    assert len(facts) == WIDTH + 1
    assert set(facts.values()) == {Unread("not_asked", WHY)}
    assert all(node.silence is None for node in nodes)


def test_a_measurement_that_may_not_fit_is_not_begun(tmp_path: Path) -> None:
    """It is not cut in the middle, which would look like a failure; it says how much it lacks."""
    request = Request(ROOT, until=until(60))
    site = undeclared(load_suite(ROOT).catalog)
    job = Job("gemm", ("true",), ("localhost",), deadline_s=600)
    with pytest.raises(TargetError, match=r"budget: it may take 600 s, and ([1-5][0-9]|60) s are left"):
        runner(request, site, RunFolder(tmp_path), print)(job)
    with pytest.raises(TargetError, match="and 0 s are left"):
        runner(replace(request, until=until(0) - 1), site, RunFolder(tmp_path), print)(
            replace(job, deadline_s=1)
        )
    assert list(tmp_path.iterdir()) == []
