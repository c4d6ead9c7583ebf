"""What of a driver's messages is found in the kernel log, and how bad each is held to be."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.facts import kernel_log
from gpuassay.facts.xid import SEVERITIES, catalogue
from kernel_log_evidence import BOOT, Node, counts, kmsg, note, read, record

FALLEN = "GPU has fallen off the bus."


@pytest.mark.parametrize(
    "line",
    [
        f"NVRM: Xid (PCI:0000:18:00): 79, {FALLEN}",
        f"NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, {FALLEN}",
        f"NVRM: Xid (PCI:0000:18:00): 79, pid=4242, name=python3, {FALLEN}",
        f"NVRM: Xid (0000:18:00): 79, {FALLEN}",
        f"NVRM:  Xid  (PCI:0000:18:00):  79,  {FALLEN}",
        f"NVRM: Xid (PCI:0000:18:00 GPU-I:05): 79, {FALLEN}",
        f"NVRM: Xid (PCI:0000:18:00 GPU-I:05 GPU-CI:00): 79, {FALLEN}",
        f"NVRM: Xid (PCI:0000:18:00.0): 79, {FALLEN}",
        f"NVRM: GPU 0000:18:00.0: {FALLEN}",
        r"NVRM: The NVIDIA GPU 0000:18:00.0\x0aNVRM: (PCI ID: 10de:2901) has\x0aNVRM: fallen off the bus …",
    ],
)
def test_every_form_of_a_line_names_the_code_and_the_gpu(line: str) -> None:
    """Drivers of six years, MIG, and a GPU that was gone before the driver came: each is an Xid 79."""
    log = read(line, hours=12.3)

    assert counts(log) == {"serious_xids": 1}
    assert note(log.serious_xids).startswith(
        "Xid 79 GPU has fallen off the bus on gpu0 (0000:18:00) x1 (uptime 12.3 h): drain and reboot"
    )


def test_three_records_for_one_lost_gpu() -> None:
    """The message about a GPU that is missing at the driver's start may come as three records."""
    log = read(
        "NVRM: The NVIDIA GPU 0000:2a:00.0",
        "NVRM: (PCI ID: 10de:2901) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    )

    assert counts(log) == {"serious_xids": 1}
    assert "gpu1 (0000:2a:00)" in note(log.serious_xids)


def test_a_line_that_repeats_a_numbered_one_is_not_counted_again() -> None:
    """After Xid 79 the driver says the same without a number; such a line of another GPU is an event."""
    log = read(
        f"NVRM: Xid (PCI:0000:18:00): 79, {FALLEN}",
        f"NVRM: GPU 0000:18:00.0: {FALLEN}",
        f"NVRM: GPU 0000:2a:00.0: {FALLEN}",
    )

    assert counts(log) == {"serious_xids": 2}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "13, pid='<unknown>', name=<unknown>, Graphics SM Warp Exception: Out Of Range Address",
            "application_xids",
        ),
        ("31, pid=4242, name=python3, Ch 00000008, MMU Fault", "application_xids"),
        ("43, pid=4242, name=python3, Ch 0000000c", "application_xids"),
        ("94, pid=4242, name=python3, Contained memory error", "application_xids"),
        ("48, pid=4242, name=python3, DBE (double bit error)", "serious_xids"),
        ("95, Uncontained memory error", "serious_xids"),
        (
            "119, pid=7, name=nvidia-smi, Timeout after 6s of waiting for RPC response from GPU4 GSP!",
            "serious_xids",
        ),
        ("63, Row Remapper: New row marked for remapping", None),
        ("149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x025525c6 0x00000000)", "serious_xids"),
        ("145, RLW_REMAP Nonfatal XC1 i0 Link 10 (0x00000004 0x00000040)", None),
        ("145, RLW_REMAP of some new kind", "unknown_xids"),
        ("154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", "serious_xids"),
        ("154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", None),
        ("154, GPU recovery action changed from 0x0 (None) to 0x9 (Something New)", "unknown_xids"),
        ("173, C2C fatal link failure", "serious_xids"),
        ("9999, a number of the future", "unknown_xids"),
    ],
)
def test_severity(line: str, expected: str | None) -> None:
    """The catalogue's class decides, or the line's own word where it has one; unknown is never harmless."""
    found = counts(read(f"NVRM: Xid (PCI:0000:18:00): {line}"))

    assert found == ({expected: 1} if expected else {})


def test_a_side_effect_counts_only_where_it_stands_alone() -> None:
    """Xid 45 follows whatever is on the same GPU, and 171 follows 48; alone, each is said."""
    removed = "NVRM: Xid (PCI:{}): 45, pid=4242, name=python3, Ch 00000008"
    in_hbm = "NVRM: Xid (PCI:0000:18:00): 171, Uncorrectable DRAM error"
    double_bit = "NVRM: Xid (PCI:0000:18:00): 48, DBE"

    assert counts(read(removed.format("0000:18:00"), double_bit)) == {"serious_xids": 1}
    assert counts(read(removed.format("0000:2a:00"), double_bit)) == {
        "serious_xids": 1,
        "application_xids": 1,
    }
    assert counts(read(removed.format("0000:18:00"))) == {"application_xids": 1}
    assert counts(read(in_hbm, double_bit)) == {"serious_xids": 1}
    assert counts(read(in_hbm)) == {"unknown_xids": 1}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("20034, Fatal, Link 30 LTSSM Fault Up", "fatal_sxids"),
        ("28006, Non-fatal, Link 29 MC TS crumbstore MCTO", "nonfatal_sxids"),
        ("11012, Non-fatal, Link 28 ECC corrected", None),
        ("22003, Severity 1 Engine instance 28", "fatal_sxids"),
        ("24008, Severity 5 Engine instance 28", "nonfatal_sxids"),
    ],
)
def test_sxid(line: str, expected: str | None) -> None:
    """An NVSwitch says Fatal or Non-fatal; corrected errors call for nothing, unknown codes are said."""
    found = counts(read(f"nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): {line}"))

    assert found == ({expected: 1} if expected else {})


def test_register_lines_after_an_sxid_are_part_of_it() -> None:
    """An SXid comes with lines of severity and data that repeat its number; it is one event."""
    head = "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034,"
    log = read(
        f"{head} Fatal, Link 30 LTSSM Fault Up",
        f"{head} Severity 1 Engine instance 30",
        f"{head} Data {{0x1}}",
    )

    assert counts(log) == {"fatal_sxids": 1}
    assert "SXid 20034 “Fatal, Link 30 LTSSM Fault Up” on 0000:c1:00 x1" in note(log.fatal_sxids)


@pytest.mark.parametrize("priority", [8, 12, 44])
@pytest.mark.parametrize("prefix", ["", "kernel: "])
def test_what_a_user_wrote_is_no_fault(priority: int, prefix: str) -> None:
    """Only the kernel writes with facility 0: a drill's line is told of, not held against the GPU."""
    line = record(f"{prefix}NVRM: Xid (PCI:0000:18:00): 79, {FALLEN}", priority=priority)
    log = kernel_log.read(Node({"kmsg": kmsg(BOOT, line)}))

    assert counts(log) == {"written_by_user": 1}
    assert note(log.written_by_user).endswith("(uptime 1.0 h), written by a user and not by the kernel")


def test_a_storm_is_told_in_groups() -> None:
    """Like events are one group with their count and time; of many kinds the note names the first few."""
    storm = ["NVRM: Xid (PCI:0000:18:00): 13, Graphics SM Warp Exception"] * 500
    links = [f"NVRM: Xid (PCI:0000:2a:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link {n:02}" for n in range(18)]
    log = read(*storm, *links)

    assert counts(log) == {"application_xids": 500, "serious_xids": 18}
    assert " x500 (uptime 1.0 h)" in note(log.application_xids)
    assert note(log.serious_xids).count("Xid 149") == 8
    assert note(log.serious_xids).endswith("and 10 more kinds")


def test_amd_all_clear_is_no_event() -> None:
    """AMD's driver writes the words of a fault to say that there is none; its log is not ours to read yet."""
    log = read("amdgpu 0000:c3:00.0: amdgpu: no uncorrectable hardware errors detected in umc block")

    assert counts(log) == {}


def test_a_line_in_a_new_form_is_not_lost() -> None:
    """A line that says Xid in a way unknown to us is counted as unknown and quoted."""
    log = read("NVRM: Xid on GPU-5: seventy-nine")

    assert counts(log) == {"unknown_xids": 1}
    assert "Xid on GPU-5: seventy-nine" in note(log.unknown_xids)


def test_the_catalogue_is_whole() -> None:
    """Every code of the mirrored catalogue and of the newest driver's header has a meaning and an action."""
    known = catalogue()

    assert set(known.xids) == {*range(1, 177), 185}
    for entry in known.xids.values():
        assert entry.rule in {*SEVERITIES, "follow", "by_text"}
        assert entry.action in known.actions
        assert entry.name
        assert entry.meaning
        assert entry.source
        assert entry.alone in SEVERITIES


def test_the_injection_set_is_serious_and_the_controls_are_not() -> None:
    """What every fleet tool drains for is serious here too, and what none may drain for is not."""
    rules = {code: entry.rule for code, entry in catalogue().xids.items()}

    assert {rules[code] for code in (48, 64, 74, 79, 95, 119, 120, 140, 143, 155, 156, 158)} == {"serious"}
    assert {rules[code] for code in (13, 31, 43)} == {"application"}
    assert not catalogue().sxid_fatal & catalogue().sxid_corrected


@given(
    st.integers(0, 10**9 - 1),
    st.text(alphabet=st.characters(exclude_characters="\n", exclude_categories=["Cs"])),
)
def test_every_code_with_every_text_has_a_severity(code: int, text: str) -> None:
    """Whatever number and words a driver writes, the line is found and put into one class."""
    log = read(f"NVRM: Xid (PCI:0000:18:00): {code}, {text}")

    found = counts(log)
    harmless = catalogue().entry(code).rule in {"log", "by_text"}
    assert sum(found.values()) == 1 or (not found and harmless)
    assert all(re.search(rf"\b{code}\b", note(getattr(log, name))) for name in found)
