"""The health of a GPU: what the driver says, what it cannot say, and what must not be taken for a fault."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from facts_evidence import BUSES, absent, device, mark, node, small, unread, value
from recorded.health import NAMESPACE

SAMPLES = Path(os.environ.get("GPUASSAY_SAMPLES", Path(__file__).parents[2] / "shared"))
LOGS = SAMPLES / "captures/nvidia-smi-xml"
real = pytest.mark.skipif(not LOGS.is_dir(), reason=f"no samples in {SAMPLES}: set GPUASSAY_SAMPLES")
NO = mark("unsupported", "NVML: Not Supported (3)")


def gpu(**changes: Any) -> Any:
    """Make a GPU whose entry is changed; a dict changes part of what is there."""
    entry = device(0, BUSES[0])
    for key, change in changes.items():
        entry[key] = (
            {**entry[key], **change} if isinstance(change, dict) and "unread" not in change else change
        )
    nvml = {"driver": "580.95.05", "count": 2, "devices": [entry, device(1, BUSES[1])]}
    return node(small(nvml=nvml)).gpus[0]


def log(name: str, **edits: str) -> Any:
    """Read the first GPU of a real log of nvidia-smi, edited by tag."""
    text = (LOGS / name).read_text()
    for tag, said in edits.items():
        start = text.index(f"<{tag}>") + len(tag) + 2
        text = text[:start] + said + text[text.index(f"</{tag}>") :]
    return printed(text).gpus[0]


def printed(text: str | Any) -> Any:
    """Read a node of which only nvidia-smi answered."""
    return node({"nvml": absent("not_found", "no library"), "nvidia-smi-xml": text, "pci": {}})


def test_an_idle_gpu_in_good_health() -> None:
    """Every fact is there, and none is a reason to worry."""
    one = gpu()
    health, now = one.health, one.condition
    assert (value(health.uncorrected_errors), value(health.corrected_errors)) == (0, 0)
    assert value(health.sram_threshold_exceeded) is False
    assert (value(health.asks_for), value(health.inforom_valid)) == ("nothing", True)
    assert value(now.power_brake) is value(now.hw_slowdown) is False
    assert value(now.thermal_margin_c) == 52
    assert value(now.idle_power_w) == 195.68
    assert (value(now.held_mib), value(now.orphaned_mib)) == (0, 0)


@pytest.mark.parametrize(
    ("mask", "bad"),
    [
        (0x0, ()),
        (0x1, ()),
        (0x4, ()),
        (0x116, ()),
        (0x20, ("sw_thermal_slowdown",)),
        (0x48, ("hw_slowdown", "hw_thermal_slowdown")),
        (0x88, ("hw_slowdown", "power_brake")),
        (0x8C, ("hw_slowdown", "power_brake")),
    ],
)
def test_clock_reasons_are_a_mask(mask: int, bad: tuple[str, ...]) -> None:
    """Benign bits hide no harmful one, and are none themselves."""
    now = gpu(clock_event_reasons=mask).condition
    names = ("power_brake", "hw_slowdown", "hw_thermal_slowdown", "sw_thermal_slowdown")
    assert tuple(sorted(name for name in names if value(getattr(now, name)))) == bad
    assert ("power brake" in now.hw_slowdown.note) is bool(mask & 0x80)
    assert "power cap" not in now.hw_slowdown.note


def test_a_reason_without_a_published_meaning_is_told() -> None:
    """It is not harmless because nobody knows it; beside a harmful one it is named."""
    assert "0x1000" in gpu(clock_event_reasons=0x1008).condition.hw_slowdown.note


@pytest.mark.parametrize(
    ("action", "asks"),
    [
        (0, "nothing"),
        (1, "GPU reset"),
        (2, "node reboot"),
        (4, "drain and GPU reset"),
        (99, "recovery action 99"),
    ],
)
def test_recovery_actions_by_number(action: int, asks: str) -> None:
    """A number of tomorrow is not taken for none."""
    assert value(gpu(fields={"recovery_action": action}).health.asks_for) == asks


def test_drivers_before_the_recovery_action() -> None:
    """They say it in two fields; where neither is there, it cannot be seen, which is no fault."""
    old = {"recovery_action": mark("not_found", "NVML: no value for field 230 (2)")}
    assert value(gpu(fields=old | {"reset_required": 0, "drain_and_reset": NO}).health.asks_for) == "nothing"
    assert value(gpu(fields=old | {"reset_required": 1}).health.asks_for) == "GPU reset"
    assert value(gpu(fields=old | {"reset_required": 0, "drain_and_reset": 1}).health.asks_for).startswith(
        "drain"
    )
    assert unread(gpu(fields=old).health.asks_for).kind == "denied"


def test_what_is_pending_or_beyond_repair() -> None:
    """Each asks for a reset though the recovery action says none."""
    assert value(gpu(retired_pages_pending=True).health.asks_for) == "GPU reset"
    assert value(gpu(repairs_pending={"tpc": True}).health.asks_for) == "GPU reset"
    assert value(gpu(unrepairable_memory=True).health.asks_for) == "replacement"
    assert value(gpu(retired_pages_pending=NO, repairs_pending=NO).health.asks_for) == "nothing"


def test_a_gpu_that_answers_only_that_it_requires_a_reset() -> None:
    """That is an answer, and no missing one."""
    entry = {"index": 0, **mark("failed", "NVML: GPU requires reset (16)")}
    lost = node(small(nvml={"driver": "580.95.05", "count": 2, "devices": [entry, device(1, BUSES[1])]}))
    assert value(lost.gpus[0].health.asks_for) == "GPU reset"
    assert unread(lost.gpus[0].health.uncorrected_errors).kind == "failed"


def test_a_corrupted_inforom_is_told_from_one_that_could_not_be_read() -> None:
    """NVML's code 14 is an answer; any other is not."""
    assert (
        value(gpu(inforom_valid=mark("failed", "NVML: infoROM is corrupted (14)")).health.inforom_valid)
        is False
    )
    assert (
        unread(gpu(inforom_valid=mark("failed", "NVML: Unknown Error (999)")).health.inforom_valid).kind
        == "failed"
    )


def test_an_error_of_earlier_times_says_what_came_of_it() -> None:
    """The note tells that the rows were replaced and that nothing is left to do."""
    old = gpu(ecc_errors={"aggregate_uncorrected": 2}, remapped_rows={"uncorrectable": 2}).health
    assert value(old.uncorrected_errors) == 0
    assert old.lifetime_uncorrected_errors.note == (
        "2 rows remapped after uncorrectable errors, none pending, no failure"
    )


def test_without_ecc_nothing_counts_errors() -> None:
    """N/A is explained, and is no pass."""
    off = gpu(ecc={"current": False}, ecc_errors={"volatile_uncorrected": NO}).health
    assert unread(off.uncorrected_errors).kind == "denied"
    assert "ECC is off" in unread(off.uncorrected_errors).why


def test_margins_of_both_families() -> None:
    """From Ada on margins count, before that temperatures, and of two limits the nearer one."""
    assert value(gpu(temperature={"gpu_c": 91, "tlimit_c": -3}).condition.thermal_margin_c) == 0
    old = {"gpu_c": 70, "tlimit_c": NO, "slowdown_c": 89, "memory_max_c": NO}
    assert value(gpu(temperature=old).condition.thermal_margin_c) == 19
    hot = gpu(temperature=old | {"memory_max_c": 95}, fields={"memory_c": 94})
    assert value(hot.condition.thermal_margin_c) == 1
    assert "memory 94 C" in hot.condition.thermal_margin_c.note


@pytest.mark.parametrize("margin", [-5, 200, -128, "49", None, True])
def test_a_margin_that_contradicts_the_temperature_is_not_believed(margin: Any) -> None:
    """A cool GPU with a margin below zero was called hot by others; here it is an error."""
    assert unread(gpu(temperature={"tlimit_c": margin}).condition.thermal_margin_c).kind == "garbled"


def test_a_busy_gpu_is_not_judged_as_an_idle_one() -> None:
    """It is unseen, and says who is at work."""
    users = {"count": 1, "listed": [{"pid": 77, "bytes": 5}], "namespace": NAMESPACE}
    busy = gpu(usage={"busy_percent": 97, "power_mw": 980_000, "processes": users}).condition
    for fact in (busy.idle_power_w, busy.held_mib, busy.orphaned_mib):
        assert unread(fact).kind == "denied"
        assert "97 % busy: 1 processes, pid 77" in unread(fact).why


def test_held_and_orphaned_memory() -> None:
    """Whose it is decides: a process's, nobody's, or not to be seen from inside a container."""
    held = {"memory_bytes": 40 << 30}
    nobody = gpu(usage=held).condition
    assert (value(nobody.held_mib), value(nobody.orphaned_mib)) == (40960, 40960)
    users = {"count": 1, "listed": [{"pid": 77, "bytes": 5}], "namespace": NAMESPACE}
    owned = gpu(usage=held | {"processes": users}).condition
    assert (value(owned.held_mib), value(owned.orphaned_mib)) == (40960, 0)
    inside = gpu(
        usage=held | {"processes": {"count": 0, "listed": [], "namespace": "pid:[4026532836]"}}
    ).condition
    assert value(inside.held_mib) == 40960
    assert unread(inside.orphaned_mib).kind == "denied"
    shared = gpu(usage=held, addressing="ATS").condition
    assert unread(shared.held_mib).kind == unread(shared.orphaned_mib).kind == "unsupported"


def test_mig_is_the_reason_for_what_nvml_does_not_tell() -> None:
    """Neither a fault nor a pass; without MIG the same N/A is for the product's table to excuse."""
    divided = gpu(mig=1, remapped_rows=NO, usage={"busy_percent": NO})
    for fact in (
        divided.remap_pending,
        divided.remap_failed,
        divided.remap_banks_exhausted,
        divided.remapped_rows,
    ):
        assert unread(fact).kind == "denied"
        assert "MIG is on" in unread(fact).why
    assert unread(divided.condition.idle_power_w).kind == "denied"
    assert unread(gpu(mig=0, remapped_rows=NO).remap_pending).kind == "unsupported"


def test_an_older_probe_did_not_ask() -> None:
    """Each fact says so, whatever part of the answer is missing."""
    entry = {
        key: said for key, said in device(0, BUSES[0]).items() if key not in ("ecc_errors", "fields", "usage")
    }
    one = node(small(nvml={"driver": "1.1", "count": 2, "devices": [entry, device(1, BUSES[1])]})).gpus[0]
    for fact in (one.health.uncorrected_errors, one.health.asks_for, one.condition.idle_power_w):
        assert unread(fact).kind == "not_asked"


# --- nvidia-smi ------------------------------------------------------------------------------------------


@real
def test_real_logs_of_healthy_machines() -> None:
    """What their operators saw: no errors, no request, degrees in hand, and the power of an idle GPU."""
    margins = {"qx_a100.xml": 56, "qx_b200.xml": 52, "qx_gb200.xml": 62, "qx_gb300.xml": 51, "qx_t4.xml": 60}
    for name, margin in margins.items():
        one = log(name)
        assert value(one.health.uncorrected_errors) == 0
        assert (value(one.health.asks_for), value(one.health.inforom_valid)) == ("nothing", True)
        assert value(one.condition.thermal_margin_c) == margin
        assert value(one.condition.power_brake) is value(one.condition.hw_slowdown) is False
    assert value(log("qx_b200.xml").condition.idle_power_w) == 195.68
    assert value(log("qx_t4.xml").condition.idle_power_w) == 33.51


@real
def test_real_logs_of_older_drivers() -> None:
    """Throttle reasons, two fields for the reset, processes of a desktop; what is not printed is unseen."""
    old = log("qx_a10g_515.xml", clocks_throttle_reason_hw_power_brake_slowdown="Active")
    assert value(old.condition.power_brake) is True
    assert unread(old.health.asks_for).kind == unread(old.health.sram_threshold_exceeded).kind == "denied"
    assert value(old.condition.held_mib) == 22
    assert "pid 725" in unread(old.condition.idle_power_w).why
    assert value(log("qx_a100_mig_535.xml").health.asks_for) == "nothing"
    assert value(log("qx_a100_mig_535.xml", reset_required="Yes").health.asks_for) == "GPU reset"


@real
def test_mig_in_a_real_log() -> None:
    """The rows are N/A because of MIG, and the log says that it is on."""
    divided = log("qx_a100_mig_535.xml")
    assert unread(divided.remap_pending).kind == "denied"
    assert "MIG is on" in unread(divided.condition.held_mib).why


@real
def test_faults_in_a_real_log() -> None:
    """Each is found where the tool prints it."""
    name = "qx_b200.xml"
    assert value(log(name, gpu_recovery_action="Drain and Reset").health.asks_for) == "drain and GPU reset"
    assert value(log(name, gpu_recovery_action="Something New").health.asks_for) == "Something New"
    assert value(log(name, sram_uncorrectable_secded="3").health.uncorrected_errors) == 3
    assert value(log(name, channel_repair_pending="Yes").health.asks_for) == "GPU reset"
    assert (
        value(log(name, clocks_event_reason_hw_thermal_slowdown="Active").condition.hw_thermal_slowdown)
        is True
    )
    assert unread(log(name, clocks_event_reason_hw_slowdown="Maybe").condition.power_brake).kind == "garbled"
    assert unread(log(name, dram_uncorrectable="N/A").health.uncorrected_errors).kind == "unsupported"
    assert value(log("mock_qx_gb200_lost.xml").health.uncorrected_errors) == 5


WARNING = "WARNING: infoROM is corrupted at gpu 0000:8F:00.0\n"


@real
@pytest.mark.parametrize("before", [True, False])
def test_a_warning_beside_the_log_costs_no_data(before: bool) -> None:  # noqa: FBT001
    """nvidia-smi ends with status 14 then, and all that it printed holds (Datura-ai/lium-io#707)."""
    xml = (LOGS / "qx_b200.xml").read_text()
    text = WARNING + xml if before else xml + WARNING
    sample = printed(replace(absent("failed", "exit status 14", out=text.encode()), exit=14))
    first, second = sample.gpus[:2]
    assert len(sample.gpus) == value(sample.gpus_in_driver) == 8
    assert value(first.health.uncorrected_errors) == 0
    assert value(first.health.inforom_valid) is False
    assert value(second.health.inforom_valid) is True
    other = printed(replace(absent("failed", "exit status 15", out=xml.encode()), exit=15)).gpus[0]
    assert unread(other.health.inforom_valid).kind == "failed"
