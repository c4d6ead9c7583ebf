"""The local target: the real probe on this machine, and everything that can cut it short."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NoReturn

import pytest

from gpuassay.evidence.meta import Meta
from gpuassay.evidence.recording import read_recording
from gpuassay.evidence.writer import RecordingWriter
from gpuassay.probe.frames import frame
from gpuassay.probe.items import QUESTIONS
from gpuassay.probe.main import answered
from gpuassay.target.answers import Answers
from gpuassay.target.local import Local
from gpuassay.target.progress import Tally
from probing import Mark

if TYPE_CHECKING:
    from pathlib import Path

    from gpuassay.evidence.item import Item

NODE = Local().declared()[0]


class Notebook:
    """A writer that only remembers."""

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}

    def add(self, node: str, item: Item) -> None:
        """Remember an item of this node."""
        assert node == NODE
        assert item.id not in self.items
        assert item.seq > max((known.seq for known in self.items.values()), default=0)
        self.items[item.id] = item

    def add_cluster(self, item: Item) -> None:
        """Refuse: a machine alone is no cluster."""
        raise AssertionError(item)


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Mark:
    """Mark all that the probe starts."""
    mark = Mark()
    for name, value in mark.environment.items():
        monkeypatch.setenv(name, value)
    return mark


def quiet() -> Tally:
    """Hear of the progress and keep it for oneself."""
    return Tally(1, lambda _line: None)


def gather(python: str = sys.executable, deadline_s: float = 60) -> dict[str, Item]:
    """Gather from this machine with a Python and a deadline."""
    notebook = Notebook()
    Local(python, deadline_s).gather(notebook, quiet())
    return notebook.items


def script(path: Path, text: str) -> str:
    """Write a program; REAL in it stands for this Python."""
    path.write_text(f"#!/bin/sh\n{text.replace('REAL', sys.executable)}\n")
    path.chmod(0o700)
    return str(path)


def test_this_machine(mark: Mark) -> None:
    """Every question is answered in order, documents can be read, and nothing is left running."""
    lines: list[str] = []
    notebook = Notebook()
    Local().gather(notebook, Tally(1, lines.append))
    items = notebook.items
    answers = {
        item.id: {"status": item.status, "out": item.out.decode(errors="replace")} for item in items.values()
    }
    assert list(items) == [
        question.id for question in QUESTIONS if not (question.unless and answered(question.unless, answers))
    ]
    assert json.loads(items["host"].out)["hostname"].partition(".")[0] == NODE
    assert items["uptime"].asked == {"file": "/proc/uptime"}
    for item in items.values():
        assert item.status == "ok" or item.why
        if item.status == "ok" and {"tree", "library"} & item.asked.keys() and item.id != "kmsg":
            assert isinstance(json.loads(item.out), dict)
    assert lines[0] == f"0 of 1 nodes done; {NODE}: host (1 of {len(QUESTIONS)})"
    assert lines[-1] == "1 of 1 nodes done"
    assert len(lines) == len(items) + 1
    assert mark.survivors() == []


def test_a_recording_of_this_machine(tmp_path: Path) -> None:
    """What the target gathers is a recording without problems, sealed and declared under the same name."""
    now = datetime.now(UTC)
    writer = RecordingWriter(
        tmp_path, Meta(target="local", probe="test", declared=Local().declared(), begin=now)
    )
    Local().gather(writer, quiet())
    writer.finish(now)
    recording = read_recording(tmp_path)
    assert list(recording.nodes) == [NODE]
    assert recording.nodes[NODE].problems == ()
    assert recording.seal == "sealed"


def test_a_probe_that_dies_in_the_middle(tmp_path: Path, mark: Mark) -> None:
    """What it sent is kept; that it died is an item, and the reason of every question it did not answer."""
    items = gather(script(tmp_path / "python", 'REAL "$@" | head -c 2000'))
    assert items["host"].status == "ok"
    assert items["probe"].status == "failed"
    assert items["probe"].why.startswith("the probe ended early: exit ")
    missing = [item for item in items.values() if item.why == items["probe"].why and item.id != "probe"]
    assert {"nvml", "nvidia-smi-xml"} <= {item.id for item in missing}
    assert {item.status for item in missing} == {"failed"}
    assert set(items) == {"probe", *(question.id for question in QUESTIONS)}
    assert mark.survivors() == []


def test_a_probe_that_is_killed(tmp_path: Path) -> None:
    """One that the kernel killed is said to be."""
    items = gather(script(tmp_path / "python", "kill -9 $$"))
    assert items["probe"].why == "the probe ended early: killed by signal 9"


def test_a_probe_that_does_not_start(tmp_path: Path) -> None:
    """Every question has failed, and what the Python said is kept."""
    items = gather(script(tmp_path / "python", "echo too old >&2; exit 3"))
    assert items["probe"].why == "the probe ended early: exit 3"
    assert items["probe"].err == "too old\n"
    assert {item.status for item in items.values()} == {"failed"}
    assert set(items) == {"probe", *(question.id for question in QUESTIONS)}


def test_a_probe_that_does_not_end(tmp_path: Path, mark: Mark) -> None:
    """At the deadline it is ended, also one that ignores that; what is missing is timed out."""
    items = gather(script(tmp_path / "python", "exec sleep 1000"), deadline_s=0.3)
    assert {item.status for item in items.values()} == {"timed_out"}
    assert items["probe"].why == "the probe was not done within 0.3 s"
    assert mark.survivors() == []


def test_a_damaged_line(tmp_path: Path) -> None:
    """The item of a damaged line has failed, the others are as they were, and the damage is told."""
    items = gather(script(tmp_path / "python", 'REAL "$@" | sed "3s/.......$/damaged/"'))
    assert items["boot-id"].status == "failed"
    assert "a line of the probe is damaged" in items["boot-id"].why
    assert items["uptime"].status == "ok"
    assert items["probe"].why == items["boot-id"].why


def test_noise_in_between(tmp_path: Path) -> None:
    """Greetings and warnings on the same channel are no evidence and no harm."""
    items = gather(script(tmp_path / "python", 'echo Welcome; printf "no line end: "; REAL "$@"; echo bye'))
    assert "probe" not in items
    assert items["host"].status == "ok"


def test_an_exception_ends_the_probe(mark: Mark) -> None:
    """Ctrl-C, at any moment, leaves nothing running."""

    def interrupt(_line: str) -> NoReturn:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Local().gather(Notebook(), Tally(1, interrupt))
    assert mark.survivors() == []


GATHER = """
from gpuassay.target.local import Local
from gpuassay.target.progress import Tally
class Writer:
    def add(self, node, item): pass
Local().gather(Writer(), Tally(1, lambda line: None))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_controller_that_is_ended(tmp_path: Path, number: int) -> None:
    """However it ends while a tool hangs on the node, the probe finds out, and ends the tool and itself."""
    mark = Mark()
    started = tmp_path / "started"
    os.mkfifo(started)
    script(tmp_path / "systemd-detect-virt", f"trap '' TERM\nsleep 1000 &\necho > {started}\nsleep 1000")
    environment = {
        **os.environ,
        **mark.environment,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    controller = subprocess.Popen([sys.executable, "-c", GATHER], env=environment, stderr=subprocess.PIPE)
    started.read_text()
    controller.send_signal(number)
    controller.communicate()
    assert controller.returncode == -number
    assert mark.survivors() == []


def test_a_node_that_says_one_thing_without_end(tmp_path: Path) -> None:
    """However often an answer comes again, no more is written down than a probe could have to say."""
    now = datetime.now(UTC)
    writer = RecordingWriter(tmp_path, Meta(target="local", probe="test", declared=("n1",), begin=now))
    answers = Answers("n1", writer, quiet())
    line = frame({"item": {"id": "host", "seq": 1, "status": "ok"}})
    assert not any(answers.take(line) for _ in range(20 * len(QUESTIONS)))
    writer.finish(now)
    assert len(read_recording(tmp_path).nodes["n1"].items) == 10 * len(QUESTIONS)
