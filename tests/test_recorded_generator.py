"""The generator of recorded clusters: deterministic, honest about what it is, and strict."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from gpuassay.evidence.recording import read_recording
from recorded import DescriptionError, build, describe, faulty, healthy, read_faulty, synthesize, write

if TYPE_CHECKING:
    from pathlib import Path


def content(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("name", healthy())
def test_the_committed_recording_is_what_the_generator_makes(name: str, tmp_path: Path) -> None:
    """Nobody changed a committed recording by hand, or the generator without writing it anew."""
    write(describe(name), tmp_path / "made")
    assert content(tmp_path / "made") == content(build(name)), "run: python tests/recorded"


@pytest.mark.parametrize("name", faulty())
def test_a_faulty_cluster_is_the_same_bytes_each_time(name: str, tmp_path: Path) -> None:
    """What lies in the cache is what its description makes now, and it differs from its base."""
    write(describe(name), tmp_path / "made")
    made = content(tmp_path / "made")
    assert made == content(build(name))
    assert made != content(build("hgx-b200-4"))


@pytest.mark.parametrize("name", healthy())
def test_healthy_recordings_are_sealed_and_say_that_they_are_made_up(name: str) -> None:
    """A recording reads without a problem, matches its seal, and is stamped synthetic."""
    recording = read_recording(build(name))
    problems = [problem for node in recording.nodes.values() for problem in node.problems]
    assert (recording.seal, recording.meta.synthetic) == ("sealed", True)
    assert [*recording.problems, *problems] == []


def test_no_two_gpus_share_an_identifier() -> None:
    """UUIDs and serial numbers differ over the cluster, PCI addresses over a node, GIDs over a fabric."""
    nodes = read_recording(build("hgx-b200-4")).nodes.values()
    gpus = [gpu for node in nodes for gpu in json.loads(node.item("nvml").out)["devices"]]  # type: ignore[union-attr]
    ports = [json.loads(node.item("infiniband").out) for node in nodes]  # type: ignore[union-attr]
    gids = [device["ports"]["1"]["gids"]["3"] for port in ports for device in port.values()]
    assert {len({gpu[key] for gpu in gpus}) for key in ("uuid", "serial")} == {32}
    assert len({gpu["pci"] for gpu in gpus}) == 8
    assert len(set(gids)) == len(gids) == 40


def test_healthy_recordings_stay_small() -> None:
    """They are part of every clone: so much for each look at a node, and for each GPU that was measured."""
    for name in healthy():
        folder = build(name)
        looks = [*(folder / "nodes").iterdir(), *folder.glob("measure/*_after/*")]
        ranks = [path.read_text(encoding="utf-8").count("\n") for path in folder.glob("measure/gemm_bf16/*")]
        assert sum(map(len, content(folder).values())) < 130_000 * len(looks) + 215_000 * sum(ranks), name


def test_several_may_ask_for_one_recording_at_once() -> None:
    """Processes that build the same cluster at the same time all get the whole of it."""
    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(synthesize, [3] * 4))
    assert len(folders) == 1
    assert list(read_recording(folders.pop()).nodes) == ["gpu0001", "gpu0002", "gpu0003"]


@pytest.mark.parametrize("name", faulty())
def test_what_a_description_expects_can_be_checked(name: str) -> None:
    """Its checks exist in the base, its verdicts are verdicts, its expressions are expressions."""
    description = describe(name)
    assert description.changed <= describe("hgx-b200-4").expected.keys() | {"fleet.contracted"}
    assert set(description.expected.values()) <= {
        "skip",
        "pass",
        "warn",
        "unseen",
        "error",
        "fail",
        "not_run",
    }
    assert all(re.compile(says) for says in description.says)
    assert description.changed or not description.says


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("title = ", "odd.toml: "),
        ('title = "x"\nbase = "cpu-vm"', "overlay: missing"),
        ('title = "x"\nbase = "cpu-vm"\nexpect = 1\noverlay = []', "expect: expected one of"),
        (
            'title = "x"\nbase = "cpu-vm"\noverlay = [{ item = "nvml", sett = 1 }]',
            "no change is written as sett",
        ),
        (
            'title = "x"\nbase = "cpu-vm"\noverlay = []\nexpected.audit.host.memlock = "skip"',
            "expected.audit.host.memlock is what the base has already",
        ),
        ('title = "x"\nbase = "typo"\noverlay = []', "typo.toml"),
    ],
)
def test_a_mistake_in_a_description_names_file_and_key(text: str, says: str, tmp_path: Path) -> None:
    """Who writes a description is told what is wrong and where."""
    file = tmp_path / "odd.toml"
    file.write_text(text)
    with pytest.raises(DescriptionError, match=re.escape(says)):
        read_faulty(file)


def test_an_overlay_that_does_not_fit_names_its_description(tmp_path: Path) -> None:
    """A stale path is found when the recording is made, and the description is named."""
    file = tmp_path / "stale.toml"
    file.write_text('title = "x"\nbase = "cpu-vm"\n[[overlay]]\nitem = "clock"\nset = "gone"\nto = 1\n')
    with pytest.raises(DescriptionError, match=r"stale\.toml: overlay: nothing at gone"):
        write(read_faulty(file), tmp_path / "made")
