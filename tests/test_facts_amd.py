"""What AMD's driver says: counted, joined with the bus, and read as what it is; the all-clear is no fault."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts_evidence import absent, node, unread, value
from recorded import mi300x_cpx, mi355x
from recorded.items import tree
from recorded.software import ABI

if TYPE_CHECKING:
    from gpuassay.facts.node import Node

SAMPLES = Path(os.environ.get("GPUASSAY_SAMPLES", Path(__file__).parents[2] / "shared"))
CAPTURE = SAMPLES / "captures/amd-smi/amd-smi_static_mi210_0.json"
ADDRESS = mi355x.gpu(3)
AMD = f"amdgpu {ADDRESS}: amdgpu: "


def contents(**changes: Any) -> dict[str, Any]:
    """Make the contents of a healthy node of eight MI355X; ``changes`` replace whole items."""
    return {item.id: item for item in mi355x.node("mi001", 1)} | changes


def driver(**changes: Any) -> dict[str, Any]:
    """Make a healthy node of which the driver says something else of the fourth GPU."""
    devices = {mi355x.gpu(rail): mi355x.device("mi001", rail) for rail in range(8)}
    devices[ADDRESS] |= changes
    return contents(amdgpu=tree("amdgpu", "", devices))


def log(*lines: str, priority: int = 6) -> Node:
    """Make a node whose kernel log ends with these lines."""
    kmsg = contents()["kmsg"].out.decode()
    more = [
        f"{priority},{900 + number},{3_600_000_000 + number},-;{line}" for number, line in enumerate(lines)
    ]
    return node(contents(kmsg="\n".join([kmsg, *more])))


def test_a_healthy_node() -> None:
    """Every GPU is there, whole, and says who it is."""
    sample = node(contents())
    assert value(sample.gpus_on_bus) == value(sample.gpus_in_driver) == value(sample.gpus_seen) == 8
    assert value(sample.driver_version) == value(sample.amdgpu.release) == mi355x.DRIVER
    assert value(sample.amdgpu.rocm) == mi355x.ROCM
    gpu = sample.gpus[3]
    assert gpu.where == "n1/gpu3"
    assert value(gpu.bdf) == ADDRESS
    assert value(gpu.uuid).startswith("GPU-")
    assert value(gpu.ecc_current) is True
    assert unread(gpu.ecc_pending).kind == unread(gpu.remap_pending).kind == "unsupported"
    assert (value(gpu.compute_partition), value(gpu.memory_partition)) == ("SPX", "NPS1")
    assert value(gpu.partitions) == value(gpu.partitions_expected) == 1
    assert value(gpu.xgmi_links) == 7
    assert (value(gpu.pages_pending), value(gpu.pages_unreservable)) == (0, 0)


def test_parts_are_counted_by_gpu() -> None:
    """Bits 28 and up of a location are the part, and all eight parts belong to one address."""
    sample = node({item.id: item for item in mi300x_cpx.node("mi01", 1)})
    assert len(sample.gpus) == 8
    assert [value(gpu.partitions) for gpu in sample.gpus] == [8] * 8
    assert [value(gpu.partitions_expected) for gpu in sample.gpus] == [8] * 8
    assert sample.gpus[0].partitions.note == "the node has 64 of 64"  # type: ignore[union-attr]


@pytest.mark.parametrize(("location", "bus"), [(0x7500, "75"), (0x7500 | 7 << 28, "75"), (0x7503, "75")])
def test_a_location_is_that_of_the_whole_gpu(location: int, bus: str) -> None:
    """Releases put the number of a part into the highest bits, or into the lowest."""
    said = mi355x.properties(simd_count=1, vendor_id=0x1002, location_id=location)
    kfd = tree("kfd", "", {"0": {"name": "", "properties": said}})
    sample = node(contents(kfd=kfd))
    assert value(sample.amdgpu.topology.partitions(f"0000:{bus}:00.0")) == 1


def test_a_gpu_that_programs_are_not_offered_is_lost() -> None:
    """Bound to the driver is not enough."""
    nodes = mi355x.topology()
    del nodes["5"]
    sample = node(contents(kfd=tree("kfd", "", nodes)))
    assert value(sample.gpus_in_driver) == 8
    assert value(sample.gpus_seen) == 7
    assert "does not offer it" in sample.gpus[3].loss


def test_a_container_that_was_given_none_says_so() -> None:
    """What may not be read is no loss, and no count."""
    denied = {"unread": "denied", "why": "properties: Operation not permitted"}
    nodes = mi355x.topology() | {"5": denied}
    sample = node(contents(kfd=tree("kfd", "", nodes)))
    assert value(sample.gpus_seen) == 8
    assert unread(sample.gpus[0].partitions).kind == "denied"


def test_a_driver_that_is_not_loaded_holds_none() -> None:
    """That is a count of nought, not a silence."""
    sample = node(contents(amdgpu={}, kfd={}))
    assert value(sample.gpus_on_bus) == 8
    assert value(sample.gpus_in_driver) == value(sample.gpus_seen) == 0


def test_an_older_recording_is_not_asked() -> None:
    """A recording from before the probe asked AMD's driver proves nothing of it."""
    older = {key: item for key, item in contents().items() if key not in ("amdgpu", "kfd")}
    assert unread(node(older).gpus_in_driver).kind == "not_asked"


def test_a_display_that_the_driver_holds_is_no_accelerator() -> None:
    """It may hold the graphics of the processor too."""
    devices = {mi355x.gpu(rail): mi355x.device("mi001", rail) for rail in range(8)} | {"0000:01:00.0": {}}
    display = mi355x.pci() | {"0000:01:00.0": {"vendor": "0x1002", "device": "0x164e", "class": "0x030000"}}
    sample = node(contents(pci=tree("pci", "", display), amdgpu=tree("amdgpu", "", devices)))
    assert value(sample.gpus_in_driver) == len(sample.gpus) == 8


@pytest.mark.parametrize(
    ("pages", "counts"),
    [
        ("", (0, 0)),
        ("0x027f5d43 : 0x00001000 : R\n0x027f5d4b : 0x00001000 : R", (0, 0)),
        ("0x027f5d43 : 0x00001000 : R\n0x027f5d4b : 0x00001000 : P\n0x027f5d53 : 0x00001000 : F", (1, 1)),
    ],
)
def test_bad_pages(pages: str, counts: tuple[int, int]) -> None:
    """Pages that are out of use are settled; the others are not."""
    ras = mi355x.device("mi001", 3)["ras"] | {"gpu_vram_bad_pages": pages}
    gpu = node(driver(ras=ras)).gpus[3]
    assert (value(gpu.pages_pending), value(gpu.pages_unreservable)) == counts


@pytest.mark.parametrize("pages", ["0x1 : 0x1000 : X", "R", "0x027f5d43 : 0x00001000 : R\nnoise"])
def test_odd_pages_are_not_counted(pages: str) -> None:
    """A mark that nobody has published is not taken for settled."""
    ras = mi355x.device("mi001", 3)["ras"] | {"gpu_vram_bad_pages": pages}
    assert unread(node(driver(ras=ras)).gpus[3].pages_pending).kind == "garbled"


@pytest.mark.parametrize(
    ("counter", "kind"),
    [
        ("Query currently inaccessible", "failed"),
        ("ue: 1048560\nce: 0", "failed"),
        ("ue: -1\nce: 0", "garbled"),
    ],
)
def test_counters_that_are_none(counter: str, kind: str) -> None:
    """During a reset, asleep or damaged, a counter is no count, and no nought."""
    ras = mi355x.device("mi001", 3)["ras"] | {"umc_err_count": counter}
    entry = node(driver(ras=ras)).gpus[3]._device.entry  # noqa: SLF001 - its check is not of this file
    assert unread(entry.record("ecc_errors").count("volatile_uncorrected")).kind == kind


def test_errors_are_added_up_over_blocks() -> None:
    """Those that were kept from programs were not corrected either; older drivers do not count them apart."""
    ras = mi355x.device("mi001", 3)["ras"] | {
        "umc_err_count": "ue: 1\nce: 5\nde: 2",
        "gfx_err_count": "ue: 4\nce: 0",
    }
    errors = node(driver(ras=ras)).gpus[3]._device.entry.record("ecc_errors")  # noqa: SLF001
    assert (value(errors.count("volatile_uncorrected")), value(errors.count("volatile_corrected"))) == (7, 5)


@pytest.mark.parametrize(
    ("links", "count"), [("00 01 01 01 01 01 01 01", 7), ("02 02 00 02", 6), ("00 01 01 00 01 01 01 01", 6)]
)
def test_links_are_added_up_over_peers(links: str, count: int) -> None:
    """Some products have several to one peer."""
    assert value(node(driver(xgmi_num_links=links)).gpus[3].xgmi_links) == count


def test_the_kernels_own_driver_has_no_release() -> None:
    """AMD's bulletins do not speak of it, so nothing here can."""
    sample = node(contents(**{"amdgpu-version": absent("not_found", "/sys/module/amdgpu/version: gone")}))
    assert value(sample.driver_version) == f"in kernel {ABI}-generic"
    assert unread(sample.amdgpu.release).kind == "denied"


# --- the kernel log --------------------------------------------------------------------------------------

ALL_CLEAR = [
    "no uncorrectable hardware errors detected in umc block",
    "no new uncorrectable hardware errors detected",
    "{3} socket: 0, die: 0, 0 uncorrectable hardware errors detected in total in umc block",
    "{3} socket: 0, die: 0, 4 correctable hardware errors detected in total in umc block",
    "ring gfx_0.0.0 timeout, but soft recovered",
    "GPU reset end with ret = 0",
    "{1}[Hardware Error]: Accelerator Check Architecture events logged",
    "{1}[Hardware Error]: aca entry[00].STATUS=0x98000800003e0000",
    "{1}[Hardware Error]: aca entry[00].ADDR=0x0000000000000000",
    "MEM ECC is active.",
    "Saved 8 pages to EEPROM table.",
]
SERIOUS = [
    "{12} socket: 1, die: 0, 2 new uncorrectable hardware errors detected in umc block",
    "2 uncorrectable hardware errors detected in umc block",
    "{1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!",
    "{1}[Hardware Error]: aca entry[02].STATUS=0xb000000000000137",
    "GPU reset(3) failed with error -110",
    "GPU reset end with ret = -22",
    "[drm] device wedged, needs recovery",
    "Fatal error during GPU init",
    "RAS records:2970 exceed threshold:2948",
    "GPU reset begin!. Source:  3",
]
RECOVERED = [
    "ring gfx_0.0.0 timeout, signaled seq=10045651, emitted seq=10045655",
    "{4} socket: 0, die: 1, 1 new deferred hardware errors detected in umc block",
    "[drm] device wedged, but recovered through reset",
    "qcm fence wait loop timeout expired",
]


@pytest.mark.parametrize("line", ALL_CLEAR)
def test_the_all_clear_is_no_fault(line: str) -> None:
    """It uses the very words of the fault."""
    found = log(AMD + line).amdgpu_log
    assert (value(found.serious), value(found.recovered)) == (0, 0)


@pytest.mark.parametrize("line", SERIOUS)
def test_serious_lines(line: str) -> None:
    """Each of them is found, named with its GPU, and says what to do."""
    found = log(AMD + line).amdgpu_log.serious
    assert value(found) == 1
    assert f"gpu3 ({ADDRESS})" in found.note  # type: ignore[union-attr]


@pytest.mark.parametrize("line", RECOVERED)
def test_what_the_driver_set_right(line: str) -> None:
    """It is told, and is no reason to return a GPU."""
    found = log(AMD + line).amdgpu_log
    assert (value(found.serious), value(found.recovered)) == (0, 1)


def test_a_reset_is_what_it_came_to() -> None:
    """With a good end it has recovered; with a bad one it counts once."""
    good = log(AMD + "GPU reset begin!", AMD + "GPU reset succeeded, trying to resume").amdgpu_log
    bad = log(AMD + "GPU reset begin!", AMD + "GPU reset(2) failed with error -110").amdgpu_log
    assert (value(good.serious), value(good.recovered)) == (0, 1)
    assert (value(bad.serious), value(bad.recovered)) == (1, 0)


def test_totals_repeat_and_are_counted_once() -> None:
    """The driver tells its total with every new error and on every question."""
    new = AMD + "{1} socket: 0, die: 0, 1 new uncorrectable hardware errors detected in umc block"
    total = AMD + "{1} socket: 0, die: 0, 1 uncorrectable hardware errors detected in total in umc block"
    assert value(log(new, total, total).amdgpu_log.serious) == 1
    assert value(log(total, total).amdgpu_log.serious) == 1


def test_a_line_that_a_user_wrote_is_told_apart() -> None:
    """The kernel writes with facility 0, and user space cannot."""
    found = log(AMD + SERIOUS[0], priority=14).amdgpu_log
    assert (value(found.serious), value(found.written_by_user)) == (0, 1)


@given(st.lists(st.text(max_size=60)), st.binary(max_size=200))
def test_any_log_is_read(lines: list[str], noise: bytes) -> None:
    """No bytes make the reader raise."""
    kmsg = "\n".join(f"6,{seq},{seq},-;amdgpu {line}" for seq, line in enumerate(lines)).encode() + noise
    found = node(contents(kmsg=kmsg)).amdgpu_log
    assert found.serious
    assert found.window_hours


# --- amd-smi ---------------------------------------------------------------------------------------------


def smi(gpus: Any) -> Node:
    """Make a node whose /sys is masked, and which has amd-smi."""
    said = json.dumps(gpus)
    return node(contents(**{"amdgpu": absent("not_found", "/sys: masked"), "amd-smi": said}))


@pytest.mark.parametrize("wrap", [lambda gpus: gpus, lambda gpus: {"gpu_data": gpus}])
def test_amd_smi_of_rocm_6_and_7(wrap: Any) -> None:
    """A list, or the same in an envelope."""
    gpu = {
        "gpu": 0,
        "asic": {"market_name": "AMD Instinct MI355X", "asic_serial": "0xA1B2"},
        "bus": {"bdf": mi355x.gpu(0)},
        "board": {"product_serial": "690000000001"},
        "ras": {"ecc_block_state": {"UMC": "ENABLED"}},
        "partition": {"accelerator_partition": "SPX", "memory_partition": "NPS1"},
        "vram": {"size": {"value": 294_896, "unit": "MB"}},
    }
    sample = smi(wrap([gpu]))
    assert value(sample.gpus_in_driver) == 1
    first = sample.gpus[0]
    assert value(first.name) == "AMD Instinct MI355X"
    assert value(first.uuid) == "GPU-000000000000a1b2"
    assert value(first.ecc_current) is True
    assert (value(first.compute_partition), value(first.memory_partition)) == ("SPX", "NPS1")


@pytest.mark.skipif(not CAPTURE.is_file(), reason=f"no samples in {SAMPLES}: set GPUASSAY_SAMPLES")
def test_a_capture_of_amd_smi() -> None:
    """One MI210: what it prints is read, and what it says N/A to is unsupported."""
    sample = node({"amdgpu": absent("denied"), "amd-smi": CAPTURE.read_text()})
    assert value(sample.gpus_in_driver) == len(sample.gpus) == 1
    gpu = sample.gpus[0]
    assert value(gpu.name) == "AMD Instinct MI210"
    assert value(gpu.ecc_current) is True
    assert unread(gpu.serial).kind == "not_found"
    assert unread(gpu.bdf).kind == "not_found"


KEYS = st.sampled_from(["gpu_data", "asic", "bus", "bdf", "ras", "vram", "size"])
ANSWERS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
)


@given(ANSWERS)
def test_any_answer_of_amd_smi_is_read(said: Any) -> None:
    """No document makes the reader raise, and none that is odd becomes a GPU."""
    sample = smi(said)
    for gpu in sample.gpus:
        assert gpu.where
    assert sample.gpus_in_driver


@pytest.mark.parametrize(
    ("users", "says"),
    [
        ({"kfd-users": tree("kfd-users", "", {"processes": 0})}, ""),
        ({"kfd-users": tree("kfd-users", "", {"processes": 2})}, "in use by 2 processes"),
        ({}, "whether its GPUs are idle is not known"),
    ],
)
def test_no_load_is_put_on_a_node_whose_gpus_may_be_in_use(users: dict[str, Any], says: str) -> None:
    """AMD's driver lists who computes; where it was not asked, an idle node is not assumed."""
    others = {key: item for key, item in contents().items() if key != "kfd-users"}
    busy = node(others | users).busy
    assert (says in busy) if says else busy == ""
