"""The journey: one command line and one packed text, to any Python 3.9 or newer, leaving no trace."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.probe import main, travel
from gpuassay.probe.frames import Frames
from gpuassay.probe.items import QUESTIONS

if TYPE_CHECKING:
    from pathlib import Path


def pythons() -> list[str]:
    """Find the Pythons of this machine that the probe supports, one of each version, and this one."""
    found = {sys.version_info[:2]: sys.executable}
    for minor in range(9, 20):
        path = shutil.which(f"python3.{minor}")
        if path and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
            found.setdefault((3, minor), path)
    return list(found.values())


def run(python: str, **options: Any) -> tuple[list[dict[str, Any]], Frames]:
    """Run the probe as a node would."""
    done = subprocess.run(
        travel.argv(python), input=travel.pack(), capture_output=True, check=False, **options
    )
    assert done.returncode == 0, done.stderr.decode()
    frames = Frames()
    return list(frames.feed(done.stdout)), frames


def unpacked(packed: bytes) -> dict[str, Any]:
    """Read what follows the first line of a packed program."""
    baggage: dict[str, Any] = json.loads(zlib.decompress(packed.partition(b"\n")[2]))
    return baggage


@pytest.mark.parametrize("python", pythons())
def test_the_probe_runs_where_there_is_only_python(python: str) -> None:
    """Every question is answered, in order, and the last line says that this is all."""
    items, frames = run(python)
    answers = {item["id"]: item for item in items}
    assert list(answers) == [
        question.id
        for question in QUESTIONS
        if not (question.unless and main.answered(question.unless, answers))
    ]
    assert [item["seq"] for item in items] == list(range(1, len(items) + 1))
    assert frames.ended
    assert frames.problems == []


def test_nothing_is_written(tmp_path: Path) -> None:
    """It runs with no place to write: a limit of 0 bytes on files, and empty folders that stay empty."""

    def forbid() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    environment = {**os.environ, "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    _, frames = run(sys.executable, cwd=tmp_path, env=environment, preexec_fn=forbid)
    assert frames.ended
    assert list(tmp_path.iterdir()) == []


def test_what_travels_is_small_and_always_the_same() -> None:
    """It fits a ConfigMap (1 MiB), holds nvidia-ml-py, and none of what stays with the controller."""
    packed = travel.pack()
    assert len(packed) < 1 << 20
    assert packed == travel.pack()
    modules = unpacked(packed)["sources"]
    assert {"gpuassay", "gpuassay.probe", "gpuassay.probe.main", "pynvml"} <= modules.keys()
    assert {"gpuassay.probe.travel", "gpuassay.probe.bootstrap"}.isdisjoint(modules)


def test_a_node_with_a_gpuassay_of_its_own(tmp_path: Path) -> None:
    """What a node or a user has installed, or set for Python, takes no part."""
    (tmp_path / "gpuassay.py").write_text("raise SystemExit('the wrong one')")
    (tmp_path / "sitecustomize.py").write_text("raise SystemExit('not asked for')")
    _, frames = run(sys.executable, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert frames.ended


def test_a_cut_text_is_an_error_at_once() -> None:
    """A node that got only half of it says so and asks nothing."""
    done = subprocess.run(
        travel.argv(sys.executable), input=travel.pack()[:-100], capture_output=True, check=False
    )
    assert done.returncode == 1
    assert b"zlib.error" in done.stderr
    assert done.stdout == b""


def test_a_fault_in_the_probe_names_its_line() -> None:
    """A traceback says in which module it was, though there is no file."""
    first, _, _ = travel.pack().partition(b"\n")
    baggage = unpacked(travel.pack())
    baggage["sources"]["gpuassay.probe.main"] = "def main():\n    raise RuntimeError('broken on purpose')\n"
    packed = first + b"\n" + zlib.compress(json.dumps(baggage).encode())
    done = subprocess.run(travel.argv(sys.executable), input=packed, capture_output=True, check=False)
    assert b'File "<gpuassay.probe.main>", line 2, in main' in done.stderr


def test_the_command_is_the_same_to_every_shell() -> None:
    """Nothing in it ends a single-quoted word or means something in it, to sh, csh or fish."""
    for word in travel.argv("python3"):
        assert word.isascii()
        assert word.isprintable()
        assert not set(word) & set("'\\!")


def test_a_python_that_is_too_old_says_so() -> None:
    """The command itself asks for the version, in words that Python 2 can read."""
    words = travel.argv("python3")[-1]
    old = "import sys; sys.version_info = (3, 8); sys.version = '3.8.10 (default)'; exec(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", old, words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "gpuassay needs Python 3.9 or newer, this is 3.8.10\n")
