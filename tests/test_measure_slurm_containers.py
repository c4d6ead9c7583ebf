"""Containers on a real Slurm, whose pyxis and enroot are stand-ins: they start, fail, hang, or lack a GPU."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.evidence.item import Item
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.container_look import for_enroot
from gpuassay.measure.slurm_containers import SlurmContainers
from kubeapi.rig import Answers
from nodes import Rack
from slurmd import LOGIN, Slurm, needs_slurm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuassay.facts.slurm_containers import SlurmContainer
    from gpuassay.judge.fact import Fact

NODES = ("n1", "n2", "n3", "n4", "n5")
IMAGE = "registry.example/team/torch@sha256:0123abcd"
# Pyxis is part of srun. This one starts the program on the node itself, where a folder stands for its /dev,
# and prints on n2 what pyxis prints where users may make no namespaces.
PYXIS = """\
#!PYTHON
import os, sys
words = sys.argv[1:]
image = next((word for word in words if word.startswith("--container-image=")), "")
if image:
    words.remove(image)
    folder = "FOLDER/seven" if "--nodelist=n4" in words else "FOLDER"
    words = [folder if word == "/dev" else word for word in words]
    command = words.index("python3")
    if "--nodelist=n2" in words:
        words[command:] = ["sh", "-c", "cat FOLDER/no-namespaces >&2; exit 1"]
    if "--nodelist=n3" in words:
        words[command:] = ["sleep", "1000"]
    if not image.endswith("=registry.example#team/torch:sha256:0123abcd"):
        words[command:] = ["sh", "-c", "echo 'pyxis: [ERROR] Invalid image reference' >&2; exit 1"]
os.execv("/usr/bin/srun", ["srun", *words])
"""
NO_NAMESPACES = """\
pyxis: imported docker image: registry.example#team/torch:sha256:0123abcd
slurmstepd: error: pyxis: container start failed with error code: 1
slurmstepd: error: pyxis:     enroot-nsenter: failed to create user namespace: Operation not permitted
slurmstepd: error: pyxis: couldn't start container
"""
ENROOT = '#!/bin/sh\necho layers > "$ENROOT_CACHE_PATH/layer"\necho "$@" > "$3"\n'
NO_TOOL = '#!/bin/sh\necho "[INFO] Fetching" >&2\necho "[ERROR] Command not found: mksquashfs" >&2\nexit 1\n'
HANGS = '#!/bin/sh\ntrap "" TERM\necho layers > "$ENROOT_CACHE_PATH/layer"\nsleep 1000 & sleep 1000\n'
TOPOLOGY = '<system version="1"><cpu numaid="0"/></system>'
# Asks the survey where one logs in, in less time than on a cluster.
ASK = """\
import json, sys
from gpuassay.judge.reach import Reach, SlurmReach
from gpuassay.judge.services import Services
from gpuassay.measure import slurm_containers
from gpuassay.stopping import interrupt_on_term
interrupt_on_term()
slurm_containers.PATIENCE_S = 1.0
services = Services(reach=Reach(slurm=SlurmReach(wait_s=4), image=sys.argv[1]))
survey = slurm_containers.SlurmContainers()
for item in survey.ask(services, sys.argv[2:], {"seconds": 4}, 60):
    words = [item.id, item.status, dict(item.asked), item.out.decode(), item.err, item.why]
    print(json.dumps(words), flush=True)
"""

pytestmark = needs_slurm()


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """Boot a Slurm of five nodes, and give each its pyxis and its enroot; n5 is somebody else's."""
    folder = tmp_path_factory.mktemp("containers")
    with Rack(folder, LOGIN, *NODES) as rack:
        slurm = Slurm(rack, folder / "slurm", {"batch": "Nodes=n[1-5] Default=YES MaxTime=1:00:00"})
        slurm.start()
        seven = slurm.folder / "seven"
        seven.mkdir()
        for number in range(7):
            (seven / f"nvidia{number}").touch()
        (slurm.folder / "no-namespaces").write_text(NO_NAMESPACES)
        (slurm.folder / "topology.xml").write_text(TOPOLOGY)
        pyxis = PYXIS.replace("PYTHON", sys.executable).replace("FOLDER", str(slurm.folder))
        rack[LOGIN].install("srun", pyxis)
        for node, enroot in {"n1": ENROOT, "n2": NO_TOOL, "n3": HANGS}.items():
            rack[node].install("enroot", enroot)
        slurm.occupy("n5", "--exclusive")
        yield slurm


def asked(slurm: Slurm, image: str, *nodes: str) -> dict[str, SlurmContainer]:
    """Try containers on nodes, and give what came of it; nothing may run or lie about afterwards."""
    done = slurm.run(sys.executable, "-c", ASK, image, *nodes)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    items = [
        Item(name, seq, status, told, out=out.encode(), err=err, why=why)
        for seq, (name, status, told, out, err, why) in enumerate(rows, 1)
    ]
    nothing_stays(slurm)
    found = SlurmContainers().read({}, Answers(items))  # type: ignore[arg-type]
    return {container.node: container for container in found}


def nothing_stays(slurm: Slurm) -> None:
    """No job, no process and no folder of ours is left, beside what lay there before any of it."""
    slurm.assert_nothing_runs()
    shown = slurm.run("sh", "-c", "ls -d /tmp/gpuassay-* 2>/dev/null", check=False).stdout
    assert set(shown.split()) <= LAY_THERE


LAY_THERE = {str(path) for path in Path("/tmp").glob("gpuassay-*")}  # noqa: S108 - where ours would be


@pytest.fixture(scope="module")
def found(slurm: Slurm) -> dict[str, SlurmContainer]:
    """Try all nodes."""
    return asked(slurm, IMAGE, *NODES)


def value(fact: Fact[Any]) -> Any:
    """Give the value of a fact, or the kind of why there is none."""
    return fact.value if isinstance(fact, Read) else fact.kind


def said(fact: Fact[Any]) -> str:
    """Give what is said beside a value, or why there is none."""
    return fact.note if isinstance(fact, Read) else fact.why


def test_a_container_that_starts(found: dict[str, SlurmContainer]) -> None:
    """It has all GPUs of its job, its time counts from the place that Slurm found, and its memory is read."""
    one = found["n1"]
    assert (value(one.starts), value(one.granted), value(one.gpus)) == (True, 8, 8)
    assert 0 <= value(one.ready_s) < 60
    assert value(one.shm_gib) > 0
    assert value(one.locked_memory) != ""
    assert value(one.topology_reaches) is True
    assert (value(one.imports), value(one.left_behind)) == (True, False)
    assert value(one.import_s) >= 0


def test_one_that_does_not_start(found: dict[str, SlurmContainer]) -> None:
    """The cause is told in pyxis's words, not the last line; what would have been seen in it is an error."""
    two = found["n2"]
    assert value(two.starts) is False
    assert "failed to create user namespace" in said(two.starts)
    assert {value(fact) for fact in (two.gpus, two.ready_s, two.shm_gib, two.topology_reaches)} == {"failed"}
    assert value(two.imports) is False
    assert "mksquashfs" in said(two.imports)


def test_one_that_hangs(found: dict[str, SlurmContainer]) -> None:
    """A container and an import that never end are ended, and fail for that."""
    three = found["n3"]
    assert value(three.starts) is False
    assert "hung" in said(three.starts)
    assert value(three.imports) is False
    assert "within" in said(three.imports)
    assert value(three.left_behind) is False


def test_one_gpu_less_and_no_enroot(found: dict[str, SlurmContainer]) -> None:
    """What was granted is told beside what was seen; a node without enroot imports nothing."""
    four = found["n4"]
    assert (value(four.granted), value(four.gpus)) == (8, 7)
    assert (value(four.imports), said(four.imports)) == (False, "there is no enroot")


def test_a_node_of_somebody_else(found: dict[str, SlurmContainer]) -> None:
    """It is not touched, and unseen."""
    five = found["n5"]
    assert {value(fact) for fact in (five.starts, five.gpus, five.imports, five.left_behind)} == {"denied"}


def test_an_image_that_cannot_be_had(slurm: Slurm) -> None:
    """That is no verdict on the cluster: the site file may name it wrongly."""
    only = asked(slurm, "registry.example/Wrong:1", "n1")["n1"]
    assert isinstance(only.starts, Unread)
    assert only.starts.kind == "failed"
    assert "could not be had" in only.starts.why


def test_without_an_image_nothing_is_started(slurm: Slurm) -> None:
    """Every node is unseen, with the key of the site file that is missing."""
    found = asked(slurm, "", "n1", "n4")
    assert sorted(found) == ["n1", "n4"]
    assert {value(one.starts) for one in found.values()} == {"denied"}
    assert "[workload] image" in said(found["n1"].starts)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_stops_it_leaves_nothing(slurm: Slurm, number: signal.Signals) -> None:
    """Neither a job in a container nor an import outlives Ctrl-C, and no folder stays."""
    argv = slurm.rack[LOGIN].argv(sys.executable, "-c", ASK, IMAGE, "n3")
    with subprocess.Popen(
        argv, env=slurm.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as run:
        slurm.wait(
            "squeue --noheader --states=running --nodelist=n3 --format=%j", lambda shown: "gpuassay" in shown
        )
        run.send_signal(number)
        assert run.wait(60) != 0
    nothing_stays(slurm)


@pytest.mark.parametrize(
    ("image", "enroot"),
    [
        (IMAGE, "registry.example#team/torch:sha256:0123abcd"),
        ("registry.example:5000/torch:2.13@sha256:01", "registry.example:5000#torch:sha256:01"),
        ("localhost/torch", "localhost#torch"),
        ("nvidia/cuda:13.0", "nvidia/cuda:13.0"),
        ("ubuntu", "ubuntu"),
        ("nvcr.io#nvidia/pytorch:26.04-py3", "nvcr.io#nvidia/pytorch:26.04-py3"),
        ("/shared/torch.sqsh", "/shared/torch.sqsh"),
    ],
)
def test_images_as_enroot_names_them(image: str, enroot: str) -> None:
    """The registry is parted by a #, and a digest takes the tag's place."""
    assert for_enroot(image) == enroot
