"""Signals to ranks: to one of the job's own, and to nobody else's."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gpuassay.fault.node import rank_signal
from gpuassay.fault.node.rank_signal import RankSignal
from gpuassay.fault.node.words import Blocked, NotRestored, Refused
from nodefault import MARK, broken

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = "assayrank"
_RANK = (
    f"import sys; open('/proc/self/comm', 'w').write('{_NAME}'); print('up', flush=True); sys.stdin.read()"
)


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """Start a rank that has the mark of the trial."""
    for name in ("_SOON_S", "_BEGUN_S"):
        monkeypatch.setattr(rank_signal, name, 0.2)
    argv, marked = [sys.executable, "-c", _RANK], {**os.environ, rank_signal.MARK: MARK}
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=marked) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def fault(how: str = "stop", mark: str = MARK) -> RankSignal:
    """Make the fault on this machine."""
    return RankSignal({"mark": mark, "process": _NAME, "how": how})


def test_a_rank_is_stopped_and_goes_on(rank: subprocess.Popen[bytes]) -> None:
    """The kernel shows it as stopped, until it is undone."""
    ours = fault()
    state = broken(ours)
    assert state["pid"] == rank.pid
    with pytest.raises(NotRestored, match="is stopped still"):
        ours.verify_undone(state)
    ours.undo(state)
    ours.undo(state)
    assert "is not stopped" in ours.verify_undone(state)
    assert rank.poll() is None


def test_a_rank_is_killed_for_good(rank: subprocess.Popen[bytes]) -> None:
    """A killed one is gone, which the plan says has no undo."""
    ours = fault("kill")
    plan = ours.plan()
    assert plan.undoes == ()
    assert "does not come back" in plan.warns[0]
    broken(ours)
    assert rank.wait() == -9
    with pytest.raises(Blocked, match="not the process any more"):
        ours.inject(plan.state)


@pytest.mark.parametrize("mark", ["another", ""])
def test_ranks_of_others_are_left_alone(rank: subprocess.Popen[bytes], mark: str) -> None:
    """A process of that name which was started for another trial, or for none, is none of ours."""
    with pytest.raises(Refused, match="runs here that was started for this trial"):
        fault(mark=mark).plan()
    with pytest.raises(Refused, match="expected one of kill, stop"):
        fault("hang").plan()
    assert rank.poll() is None
