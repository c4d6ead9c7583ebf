"""The travelling probe on a node of eight GPUs: few processes, and nothing left behind."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

import fakenode
from probing import Mark

if TYPE_CHECKING:
    from pathlib import Path

PROCESSES = 60  # the most that a run may start, the probe itself included


@pytest.fixture
def node(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a node."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed: apt-get install strace")
    return fakenode.environment(tmp_path, os.environ["PATH"])


def test_a_healthy_node_is_asked_with_few_processes_and_keeps_none_of_it(
    node: dict[str, str], tmp_path: Path
) -> None:
    """All eight GPUs are told of; no file is made, changed or opened for writing, and no folder filled."""
    run = fakenode.run(node, tmp_path / "strace")
    assert (run.ended, run.gpus) == (True, 8)
    assert 2 < run.processes <= PROCESSES
    assert run.changes == []
    assert [*(tmp_path / "home").iterdir(), *(tmp_path / "scratch").iterdir()] == []


def test_a_node_whose_driver_gives_no_answer(node: dict[str, str], tmp_path: Path) -> None:
    """Where other tools have to be asked instead, they are few too, and no trace stays."""
    run = fakenode.run({**node, "LD_LIBRARY_PATH": "/nowhere"}, tmp_path / "strace")
    assert run.answers["nvidia-smi-xml"]["status"] == "ok"
    assert run.processes <= PROCESSES
    assert run.changes == []


def test_a_tool_that_leaves_a_process_running(node: dict[str, str], tmp_path: Path) -> None:
    """What a tool has started is ended with it."""
    mark = Mark()
    fakenode.tool(tmp_path, "nvidia-imex-ctl", "sleep 1000 &\necho started")
    try:
        run = fakenode.run({**node, **mark.environment})
        assert run.answers["imex"]["out"] == "started\n"
        assert mark.survivors() == []
    finally:
        mark.end()


@pytest.mark.parametrize("script", ["echo > left", "mkdir left", "touch left && rm left"])
def test_a_tool_that_writes_would_be_noticed(script: str, node: dict[str, str], tmp_path: Path) -> None:
    """The tests above can fail: what a tool writes is seen, also what it takes away again."""
    fakenode.tool(tmp_path, "nvidia-imex-ctl", f"cd {tmp_path}/home && {script}")
    run = fakenode.run(node, tmp_path / "strace")
    assert any("left" in line for line in run.changes)
