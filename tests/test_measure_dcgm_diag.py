"""NVIDIA's diagnostic is read in every form it comes in, and never better than it is."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.evidence.item import Item
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.dcgm_diag import TESTS, DcgmDiag

if TYPE_CHECKING:
    from gpuassay.measure.diagnosis import Test

CAPTURES = (
    Path(os.environ.get("GPUASSAY_SAMPLES", Path(__file__).parents[2] / "shared")) / "captures" / "dcgmi"
)


def read(out: bytes | str, level: int = 2) -> dict[str, Test]:
    """Read a report of a level; the tests by name."""
    item = Item("dcgm_diag", 1, out=out if isinstance(out, bytes) else out.encode())
    return {test.name: test for test in DcgmDiag().read("n1", {"level": level}, item, "measure/x#1").tests}


def report(root: str, *results: dict[str, object], name: str = "memory") -> str:
    """Write a report with one test."""
    tests = [{"name": name, "results": list(results)}]
    return json.dumps({root: {"test_categories": [{"category": "Hardware", "tests": tests}]}})


@pytest.mark.parametrize("root", ["DCGM Diagnostic", "DCGM GPU Diagnostic"])
def test_a_fail_on_one_gpu_fails_the_test_and_is_named(root: str) -> None:
    """Both forms are read, also behind lines of other programs, and with the status in capitals."""
    text = report(root, {"entity_id": 0, "status": "PASS"}, {"gpu_id": 3, "status": "FAIL", "info": "bad"})
    failed = read(f"Defaulted container\n{text}")["memory"].failed

    assert isinstance(failed, Read)
    assert failed.value
    assert "GPU 3" in failed.note
    assert "bad" in failed.note


def test_a_test_that_was_skipped_on_one_gpu_is_not_passed() -> None:
    """DCGM skips what it may not run; the other GPUs' word does not stand for the skipped one."""
    found = read(
        report("DCGM Diagnostic", {"entity_id": 0, "status": "Pass"}, {"entity_id": 1, "status": "Skip"})
    )

    assert isinstance(found["memory"].failed, Unread)


def test_every_test_of_the_level_is_in_the_report_or_said_to_be_missing() -> None:
    """DCGM leaves a plugin that it cannot load out of its report, without a word."""
    found = read(report("DCGM Diagnostic", {"entity_id": 0, "status": "Pass"}), level=3)

    assert set(TESTS[3]) <= set(found)
    missing = found["targeted_power"].failed
    assert isinstance(missing, Unread)
    assert "plugin" in missing.why


def test_mig_is_named_as_the_reason() -> None:
    """With MIG on the diagnostic refuses to run, which is no fault of a GPU."""
    failed = read("Error: MIG configuration is incompatible with the diagnostic")["memory"].failed

    assert isinstance(failed, Unread)
    assert failed.kind == "denied"


@given(st.binary())
def test_garbage_never_passes_and_never_raises(out: bytes) -> None:
    """Whatever a tool prints, a test passes only by a report that says so."""
    for test in read(out).values():
        assert isinstance(test.failed, Unread) or test.failed.value or b"ass" in out.lower()


def test_every_capture_is_read_and_nothing_passes_that_did_not() -> None:
    """The outputs of real versions give results for software tests, and a fail in the one that has it."""
    files = sorted(CAPTURES.glob("*"))
    if not files:
        pytest.skip("the samples are not here: captures/dcgmi")
    for file in files:
        software = read(file.read_bytes(), level=1)["software"]
        failed = software.failed
        assert isinstance(failed, Read), (file.name, failed)
        assert failed.value == ("fail_output" in file.name)
