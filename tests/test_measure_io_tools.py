"""ior, mdtest, elbencho and small files: run for real or by stand-ins, and read whatever they print."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.facts.record import Record
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.services import Mount
from gpuassay.measure import errand, io_printed
from gpuassay.measure.io_tools import ELBENCHO, IOR, MDTEST, SMALL_FILES

if TYPE_CHECKING:
    from gpuassay.measure.mounted import MountTool

SAMPLES = Path(os.environ.get("GPUASSAY_SAMPLES", Path(__file__).parents[2] / "shared"))
CAPTURES = SAMPLES / "captures"
ARGS: dict[str, Any] = {"nodes": "one", "mounts": "all", "tasks": 1, "size_mib": 1, "files": 2, "repeats": 1}
SMALL: dict[str, Any] = {
    "nodes": "one",
    "mounts": "all",
    "writers": 2,
    "episodes": 1,
    "frames": 4,
    "video_mib": 1,
}
samples = pytest.mark.skipif(not CAPTURES.exists(), reason="no samples here: set GPUASSAY_SAMPLES")


def run(tool: MountTool, mount: Path, path: str, args: dict[str, Any]) -> dict[str, Any]:
    """Run the node's part in one folder, where PATH is this."""
    order = tool.order(args, [Mount(str(mount), "scratch", shared=True)])
    done = subprocess.run(
        [sys.executable, *errand.ARGV[1:]],
        input=errand.pack(order, "disk"),
        capture_output=True,
        check=False,
        env={"PATH": path},
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def volume(tool: MountTool, document: dict[str, Any], mount: Path, args: dict[str, Any]) -> Any:
    """Read it as a check would."""
    row = Record(document["rows"][0], "m#1")
    return tool.subject(
        "n1", Mount(str(mount), "scratch", shared=True), (), Record(document, "m#1"), row, args
    )


def fake(folder: Path, name: str, body: str) -> tuple[str, Path]:
    """Give a PATH with a program of that name, and a mount."""
    (folder / "mount").mkdir()
    tool = folder / name
    tool.write_text(f"#!/bin/sh\n{body}\n")
    tool.chmod(0o755)
    return f"{folder}:/bin", folder / "mount"


def test_small_files_are_made_read_and_removed(tmp_path: Path) -> None:
    """On a real file system: rates of four steps, nothing wrong, and nothing left."""
    document = run(SMALL_FILES, tmp_path, os.environ["PATH"], SMALL)
    found = volume(SMALL_FILES, document, tmp_path, SMALL)

    assert list(tmp_path.iterdir()) == []
    assert document["rows"][0]["files"] == 2 * (4 + 2)
    assert found.wrong == Read(0, "m#1")
    assert [figure.at["step"] for figure in found.figures] == ["create", "stat", "read", "delete"]
    assert all(isinstance(figure.value, Read) and figure.value.value > 0 for figure in found.figures)
    assert isinstance(found.open_ms, Read)
    assert isinstance(found.missing_ms, Read)


def test_reading_from_memory_is_said() -> None:
    """Where files could not be dropped from it, as on a file system in memory."""
    step = {"seconds": 1.0, "wrong": 0}
    row = {
        "status": "ok",
        "files": 10,
        "cold": 0.25,
        **dict.fromkeys(("create", "stat", "read", "delete"), step),
    }
    figures = volume(SMALL_FILES, {"rows": [row]}, Path("/x"), SMALL).figures
    assert "75% of the files still in memory" in figures[2].value.note
    assert "memory" not in figures[0].value.note


@pytest.mark.parametrize("tool", [IOR, MDTEST, ELBENCHO], ids=lambda one: one.name)
def test_a_missing_tool_says_how_to_get_it(tool: MountTool, tmp_path: Path) -> None:
    """And where from."""
    assert "github.com/" in run(tool, tmp_path, str(tmp_path), ARGS)["failed"]


@samples
@pytest.mark.parametrize(
    ("tool", "capture", "operations"),
    [
        (IOR, "ior/fpp-posix-np4.txt", {"write", "read"}),
        (MDTEST, "ior/mdtest-small-np4.txt", {"file creation", "file stat", "file read", "file removal"}),
    ],
    ids=["ior", "mdtest"],
)
def test_a_stand_in_on_path_is_run_and_read(
    tool: MountTool, capture: str, operations: set[str], tmp_path: Path
) -> None:
    """Its command is kept, and what a real one printed is read."""
    path, mount = fake(tmp_path, tool.name, f"exec cat {CAPTURES / capture}")
    document = run(tool, mount, path, ARGS)
    found = volume(tool, document, mount, ARGS)

    assert document["rows"][0]["command"][-2] in ("-o", "-d")
    assert found.wrong == Read(0, "m#1")
    assert operations <= {figure.at["operation"] for figure in found.figures}


@samples
def test_elbenchos_table_is_read(tmp_path: Path) -> None:
    """The figure until the last thread has ended, from the table that it is told to write."""
    table = CAPTURES / "elbencho" / "results.csv"
    copy = f'while [ $# -gt 0 ]; do [ "$1" = --csvfile ] && cp {table} "$2"; shift; done'
    path, mount = fake(tmp_path, "elbencho", copy)
    found = volume(ELBENCHO, run(ELBENCHO, mount, path, ARGS), mount, ARGS)
    rates = {figure.at["operation"]: figure.value.value for figure in found.figures}
    assert rates["write"] == pytest.approx(1858 * 1048576 / 1e9, rel=0.5)
    assert list(mount.iterdir()) == []


@samples
@pytest.mark.parametrize(
    ("name", "wrong", "why"),
    [
        ("ior/err-corrupt-readcheck.txt", 1, ""),
        ("ior/err-enospc.txt", 2, ""),
        ("ior/err-nodir.txt", 0, "No such file or directory"),
        ("ior/err-badblock.txt", 0, "block size must be a multiple"),
        ("ior/err-read-missing.txt", 0, "No such file or directory"),
        ("ior/version.txt", 0, "it printed no summary"),
        ("ior/fmt-CSV-np2.txt", 0, "it printed no summary"),
    ],
)
def test_what_went_wrong_is_told(name: str, wrong: int, why: str) -> None:
    """Wrong data and refused operations are counted; a mistake of usage is a problem and no fault."""
    printed = io_printed.ior((CAPTURES / name).read_text(encoding="utf-8"))
    assert printed.wrong == wrong
    assert why in "".join(printed.problems)


@samples
def test_mdtest_and_elbencho_count_what_was_refused() -> None:
    """Each in its own words."""
    mdtest = io_printed.mdtest((CAPTURES / "ior/mdtest-err.txt").read_text(encoding="utf-8"))
    full = (CAPTURES / "elbencho/err-enospc.txt").read_text(encoding="utf-8")
    assert mdtest.wrong > 20
    assert "unable to create directory" in mdtest.said
    assert io_printed.elbencho("", full).wrong == 6


@samples
def test_other_captures_of_ior_have_both_directions() -> None:
    """Whatever interface, order or form of files; one that only wrote has one."""
    for name in ("ssf-posix", "mpiio", "random", "script", "summary"):
        text = (CAPTURES / f"ior/{name}-np2.txt").read_text(encoding="utf-8")
        assert set(io_printed.ior(text).rates) == {"write", "read"}, name
    stonewall = (CAPTURES / "ior/stonewall-np2.txt").read_text(encoding="utf-8")
    assert set(io_printed.ior(stonewall).rates) == {"write"}


@pytest.mark.parametrize("tool", [IOR, MDTEST, ELBENCHO], ids=lambda one: one.name)
@pytest.mark.parametrize("body", ["exit 1", "echo '\\0\\0'; echo nan", "kill -9 $$"])
def test_a_broken_tool_gives_no_figure(tool: MountTool, body: str, tmp_path: Path) -> None:
    """And is no pass: neither without figures nor with a count of errors."""
    path, mount = fake(tmp_path, tool.name, body)
    found = volume(tool, run(tool, mount, path, ARGS), mount, ARGS)
    assert isinstance(found.wrong, Unread)
    assert all(isinstance(figure.value, Unread) for figure in found.figures)


@given(st.text(max_size=300), st.text(max_size=80))
def test_any_text_is_read_without_an_exception(text: str, other: str) -> None:
    """And no figure comes of it."""
    for printed in (
        io_printed.ior(f"Summary of all tests:\n{text}"),
        io_printed.mdtest(f"SUMMARY rate\n{text}"),
        io_printed.elbencho(text, other),
    ):
        assert printed.problems or printed.rates
