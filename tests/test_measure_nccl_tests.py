"""nccl-tests and rccl-tests are read old and new, cut and tagged, and no line that should count is lost."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.evidence.item import Item
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.nccl_printed import parse
from gpuassay.measure.nccl_tests import NcclTests
from recorded import measurements

if TYPE_CHECKING:
    from gpuassay.measure.nccl_printed import Printed
    from gpuassay.measure.nccl_tests import NcclTest

SAMPLES = Path(os.environ.get("GPUASSAY_SAMPLES", Path(__file__).parents[2] / "shared"))
CAPTURES = sorted(SAMPLES.glob("captures/[nr]ccl-tests/*.log"))
HEALTHY = measurements.nccl_tests("n1", "NVIDIA B200", 842.0).out.decode()
TOOL = NcclTests()


def read(out: str, status: Any = "ok", why: str = "", err: str = "") -> NcclTest:
    """Read what a run printed."""
    item = Item("nccl_tests", 1, status, out=out.encode(), err=err, why=why)
    return TOOL.read("n1", measurements.NCCL_TESTS, item, "m#1")


def start(path: Path) -> subprocess.CompletedProcess[str]:
    """Run the command where PATH is this folder."""
    _, *words = TOOL.argv(measurements.NCCL_TESTS)
    how: dict[str, Any] = {"env": {"PATH": str(path)}, "capture_output": True, "text": True}
    return subprocess.run([sys.executable, *words], check=False, **how)


def shaped(text: str) -> int:
    """Count the lines that begin with a size and a count."""
    return len(re.findall(r"(?m)^\s*\d+\s+\d+\s", text))


def test_a_healthy_run_gives_the_figure_of_its_largest_message() -> None:
    """Not the average over all sizes, which the tool prints last and which is half of it."""
    found = read(HEALTHY)

    assert isinstance(found.busbw_gbps, Read)
    assert found.busbw_gbps.value == pytest.approx(842, rel=0.001)
    assert (
        "17179869184 bytes, 8 ranks, by /opt/nccl-tests/build/all_reduce_perf -b 8" in found.busbw_gbps.note
    )
    assert found.wrong == Read(0, "m#1")
    assert parse(HEALTHY).version == "2.17.6"


@pytest.mark.parametrize("path", CAPTURES, ids=[path.stem for path in CAPTURES])
def test_captures_are_read_and_nothing_in_them_is_lost(path: Path) -> None:
    """Each line that has the shape of a row is one, and what is no row stands among the others."""
    text = path.read_text(encoding="utf-8")
    printed = parse(text)

    assert len(printed.rows) == shaped(text)
    assert printed.problems == []
    assert printed.ranks in (2, 8)
    assert printed.finished
    kept = len(printed.others) + len(printed.rows) + len(re.findall(r"(?m)^\s*#", text))
    assert kept == len([line for line in text.splitlines() if line.strip()])


@pytest.mark.skipif(not CAPTURES, reason="no samples here: set GPUASSAY_SAMPLES")
def test_a_capture_of_an_old_release_has_its_figures() -> None:
    """Its columns have no root, its last column is an error in place of a count, and all-to-all has no op."""
    by_name = {path.stem: parse(path.read_text(encoding="utf-8")) for path in CAPTURES}
    last = by_name["nccl_alltoall_a100x8_1node"].largest

    assert last is not None
    assert (last.size, last.in_place.micros, last.in_place.busbw) == (8_589_934_592, 33_234.0, 226.16)
    assert last.in_place.wrong is None


def test_tags_and_colours_of_launchers_are_taken_off() -> None:
    """As mpirun, torchrun and srun put them before each line."""
    plain = parse(HEALTHY)
    for tag in ("[1,0]<stdout>:", "[rank0]: ", "0: ", "\x1b[32m"):
        tagged = "\n".join(tag + line for line in HEALTHY.splitlines())
        assert parse(tagged).rows == plain.rows
        assert parse(tagged).ranks == 8


def test_a_run_that_was_cut_is_no_result() -> None:
    """However good its rows were: whoever was killed did not come to the large messages."""
    found = read(HEALTHY[: HEALTHY.index("# Out of bounds")])
    assert found.busbw_gbps == Unread("failed", "it ended after 17 rows, without its last lines", "m#1")


def test_a_row_that_cannot_be_read_is_said() -> None:
    """And leaves no figure: it may have been the one that matters."""
    broken = HEALTHY.replace("  float     sum", "  float     s u m and 1.2.3", 1).replace(
        "       0\n", " 1.2.3\n", 1
    )
    found = read(broken)
    assert isinstance(found.busbw_gbps, Unread)
    assert "1.2.3" in found.busbw_gbps.why


def test_more_columns_are_found_by_their_names() -> None:
    """As ``-I 1`` adds them, before and after the ones that are judged."""
    half = "time algbw busbw #wrong i_min i_cv %"
    header = f"# size count type redop root {half} {half}"
    row = "1024 256 float sum -1 10.0 0.10 0.18 0 9.9 1.1 11.0 0.09 0.16 2 10.9 1.2"
    printed = parse(f"{header}\n{row}\n")

    (only,) = printed.rows
    assert (only.out_of_place.wrong, only.in_place.wrong, only.in_place.micros) == (0, 2, 11.0)


def test_a_run_that_compared_nothing_has_no_right_values() -> None:
    """With ``-c 0`` the column says N/A, which is not zero."""
    found = read(HEALTHY.replace("       0", "     N/A"))
    assert isinstance(found.wrong, Unread)
    assert isinstance(found.busbw_gbps, Read)


def document(**more: object) -> dict[str, Any]:
    """Give a document as ``-J`` writes it."""
    half = {"time": 31307.0, "alg_bw": 548.7, "bus_bw": 960.3, "nwrong": "0"}
    return {
        "version": "2.19.6",
        "args": ["all_reduce_perf", "-J", "out.json"],
        "env": {"TOKEN": "secret"},
        "config": {"devices": [{"rank": rank} for rank in range(8)]},
        "results": [{"size": 17179869184, "out_of_place": half, "in_place": {**half, "nwrong": 3}}],
        "out_of_bounds": {"count": 3, "okay": "false"},
        "average_bus_bandwidth": {"bandwidth": 960.3, "okay": "true"},
        "errors": [],
        **more,
    }


def test_the_document_is_read_with_its_oddities() -> None:
    """Booleans and NaN are strings in it, and infinity stands bare."""
    text = json.dumps(document()).replace('"time": 31307.0', '"time": inf', 1)
    printed = parse(text)

    assert printed.passed is False
    assert printed.rows[0].out_of_place.micros is None
    assert printed.rows[0].in_place.wrong == 3
    assert "secret" not in repr(printed)
    assert read(text).wrong == Read(3, "m#1", "out of bounds values: 3 FAILED, wrong data")


def test_a_document_that_was_cut_is_a_problem() -> None:
    """A crash leaves half of one."""
    found = read(json.dumps(document())[:200]).busbw_gbps
    assert isinstance(found, Unread)
    assert "not whole" in found.why


def test_a_tool_that_is_missing_says_how_to_get_it(tmp_path: Path) -> None:
    """The command itself, where there is none: exit 127, and the way to it."""
    done = start(tmp_path)
    found = read("", "not_found", "exit 127", done.stderr)

    assert done.returncode == 127
    assert isinstance(found.busbw_gbps, Unread)
    assert "build it from github.com/NVIDIA/nccl-tests" in found.busbw_gbps.why


def test_a_tool_that_is_there_is_started_and_its_command_kept(tmp_path: Path) -> None:
    """The one that comes first in PATH, with every argument as it was given."""
    tool = tmp_path / "all_reduce_perf"
    tool.write_text("#!/bin/sh\nexit 0\n")
    tool.chmod(0o755)
    done = start(tmp_path)

    printed = parse(done.stdout)
    assert printed.command.startswith(f"{tool} -b 8 -e 16G -f 4 -n 20 -w 5 -c 1 -g ")


@given(st.text(max_size=400) | st.sampled_from(HEALTHY.splitlines()).map(lambda line: line[::-1]))
def test_any_text_is_read_without_an_exception(text: str) -> None:
    """And no figure comes of one that has no end."""
    printed: Printed = parse(text)
    assert isinstance(read(text).wrong, Unread) or printed.finished


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
        max_leaves=12,
    )
)
def test_any_document_is_read_without_an_exception(content: object) -> None:
    """Whatever stands where results, bounds or devices should be."""
    keys = ("results", "config", "out_of_bounds", "average_bus_bandwidth", "errors", "args")
    text = json.dumps(dict.fromkeys(keys, content))
    assert isinstance(read(text).busbw_gbps, Unread)
