"""Containers on a machine of its own, by a stand-in for docker: it starts, refuses, hangs, is not there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.evidence.item import Item
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.container_look import INSIDE
from gpuassay.measure.containers import Containers, RunContainer
from gpuassay.probe.launch import PYTHON
from probing import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpuassay.judge.fact import Fact

# Keeps a file for each container and each image, as the real one keeps those; a folder stands for its /dev.
DOCKER = """\
#!PYTHON
import os, pathlib, subprocess, sys, time
here, words = pathlib.Path("FOLDER"), sys.argv[1:]
if words[0] == "info":
    print("systemd")
elif words[:2] == ["image", "inspect"]:
    sys.exit(0 if (here / "image").exists() else 1)
elif words[0] == "ps":
    print("\\n".join(path.name for path in (here / "containers").iterdir()))
elif words[0] == "rm":
    (here / "containers" / words[-1]).unlink(missing_ok=True)
elif words[0] == "rmi":
    (here / "image").unlink()
elif words[0] == "run":
    place = words.index("registry.example/torch")
    name = next(word.partition("=")[2] for word in words if word.startswith("--name="))
    if "--gpus=all" not in words[:place]:
        sys.exit("docker: no GPU was asked for")
    if "MODE" == "refuses":
        print('docker: Error response from daemon: could not select device driver "" with', file=sys.stderr)
        sys.exit(125)
    if "MODE" == "unknown":
        print("docker: Error response from daemon: manifest unknown", file=sys.stderr)
        sys.exit(125)
    (here / "image").touch()
    (here / "containers" / name).touch()
    if "MODE" == "hangs":
        time.sleep(1000)
    command = [str(here / "dev") if word == "/dev" else word for word in words[place + 1 :]]
    code = subprocess.run(command).returncode
    (here / "containers" / name).unlink()
    sys.exit(code)
"""
RUN = """\
import json, sys
from gpuassay.measure.errands import containers
containers.main(json.loads(sys.argv[1]))
"""


class Machine:
    """A machine with a docker that behaves so."""

    def __init__(self, folder: Path, mark: Mark) -> None:
        self.folder = folder
        self._mark = mark
        for name in ("bin", "containers", "dev"):
            (folder / name).mkdir()
        for number in range(2):
            (folder / "dev" / f"nvidia{number}").touch()
        (folder / "bin" / "python3").symlink_to(sys.executable)

    def docker(self, mode: str) -> None:
        """Install it."""
        text = DOCKER.replace("PYTHON", sys.executable).replace("FOLDER", str(self.folder))
        path = self.folder / "bin" / "docker"
        path.write_text(text.replace("MODE", mode))
        path.chmod(0o755)

    def begin(self, seconds: float = 60) -> subprocess.Popen[bytes]:
        """Start the errand."""
        order = {"image": "registry.example/torch", "seconds": seconds, "look": INSIDE}
        environment = {
            **self._mark.environment,
            "PATH": str(self.folder / "bin"),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        argv = (sys.executable, "-c", RUN, json.dumps(order))
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)

    def tried(self, seconds: float = 60) -> RunContainer:
        """Run it to its end, and read what came of it."""
        out, _ = self.begin(seconds).communicate()
        return Containers().read("n1", {}, Item("containers", 1, out=out), "measure/containers#1")

    @property
    def containers(self) -> list[str]:
        """Name the containers that there are."""
        return [path.name for path in (self.folder / "containers").iterdir()]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Give one; nothing that it started may be left, and no container."""
    mark = Mark()
    machine = Machine(tmp_path, mark)
    yield machine
    assert mark.survivors() == []
    assert machine.containers == []


def value(fact: Fact[Any]) -> Any:
    """Give the value of a fact, or the kind of why there is none."""
    return fact.value if isinstance(fact, Read) else fact.kind


def test_a_container_is_started_and_looked_at(machine: Machine) -> None:
    """Its GPUs are counted, its limits are read; the image goes again, for it was not there before."""
    machine.docker("works")
    found = machine.tried()
    assert (value(found.starts), value(found.gpus), value(found.left_behind)) == (True, 2, False)
    assert value(found.shm_gib) > 0
    assert isinstance(found.locked_memory, Read)
    assert value(found.topology_readable) is True
    assert isinstance(found.ready_s, Read)
    assert found.ready_s.note == "the image was pulled"
    assert not (machine.folder / "image").exists()


def test_an_image_that_was_there_stays(machine: Machine) -> None:
    """What is somebody else's is not removed."""
    machine.docker("works")
    (machine.folder / "image").touch()
    found = machine.tried()
    assert isinstance(found.ready_s, Read)
    assert found.ready_s.note == "the image was there"
    assert (machine.folder / "image").exists()


def test_a_runtime_that_knows_no_gpus(machine: Machine) -> None:
    """Its words are the reason, and what would have been seen inside is not known."""
    machine.docker("refuses")
    found = machine.tried()
    assert isinstance(found.starts, Read)
    assert found.starts.value is False
    assert "could not select device driver" in found.starts.note
    assert {value(fact) for fact in (found.gpus, found.shm_gib, found.kept_after_reload)} == {"failed"}


def test_an_image_that_is_not_there(machine: Machine) -> None:
    """That is no verdict on the machine."""
    machine.docker("unknown")
    found = machine.tried()
    assert isinstance(found.starts, Unread)
    assert "could not be had" in found.starts.why


def test_a_container_that_hangs(machine: Machine) -> None:
    """It is ended and removed."""
    machine.docker("hangs")
    found = machine.tried(seconds=1)
    assert isinstance(found.starts, Read)
    assert found.starts.note == "docker run did not end in time"


def test_no_runtime(machine: Machine) -> None:
    """It fails, and says what was looked for."""
    found = machine.tried()
    assert isinstance(found.starts, Read)
    assert "neither docker nor podman nor nerdctl" in found.starts.note


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_stops_it_leaves_no_container(machine: Machine, number: signal.Signals) -> None:
    """The container is removed on the way out, and its client is ended."""
    machine.docker("hangs")
    with machine.begin() as run:
        until = time.monotonic() + 30
        while not machine.containers and time.monotonic() < until:
            time.sleep(0.05)
        assert machine.containers
        run.send_signal(number)
        run.communicate(timeout=30)
    assert run.returncode != 0


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ({"nodes_linked": True}, True),
        ({"mode": "cdi"}, True),
        ({"driver": "cgroupfs"}, True),
        ({}, False),
        ({"driver": ""}, "failed"),
    ],
)
def test_what_decides_whether_gpus_are_kept(more: dict[str, Any], kept: Any) -> None:
    """Links, CDI or cgroups of the runtime's own keep them; a driver that is not told leaves it open."""
    row = {"runtime": "docker", "exit": 0, "out": '{"opens": 8}', "said": "", "nodes_linked": False}
    row |= {"driver": "systemd", "mode": "auto", **more}
    item = Item("containers", 1, out=json.dumps({"rows": [row]}).encode())
    assert value(Containers().read("n1", {}, item, "").kept_after_reload) == kept


def test_how_it_travels() -> None:
    """The command is the site's Python, and the order names the image of the site file."""
    assert Containers().argv({})[0] == PYTHON
