"""AMD's validation suite is read from its output, and never better than it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.evidence.item import Item
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.rvs import MODULES, Rvs
from recorded import measurements

if TYPE_CHECKING:
    from gpuassay.evidence.item import Status
    from gpuassay.judge.fact import Fact

HEALTHY = measurements.rvs().out.decode()
# The form of a result in the user guide's sections GST and IET: there the action's name has no brackets.
GUIDE = """\
[RESULT] [164355.647523] Action name :action_gst_1
[RESULT] [164355.647600] Module name :gst
[RESULT] [164355.647523] action_gst_1 gst 33367 Gflop: 4066.020766 try_ops_per_sec: 9.157367 pass: TRUE
[RESULT] [161254.738939] action_gst_1 gst 3254 Gflop: 2066.020766 try_ops_per_sec: 9.157367 pass: FALSE
"""


def read(out: str, err: str = "", status: Status = "ok", why: str = "") -> dict[str, Fact[bool]]:
    """Read an output; whether each test failed, by its name."""
    item = Item("rvs", 1, status, out=out.encode(), err=err, why=why)
    report = Rvs().read("n1", {"level": 3}, item, "measure/rvs/n1#1")
    return {test.name: test.failed for test in report.tests}


def test_a_healthy_output_passes_and_says_on_what_ground() -> None:
    """What rvs judges passes by its verdicts, what it only measures passes for having run."""
    found = read(HEALTHY)
    assert {name: isinstance(one, Read) and one.value for name, one in found.items()} == dict.fromkeys(
        ("hbm_mid", "pcie_d2h_bandwidth", "xgmi_d2d_bandwidth", "compute-bf16-trig"), False
    )
    assert found["compute-bf16-trig"].note == "8 results"  # type: ignore[union-attr]
    assert "no verdict" in found["hbm_mid"].note  # type: ignore[union-attr]


def test_both_ways_of_writing_an_action_are_read() -> None:
    """The guide's sections differ in brackets; a FALSE is a fail that names the GPU."""
    failed = read(GUIDE)["action_gst_1"]
    assert isinstance(failed, Read)
    assert failed.value
    assert "3254" in failed.note
    assert "33367" not in failed.note


def test_a_gpu_without_a_verdict_is_not_passed() -> None:
    """Seven verdicts of eight GPUs are no pass, where another action gave eight."""
    line = next(line for line in HEALTHY.splitlines() if "gst 22683" in line)
    second = HEALTHY.replace("compute-bf16-trig", "compute-fp8-trig").replace(f"{line}\n", "")
    second = second.replace(line.replace("compute-bf16-trig", "compute-fp8-trig") + "\n", "")
    found = read(HEALTHY + second)
    assert isinstance(found["compute-bf16-trig"], Read)
    assert found["compute-fp8-trig"] == Unread("failed", "no verdict on GPU 22683", "measure/rvs/n1#1")


@pytest.mark.parametrize(
    ("error", "name"),
    [
        ("RVS-ERROR [GST] [compute-bf16-trig] key 'target_stress' was not found", "compute-bf16-trig"),
        ("RVS-ERROR [CLI] action 'hbm_mid' failed with error !", "hbm_mid"),
    ],
)
def test_an_error_is_held_against_its_action(error: str, name: str) -> None:
    """An action that ended with an error proves nothing, whatever it printed before."""
    found = read(HEALTHY, err=f"{error}\n")
    assert isinstance(found.pop(name), Unread)
    assert all(isinstance(one, Read) for one in found.values())


def test_what_is_not_in_the_output_is_missing() -> None:
    """After an early end the modules that did not come are named, and the bandwidths are no passes."""
    found = read(HEALTHY.partition("[RESULT] [  4022")[0], status="failed", why="exit 255")
    assert isinstance(found["gst"], Unread)
    assert "exit 255" in found["gst"].why
    assert isinstance(found["hbm_mid"], Unread)


def test_a_transfer_that_was_not_measured_is_no_pass() -> None:
    """The guide: a transfer may not have come about in the time of the test."""
    assert isinstance(read(HEALTHY.replace("93.307 GBps", "(not measured)"))["xgmi_d2d_bandwidth"], Unread)


def test_a_product_that_it_does_not_know() -> None:
    """Its own words are the reason for every module of the level."""
    found = read("", err="RVS-ERROR [CLI] Could not detect platform name\n", status="failed", why="exit 255")
    assert set(found) == set(MODULES[3])
    assert all(isinstance(one, Unread) and "platform name" in one.why for one in found.values())


@given(st.text() | st.builds(lambda cut: HEALTHY[:cut], st.integers(0, len(HEALTHY) - 1)))
def test_no_other_text_is_taken_for_a_whole_report(text: str) -> None:
    """Reading never raises, and what is cut anywhere lacks something."""
    found = read(text, status="failed")
    assert any(isinstance(one, Unread) for one in found.values())
