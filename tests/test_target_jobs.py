"""Jobs: ranks that work, die, hang or print without end; each has a result, none is left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gpuassay.probe import launch
from gpuassay.target import Job
from gpuassay.target.jobs import IMAGE, in_image
from gpuassay.target.local import Local
from gpuassay.target.progress import Tally
from probing import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpuassay.evidence.item import Item

NODE = Local().declared()[0]

RANKS = """
import os, signal, sys, time, json
rank = int(os.environ["LOCAL_RANK"])
if rank == 0:
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "GIVEN")
    print(json.dumps({name: os.environ[name] for name in names}))
elif rank == 1:
    print("begun", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)
elif rank == 2:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()  # as torchrun does with its workers
    time.sleep(1000)
else:
    while True:
        print("x" * 65536)
"""


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mark]:
    """Mark all that a job starts."""
    mark = Mark()
    for name, value in mark.environment.items():
        monkeypatch.setenv(name, value)
    yield mark
    mark.end()


def run(job: Job, python: str = sys.executable) -> list[Item]:
    """Run a job here; give what came of its ranks in their order."""
    results = Local(python).run(job, Tally(1, lambda _line: None))
    assert list(results) == [(NODE, local) for local in range(job.ranks)]
    return list(results.values())


def python(code: str, *, ranks: int = 1, deadline_s: float = 30) -> Job:
    """Make a job of a piece of Python."""
    argv = (sys.executable, "-c", code)
    return Job("job", argv, (NODE,), ranks, {"GIVEN": "by the job"}, deadline_s=deadline_s)


def test_four_ranks(mark: Mark) -> None:
    """One works, one dies, one hangs, one prints without end: all are told of, all have ended in time."""
    well, dead, hung, endless = run(python(RANKS, ranks=4, deadline_s=3))
    assert (well.status, json.loads(well.out)) == (
        "ok",
        {
            "RANK": "0",
            "LOCAL_RANK": "0",
            "WORLD_SIZE": "4",
            "LOCAL_WORLD_SIZE": "4",
            "GROUP_RANK": "0",
            "MASTER_ADDR": "127.0.0.1",
            "GIVEN": "by the job",
        },
    )
    assert (dead.status, dead.out, dead.why) == ("failed", b"begun\n", "killed by SIGSEGV")
    assert dead.seconds is not None
    assert dead.seconds < 3
    assert (hung.status, hung.why) == ("timed_out", "no end within 3 s; killed by SIGKILL")
    assert (endless.status, endless.truncated, len(endless.out)) == ("timed_out", True, 16 << 20)
    assert mark.survivors() == []


def test_a_program_that_is_not_there() -> None:
    """Each rank says so; that is not a launcher that failed."""
    items = run(Job("job", ("gpuassay-no-such-program",), (NODE,), ranks=2))
    assert {(item.status, item.why) for item in items} == {
        ("not_found", "gpuassay-no-such-program: No such file or directory")
    }


def test_a_launcher_that_does_not_start(tmp_path: Path) -> None:
    """No rank has a result; each has the reason, and what was said on the way."""
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no such luck >&2; exit 3\n")
    broken.chmod(0o700)
    items = run(python("", ranks=2), str(broken))
    assert {(item.status, item.why, item.err) for item in items} == {
        ("failed", "the launcher ended early: exit 3", "no such luck\n")
    }


def test_a_result_that_comes_garbled(tmp_path: Path) -> None:
    """The rank whose line is damaged has failed and says so; the other one's result stands."""
    lossy = tmp_path / "python"
    lossy.write_text(f'#!/bin/sh\n{sys.executable} "$@" | sed "1s/.......$/damaged/"\n')
    lossy.chmod(0o700)
    items = run(python("pass", ranks=2), str(lossy))
    assert sorted(item.status for item in items) == ["failed", "ok"]
    assert any("a line of the probe is damaged" in item.why for item in items)


CONTROLLER = """
import sys
from gpuassay.target import Job
from gpuassay.target.local import Local
from gpuassay.target.progress import Tally
node = Local().declared()[0]
code = "import os, sys, time; os.fork() or os.setsid(); open(sys.argv[1], 'w').write('x'); time.sleep(1000)"
job = Job("job", (sys.executable, "-c", code, sys.argv[1]), (node,), 2)
Local().run(job, Tally(1, lambda line: None))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_cancelling_cancels(tmp_path: Path, mark: Mark, number: int) -> None:
    """However the controller ends, all ranks end, and what they started in sessions of its own."""
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    controller = subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, str(begun)], env=environment, stderr=subprocess.PIPE
    )
    assert begun.read_text().startswith("x")
    controller.send_signal(number)
    controller.communicate()
    assert controller.returncode == -number
    assert mark.survivors() == []


def test_a_rank_is_told_its_image_and_finds_what_a_module_brings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A site's environment module may bring torch by PYTHONPATH; what else a session holds stays there."""
    monkeypatch.setenv(launch.MODULES, "/opt/modules/torch/2.13")
    monkeypatch.setenv("SECRET_TOKEN", "x")
    job = in_image(Job("gemm", ("true",), ("n1",)), "registry.example.com/torch@sha256:0123abcd")
    part = {"environment": dict(job.environment), "ranks": 1, "group_rank": 0, "world_size": 1}
    found = launch.environment({**part, "master_addr": "n1", "master_port": 20000}, 0)

    assert found[IMAGE] == "registry.example.com/torch@sha256:0123abcd"
    assert found["PYTHONPATH"] == "/opt/modules/torch/2.13"
    assert "SECRET_TOKEN" not in found
    assert in_image(job, "") is job
