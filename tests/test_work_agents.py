"""A server that we start on a node: it comes up, agents talk to it, and it is gone whatever ends us."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.facts.record import Record
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure import errand
from gpuassay.measure.agents import Agents, ServedNode
from gpuassay.measure.work import agents, kept, serving
from gpuassay.measure.work.dialogues import dialogues
from gpuassay.target import Job
from gpuassay.target.local import Local
from gpuassay.target.progress import Tally
from standin import Place
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ARGS: dict[str, Any] = {
    "model": "small",
    "hidden": 64,
    "layers": 2,
    "heads": 4,
    "kv_heads": 2,
    "intermediate": 128,
    "vocab": 320,
    "dialogues": 32,
    "turns": 8,
    "at_once": 16,
    "shared": 3000,
    "added": 800,
    "short": 48,
    "long": 512,
    "seconds": 20,
    "warm": True,
    "patience_s": 30,
}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Give a place; whatever is left of its server is ended."""
    made = Place(tmp_path / "python")
    yield made
    made.end()


def feed(**more: Any) -> bytes:
    """Pack the order of one node without a GPU, as the suite packs it."""
    return errand.pack({**Agents().order({**ARGS, **more}), "gpus": [0]})


def run(environment: dict[str, str], deadline_s: float = 120.0, **more: Any) -> Any:
    """Run it on this machine; gives what came back."""
    here = Local()
    job = Job("x", errand.ARGV, here.declared(), 1, environment, deadline_s=deadline_s, feed=feed(**more))
    (item,) = here.run(job, Tally(1, lambda _line: None)).values()
    return item


def row(environment: dict[str, str], **more: Any) -> dict[str, Any]:
    """Give its one row."""
    (found,) = json.loads(run(environment, **more).out)["rows"]
    return dict(found)


def node(found: dict[str, Any]) -> ServedNode:
    """Read a row as it is read from a recording."""
    return ServedNode("n1", "n1", (), Record(found, "m#1"))


def test_agents_are_answered_and_all_of_it_is_gone(place: Place) -> None:
    """The server, its child and the folder; each turn has its times, and tokens by the server's count."""
    told = row(place.put("well"))
    served = node(told)

    assert served.failed_share == Read(0.0, "m#1")
    assert served.left_behind == Read(value=False, evidence="m#1")
    assert served.truncated == Read(0, "m#1")
    assert served.requests == Read(8, "m#1")
    for figure in (served.ttft_p99_s, served.tpot_p99_s, served.tokens_per_s_per_gpu, served.ready_seconds):
        assert isinstance(figure, Read), figure
    assert (place.ran, place.alive, place.folders) == (True, [], [])
    assert "--served-model-name gpuassay" in " ".join(told["command"])


@pytest.mark.parametrize(
    ("how", "more", "words"),
    [
        ("dies", {}, "the server ended: CUDA out of memory, or something like it"),
        ("slow", {"patience_s": 3}, "the server was not ready in time: it said nothing"),
    ],
)
def test_a_server_that_does_not_come_up_says_why(
    place: Place, how: str, more: dict[str, Any], words: str
) -> None:
    """With its last words, and no figure; what it had started by then is gone too."""
    served = node(row(place.put(how), **more))

    assert isinstance(served.ready_seconds, Unread)
    assert isinstance(served.told, Unread)
    assert words in served.ready_seconds.why
    assert (place.alive, place.folders) == ([], [])


@pytest.mark.parametrize(
    ("how", "truncated", "words"), [("half", 4, "ended before its end"), ("busy", 0, "500")]
)
def test_answers_that_fail_are_told(place: Place, how: str, truncated: int, words: str) -> None:
    """A stream without its end, and a status that is an error: no request counts as answered."""
    served = node(row(place.put(how)))

    assert isinstance(served.failed_share, Read)
    assert served.failed_share.value == 1.0
    assert words in served.failed_share.note
    assert served.truncated == Read(truncated, "m#1")
    assert isinstance(served.tokens_per_s_per_gpu, Unread)


def test_a_rank_that_is_killed_takes_the_server_along(place: Place) -> None:
    """By SIGKILL, which it cannot catch, while the server comes up: the keeper ends it and its child."""
    environment = {**os.environ, **place.put("slow"), "RANK": "0"}
    argv = [sys.executable, *errand.ARGV[1:]]
    quiet: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
    }
    rank = subprocess.Popen(argv, env=environment, **quiet)
    assert rank.stdin
    rank.stdin.write(feed())
    rank.stdin.close()
    wait_until(lambda: len(place.alive) == 2)
    rank.kill()
    rank.wait()
    wait_until(lambda: not place.alive)
    wait_until(lambda: not place.folders)


def test_a_job_that_is_ended_at_its_deadline_leaves_nothing(place: Place) -> None:
    """As after Ctrl-C: the target ends the rank, and the server is gone with it."""
    item = run(place.put("slow"), deadline_s=8.0)

    assert item.status != "ok"
    assert place.ran
    wait_until(lambda: not place.alive)


def test_what_stays_behind_is_named(tmp_path: Path) -> None:
    """A server whose port somebody still holds after it was ended: said, and it is no pass."""
    script = tmp_path / "stray.py"
    script.write_text(
        "import socket, subprocess, sys\n"
        "server = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
        "server.set_inheritable(True)\n"
        "child = subprocess.Popen(['sleep', '600'], pass_fds=[server.fileno()], start_new_session=True)\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n"
        "child.wait()\n",
        encoding="utf-8",
    )
    port = serving.free_port()
    with kept.Kept((sys.executable, str(script), str(port)), tmp_path, {}, tmp_path / "log"):
        wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    try:
        left = agents._open(port)  # noqa: SLF001 - what the row has of it
        assert left == [f"port {port} is open"]
        served = node({"status": "ok", "left": left})
        assert served.left_behind == Read(value=True, evidence="m#1", note=left[0])
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_a_python_without_vllm_says_how_to_get_it() -> None:
    """Nothing stands in for it."""
    served = node(row({"PYTHONPATH": ""}))
    assert isinstance(served.told, Unread)
    assert (served.told.kind, "pip install vllm" in served.told.why) == ("not_found", True)


def test_a_model_is_spread_over_as_many_gpus_as_it_has_heads_to_share() -> None:
    """A power of two: four of six, and eight of sixteen where there are eight heads."""
    model = {"kv_heads": 8}
    assert [agents.spread(gpus, model) for gpus in (0, 1, 4, 6, 8, 16)] == [1, 1, 4, 4, 8, 8]


def test_a_dialogue_fits_into_what_the_model_may_remember(tmp_path: Path) -> None:
    """Words by the tokenizer's own rule, all answers, and room for marks; every token has a word."""
    script = dialogues(ARGS)
    place, length = agents._describe(tmp_path / "model", agents.TINY, script)  # noqa: SLF001 - as it is written
    tokens = json.loads((place / "tokenizer.json").read_text())["model"]["vocab"]

    assert sorted(tokens.values()) == list(range(agents.TINY["vocab"]))
    words = max(len(one.system.split()) + sum(len(turn.text.split()) for turn in one.turns) for one in script)
    assert words + 7 * 48 + 512 < length < 1.2 * words + 7 * 48 + 512 + 300


@pytest.mark.parametrize(
    "damage", [{"left": "x"}, {"dialogues": {}}, {"dialogues": [{"turns": 1, "answers": 5}]}]
)
def test_a_garbled_row_has_no_figure(damage: dict[str, object]) -> None:
    """Whatever else is right of it."""
    served = node({"status": "ok", "left": [], "dialogues": [], "gpus": 1, **damage})
    assert isinstance(served.left_behind if "left" in damage else served.failed_share, Unread)


def test_a_program_that_ended_by_itself_is_over(tmp_path: Path) -> None:
    """Its last words are kept, and nothing is left of it."""
    with kept.Kept((sys.executable, "-c", "print('done')"), tmp_path, {}, tmp_path / "log") as server:
        wait_until(lambda: server.ended)
        assert server.last_words == "done"
    assert server.left == []
