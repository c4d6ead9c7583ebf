"""nvbandwidth, mamf-finder, HPL-MxP and TransferBench are read with their oddities, whole, cut and broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.evidence.item import Item
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure import TOOLS, hpl_mxp, mamf, nvbandwidth, transferbench
from recorded import tools

SAMPLES = Path(os.environ.get("GPUASSAY_SAMPLES", Path(__file__).parents[2] / "shared"))
CAPTURES = SAMPLES / "captures/nvbandwidth"
captured = pytest.mark.skipif(not CAPTURES.is_dir(), reason="no samples here: set GPUASSAY_SAMPLES")
ARGS = {
    "nvbandwidth": tools.NVBANDWIDTH,
    "mamf": tools.MAMF,
    "hpl_mxp": tools.HPL_MXP,
    "transferbench": tools.TRANSFERBENCH,
}
HEALTHY = {
    "nvbandwidth": tools.nvbandwidth("NVIDIA B200", 55.3, 752.0).out.decode(),
    "mamf": tools.mamf("NVIDIA B200", 1447, 1741).out.decode(),
    "hpl_mxp": tools.hpl_mxp(71.2).out.decode(),
    "transferbench": tools.transferbench(44.1).out.decode(),
}
FIGURES = {
    "nvbandwidth": ("to_device_gbps", "to_host_gbps", "between_gbps", "between_of_median", "broken"),
    "mamf": ("burst_tflops", "sustained_tflops"),
    "hpl_mxp": ("passed", "per_gpu_tflops"),
    "transferbench": ("average_gbps", "wrong"),
}


def read(tool: str, out: str, status: Any = "ok", why: str = "", err: str = "") -> Any:
    """Read what a tool printed."""
    item = Item(tool, 1, status, out=out.encode("utf-8", "replace"), err=err, why=why)
    return TOOLS[tool].read("n1", ARGS[tool], item, "m#1")


def value(fact: Any) -> Any:
    """Give a value that must have been read."""
    assert isinstance(fact, Read), fact
    return fact.value


def why(fact: Any) -> str:
    """Give the reason of what must be unread."""
    assert isinstance(fact, Unread), fact
    return fact.why


# --- nvbandwidth ---------------------------------------------------------------------------------------


def test_nvbandwidth_gives_the_slowest_link_and_the_slowest_pair() -> None:
    """Of each matrix the least cell, with its place; the diagonal, which is N/A, is none."""
    found = read("nvbandwidth", HEALTHY["nvbandwidth"])
    assert value(found.to_device_gbps) == pytest.approx(55.3)
    assert value(found.between_gbps) == pytest.approx(752.3)
    assert value(found.between_of_median) == pytest.approx(752.3 / 753.2, rel=1e-3)
    assert value(found.broken) == 0
    assert "host 0 and GPU 0, by v0.8: /usr/local/bin/nvbandwidth -j" in found.to_device_gbps.note


@captured
def test_a_captured_document_is_found_among_garbage() -> None:
    """Braces stand before it and after it, and a pair of a single GPU is waived, not slow."""
    text = (CAPTURES / "nvbandwidth_json_verboseFullOutputWithErrors.txt").read_text(encoding="utf-8")
    printed = nvbandwidth.parse(text)
    assert (printed.version, printed.problems) == ("v0.5", [])
    assert printed.cases["host_to_device_memcpy_ce"].matrix == ((12.3964,),)
    assert printed.cases["host_device_latency_sm"].unit == "ns"
    assert printed.cases["device_to_device_memcpy_write_ce"].status == "Waived"
    found = read("nvbandwidth", text)
    assert value(found.to_device_gbps) == 12.3964
    assert why(found.between_gbps) == "device_to_device_memcpy_write_ce: Waived"
    assert value(found.broken) == 0


@captured
def test_captured_text_of_an_older_release_has_the_same_figures() -> None:
    """The line of column numbers is no row, and a latency is no bandwidth."""
    printed = nvbandwidth.parse((CAPTURES / "nvbandwidth_v0.6_text.log").read_text(encoding="utf-8"))
    assert printed.version == "v0.6"
    assert printed.cases["host_to_device_memcpy_ce"].matrix == (
        (369.36, 269.33, 412.11),
        (323.36, 299.33, 312.11),
    )
    assert printed.cases["device_to_host_memcpy_ce"].matrix == ((295.15, 312.11),)
    assert printed.cases["host_device_latency_sm"] == nvbandwidth.Case(
        "host_device_latency_sm", "Passed", "ns", ((772.58,),)
    )
    assert {case.status for case in printed.cases.values()} == {"Passed"}


@captured
def test_text_that_was_cut_names_the_test_in_which_it_died() -> None:
    """A matrix without its sum is not whole, whatever its rows say."""
    text = (CAPTURES / "nvbandwidth_v0.6_text.log").read_text(encoding="utf-8")
    found = read("nvbandwidth", text[: text.index("SUM device_to_host_memcpy_ce")], "failed", "exit 1")
    assert value(found.to_device_gbps) == 269.33
    assert why(found.to_host_gbps) == "device_to_host_memcpy_ce: Running"
    assert value(found.broken) == 2  # the third was never begun


def test_the_worse_of_two_entries_of_one_test_counts() -> None:
    """A test that failed is appended a second time, and its figures of before are none."""
    document = json.loads(HEALTHY["nvbandwidth"].partition("\n")[2])
    document["nvbandwidth"]["testcases"].append({"name": nvbandwidth.TO_HOST, "status": "Error"})
    found = read("nvbandwidth", json.dumps(document))
    assert why(found.to_host_gbps) == "device_to_host_memcpy_ce: Error"
    assert value(found.broken) == 1


def test_a_pair_without_access_is_no_pair_that_may_be_left_out() -> None:
    """N/A off the diagonal means that the GPUs cannot reach each other."""
    found = read("nvbandwidth", HEALTHY["nvbandwidth"].replace('"752.300"', '"N/A"', 1))
    assert "N/A between 0 and 1: no access" in why(found.between_gbps)


@pytest.mark.parametrize("cell", ["nan", "inf", "-1.0", "55,3", ""])
def test_a_cell_that_is_no_bandwidth_leaves_no_figure(cell: str) -> None:
    """It may have been the slow one."""
    found = read("nvbandwidth", HEALTHY["nvbandwidth"].replace('"55.3000"', f'"{cell}"', 1))
    assert isinstance(found.to_device_gbps, Unread)


# --- mamf-finder ---------------------------------------------------------------------------------------


def test_version_4_has_both_headlines() -> None:
    """With shape, watts, clock and temperature beside them, and what the tool notes."""
    found = read("mamf", HEALTHY["mamf"])
    assert (value(found.burst_tflops), value(found.sustained_tflops)) == (1741, 1447)
    assert "sibling GPU(s) sat idle" in found.sustained_tflops.note
    assert "benchmark version 4" in found.sustained_tflops.note


def test_a_headline_may_lack_its_watts_or_be_not_confirmed() -> None:
    """N/A is no figure, and none of version 2's stands in for it."""
    head = "- benchmark version: 4\n"
    bare = "MAMF (max achievable, boost burst): 842 TFLOPS @ 1x2x3 (MxNxK)\n"
    found = read("mamf", f"{head}{bare}MSMF (max sustainable, saturated):   n/a\n")
    assert value(found.burst_tflops) == 842
    assert why(found.sustained_tflops) == "it printed no MSMF"


def test_version_2_has_a_burst_and_no_sustained_figure() -> None:
    """Its progress is overwritten line by line, and ends in the best of all shapes."""
    text = (
        "- benchmark version: 2\n"
        "    1 |  600.1(mean)  610.2(median)  650.3(max) @ 4096x4096x4096 | best:  610.2 TFLOPS\r"
        "    2 |  700.1(mean)  710.2(median)  750.3(max) @ 8192x8192x8192 | best:  710.2 TFLOPS\r\n"
        "Tried  2 shapes => the best outcomes were:\n"
        "mean:   700.1 TFLOPS @ 8192x8192x8192 (MxNxK)\n"
        "median: 710.2 TFLOPS @ 8192x8192x8192 (MxNxK)\n"
        "max:    750.3 TFLOPS @ 8192x8192x8192 (MxNxK)\n"
    )
    found = read("mamf", text)
    assert value(found.burst_tflops) == 710.2
    assert "version 2 has no sustained figure" in why(found.sustained_tflops)


def test_what_the_tool_doubts_or_did_not_end_is_no_figure() -> None:
    """It says SUSPECT of its own figure; interrupted, it prints the best so far and ends with 1."""
    doubted = read("mamf", HEALTHY["mamf"] + "SUSPECT: the clock was locked\n")
    assert "the tool doubts it itself: SUSPECT" in why(doubted.sustained_tflops)
    assert "exit 1" in why(read("mamf", HEALTHY["mamf"], "failed", "exit 1").sustained_tflops)


# --- HPL-MxP -------------------------------------------------------------------------------------------


def test_hpl_mxp_counts_the_whole_solution() -> None:
    """Not the rate of its factorisation, which is several times higher and printed beside it."""
    found = read("hpl_mxp", HEALTHY["hpl_mxp"])
    assert value(found.per_gpu_tflops) == pytest.approx(71.2)
    assert value(found.passed) is True
    assert "N = 258048" in found.per_gpu_tflops.note


def test_rochpl_mxp_prints_a_table() -> None:
    """Its rate is that of all ranks together."""
    found = read("hpl_mxp", tools.rochpl_mxp(78.1).out.decode())
    assert value(found.per_gpu_tflops) == pytest.approx(78.1, rel=1e-4)
    assert value(found.passed) is True


def test_anything_but_passed_has_failed() -> None:
    """Also one of several solutions."""
    text = HEALTHY["hpl_mxp"] + HEALTHY["hpl_mxp"].replace("PASSED", "FAILED")
    assert read("hpl_mxp", text).passed == Read(value=False, evidence="m#1", note="residual FAILED")


def test_a_run_without_a_residual_is_none() -> None:
    """It was killed before it was checked, and a fast wrong solution is worth nothing."""
    text = HEALTHY["hpl_mxp"]
    assert "it did not end" in why(read("hpl_mxp", text[: text.index("||Ax")]).passed)


def test_hpl_mxp_behind_its_licence_was_not_run() -> None:
    """Which is no fault of the cluster."""
    found = read("hpl_mxp", "", "not_found", "exit 127", f"none is here: {hpl_mxp.GET}")
    assert found.passed.kind == "not_asked"
    assert "behind a licence" in why(found.passed)


# --- TransferBench ---------------------------------------------------------------------------------------


def test_transferbench_gives_its_average_and_what_was_wrong() -> None:
    """A mismatch is wrong data, a class of its own, and leaves no rate."""
    assert value(read("transferbench", HEALTHY["transferbench"]).average_gbps) == 44.1
    bad = HEALTHY["transferbench"] + "[ERROR] Transfer 0: Unexpected mismatch at index 0\n"
    found = read("transferbench", bad)
    assert value(found.wrong) == 1
    assert "Unexpected mismatch" in found.wrong.note


# --- all of them -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ARGS)
def test_a_tool_that_is_missing_says_how_to_get_it(tool: str, tmp_path: Path) -> None:
    """The command itself, where there is none: exit 127, and the way to it."""
    _, *words = TOOLS[tool].argv(ARGS[tool])
    how: dict[str, Any] = {"env": {"PATH": str(tmp_path)}, "capture_output": True, "text": True}
    done = subprocess.run([sys.executable, *words], check=False, **how)
    assert done.returncode == 127
    get = {"nvbandwidth": nvbandwidth, "mamf": mamf, "hpl_mxp": hpl_mxp, "transferbench": transferbench}
    assert get[tool].GET in done.stderr


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("nvbandwidth", "nvbandwidth"),
        ("mamf", "mamf-finder.py"),
        ("hpl_mxp", "hpl-mxp.sh"),
        ("transferbench", "TransferBench"),
    ],
)
def test_a_fake_tool_in_path_is_started_and_replays_what_it_printed(
    tool: str, name: str, tmp_path: Path
) -> None:
    """The command that was really run stands before it, and the figures are those of the capture."""
    said = HEALTHY[tool].partition("\n")[2]
    fake = tmp_path / name
    if name.endswith(".py"):
        fake.write_text(f"print({said!r}, end='')\n", encoding="utf-8")
    else:
        fake.write_text(f"#!/bin/sh\ncat <<'END'\n{said}END\n", encoding="utf-8")
        fake.chmod(0o755)
    mpirun = tmp_path / "mpirun"
    mpirun.write_text(
        '#!/bin/sh\nfor word in "$@"; do [ -x "$word" ] && exec "$word"; done\n', encoding="utf-8"
    )
    mpirun.chmod(0o755)
    _, *words = TOOLS[tool].argv(ARGS[tool])
    how: dict[str, Any] = {"env": {"PATH": f"{tmp_path}:{os.environ['PATH']}"}, "capture_output": True}
    done = subprocess.run([sys.executable, *words], check=True, **how)
    out = done.stdout.decode()
    assert out.startswith("# command: ")
    assert str(fake) in out.partition("\n")[0]
    here, there = read(tool, out), read(tool, HEALTHY[tool])
    for figure in FIGURES[tool]:
        assert value(getattr(here, figure)) == value(getattr(there, figure))


@pytest.mark.parametrize("tool", ARGS)
@pytest.mark.parametrize("part", [0.2, 0.5, 0.8])
def test_a_run_that_was_cut_gives_no_figure_that_came_later(tool: str, part: float) -> None:
    """What a tool prints last is what it was run for."""
    text = HEALTHY[tool]
    found = read(tool, text[: int(part * text.index("\n", len(text) // 2))], "failed", "exit 1")
    assert any(isinstance(getattr(found, figure), Unread) for figure in FIGURES[tool])


@given(
    st.sampled_from(sorted(ARGS)),
    st.text(max_size=300) | st.binary(max_size=300).map(lambda raw: raw.decode("latin-1")),
    st.data(),
)
def test_any_bytes_are_read_without_an_exception(tool: str, noise: str, data: st.DataObject) -> None:
    """Alone, and in the middle of what a healthy run printed."""
    text = HEALTHY[tool]
    at = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(at, len(text)))
    for out in (noise, text[:at] + noise + text[end:]):
        found = read(tool, out)
        for figure in FIGURES[tool]:
            fact = getattr(found, figure)
            assert isinstance(fact, Unread) or fact.value >= 0


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["name", "status", "bandwidth_matrix", "bandwidth_description"]), inner
            )
        ),
        max_leaves=12,
    )
)
def test_any_document_of_nvbandwidth_is_read_without_an_exception(content: object) -> None:
    """Whatever stands where tests or their cells should be."""
    for told in (content, {"testcases": content, "error": content}, {"testcases": [content]}):
        found = read("nvbandwidth", json.dumps({"nvbandwidth": told}))
        assert isinstance(found.broken, Unread) or found.broken.value > 0
