"""One subject for each physical GPU, joined from what the bus and what the driver shows."""

from __future__ import annotations

from typing import Any

import pytest

from facts_evidence import absent, device, function, mark, node, small, unread, value
from gpuassay.judge.fact import Read, Unread

LOST = {"index": 1, **mark("failed", "NVML: GPU is lost (15)"), "code": 15}


def nvml(*devices: Any, count: Any = None, **more: Any) -> dict[str, Any]:
    """Make an answer of NVML with these GPUs."""
    return {
        "driver": "580.95.05",
        "count": len(devices) if count is None else count,
        "devices": [*devices],
        **more,
    }


def test_bus_and_driver_join_to_one_gpu() -> None:
    """Two witnesses of one GPU are one subject, under the driver's index."""
    sample = node(small())
    assert [gpu.where for gpu in sample.gpus] == ["n1/gpu0", "n1/gpu1"]
    assert sample.gpus[0].models == ("NVIDIA B200", "10de:2901")
    assert sample.models == ("NVIDIA B200", "10de:2901")
    assert value(sample.gpus[1].bdf) == "0000:2a:00.0"
    assert value(sample.gpus[1].uuid) == "GPU-00000000-0000-4000-8000-000000000001"
    assert sample.gpus[0].remap_pending == Read(value=False, evidence="nodes/n1#2")
    assert (value(sample.gpus_on_bus), value(sample.gpus_in_driver), value(sample.gpus_seen)) == (2, 2, 2)


def test_addresses_meet_however_they_are_written() -> None:
    """NVML writes eight digits of domain in capitals, the kernel four in small letters."""
    devices = [device(0, 0x1A, pci="00000000:1A:00.0"), device(1, 0x2A, pci="00000000:2A:00.0")]
    assert value(node(small(nvml=nvml(*devices))).gpus_seen) == 2


def test_a_gpu_that_only_the_bus_shows_is_a_subject_of_its_own() -> None:
    """Its driver facts say what is wrong; what the bus tells of it stays."""
    contents = small(nvml=nvml(device(0, 0x1A)))
    contents["pci"]["0000:2a:00.0"] = function(driver="vfio-pci")
    sample = node(contents)
    assert [gpu.where for gpu in sample.gpus] == ["n1/gpu0", "n1/0000:2a:00.0"]
    lone = sample.gpus[1]
    assert unread(lone.ecc_current) == Unread(
        "failed", "on the PCI bus and not in the driver's list (bound to vfio-pci)", "nodes/n1#2"
    )
    assert value(lone.pcie_width) == 16
    assert lone.models == ("10de:2901",)
    assert value(sample.gpus_seen) == 1
    assert "0000:2a:00.0: on the PCI bus and not" in getattr(sample.gpus_seen, "note", "")


def test_a_lost_gpu_is_paired_with_the_function_that_is_left() -> None:
    """One without an address and one without an index are the same GPU."""
    sample = node(small(nvml=nvml(device(0, 0x1A), LOST)))
    lost = sample.gpus[1]
    assert (lost.where, value(lost.bdf), len(sample.gpus)) == ("n1/gpu1", "0000:2a:00.0", 2)
    assert "GPU is lost" in unread(lost.remap_pending).why
    assert (value(sample.gpus_in_driver), value(sample.gpus_seen)) == (2, 1)


def test_several_lost_gpus_are_not_counted_twice() -> None:
    """Which is which cannot be told; there are still only as many as the bus shows."""
    lost = {"index": 0, **mark("timed_out", "no answer within 10 s")}
    sample = node(small(nvml=nvml(lost, LOST)))
    assert [gpu.where for gpu in sample.gpus] == ["n1/0000:1a:00.0", "n1/0000:2a:00.0"]
    reason = unread(sample.gpus[0].ecc_current)
    assert reason.kind == "timed_out"
    assert "which of gpu0, gpu1 it is cannot be told" in reason.why
    assert value(sample.gpus_seen) == 0


def test_lost_gpus_that_outnumber_the_bus_stay_in_the_drivers_list() -> None:
    """The side that shows more of them stands for all."""
    contents = small(nvml=nvml(device(0, 0x1A), LOST, {**LOST, "index": 2}))
    sample = node(contents)
    assert [gpu.where for gpu in sample.gpus] == ["n1/gpu0", "n1/gpu1", "n1/gpu2"]
    assert "0000:2a:00.0" in unread(sample.gpus[2].bdf).why or unread(sample.gpus[2].bdf).kind == "failed"
    assert unread(sample.gpus[2].pcie_width_max).kind == "failed"


def test_a_gpu_that_only_the_driver_shows_says_so() -> None:
    """The driver's list alone does not make a GPU that is of use."""
    contents = small()
    del contents["pci"]["0000:2a:00.0"]
    sample = node(contents)
    assert (value(sample.gpus_on_bus), value(sample.gpus_in_driver), value(sample.gpus_seen)) == (1, 2, 1)
    assert sample.gpus[1].loss == "the driver lists it at 0000:2a:00.0, where the bus shows no GPU"


def test_gpus_that_are_counted_and_not_listed_are_subjects() -> None:
    """A list that is shorter than the count loses no GPU in silence."""
    contents = small(nvml=nvml(device(0, 0x1A), count=2))
    contents["pci"] = {}
    sample = node(contents)
    assert [gpu.where for gpu in sample.gpus] == ["n1/gpu0", "n1/gpu1"]
    assert unread(sample.gpus[1].ecc_current) == Unread(
        "garbled", "the driver counts 2 GPUs and lists 1", "nodes/n1#2"
    )


@pytest.mark.parametrize("count", [1, True, "2", None, -2, 10**9, {"unread": "failed"}])
def test_a_count_that_contradicts_the_list_is_no_count(count: Any) -> None:
    """Neither number is believed, and the GPUs are still there to be looked at."""
    answer = nvml(device(0, 0x1A), device(1, 0x2A)) | {"count": count}
    sample = node(small(nvml=answer))
    unread(sample.gpus_in_driver)
    unread(sample.gpus_seen)
    assert len(sample.gpus) == 2


def test_an_entry_in_the_wrong_place_is_not_believed() -> None:
    """Two entries that both say index 0 would be one subject twice."""
    sample = node(small(nvml=nvml(device(0, 0x1A), device(0, 0x2A))))
    assert [gpu.where for gpu in sample.gpus] == ["n1/gpu0", "n1/gpu1"]
    assert unread(sample.gpus[1].ecc_current).kind == "garbled"


def test_two_entries_at_one_address_are_not_both_seen() -> None:
    """A GPU counts once, whatever the driver lists."""
    sample = node(small(nvml=nvml(device(0, 0x1A), device(1, 0x1A))))
    assert value(sample.gpus_seen) == 1


@pytest.mark.parametrize(
    ("status", "why"),
    [("failed", "NVML: Driver Not Loaded (9)"), ("not_found", "no library"), ("denied", "no permission")],
)
def test_a_driver_that_does_not_answer_leaves_the_gpus_of_the_bus(status: str, why: str) -> None:
    """No GPU vanishes because nothing answers for it, and each says why nothing does."""
    sample = node(
        small(nvml=absent(status, why)) | {"nvidia-smi-xml": absent("not_found", "no such command")}
    )
    assert [gpu.where for gpu in sample.gpus] == ["n1/0000:1a:00.0", "n1/0000:2a:00.0"]
    assert unread(sample.gpus[0].remap_failed).why in (why, "no such command")
    assert unread(sample.gpus_in_driver) == unread(sample.driver_version)
    assert unread(sample.gpus_seen).kind == status


def test_a_library_that_does_not_fit_its_module_is_named_with_both_versions() -> None:
    """No program can use a GPU then: 0 is what is seen, and the note says why and what helps."""
    printed = b"Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.195\n"
    module = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.172.08  Tue Jul  8 18:22:45 UTC 2025\n"
    contents = small(nvml=absent("failed", "NVML: RM has detected an NVML/RM version mismatch. (18)"))
    sample = node(
        contents
        | {"nvidia-module": module, "nvidia-smi-xml": absent("failed", "exit status 18", out=printed)}
    )
    for fact in (sample.driver_version, sample.gpus_in_driver, sample.gpus[0].ecc_current):
        reason = unread(fact)
        assert reason.kind == "failed"
        assert "library 570.195, loaded kernel module 570.172.08; reload the module or reboot" in reason.why
    assert value(sample.module_version) == "570.172.08"
    assert value(sample.gpus_seen) == 0
    assert "mismatch" in getattr(sample.gpus_seen, "note", "")


@pytest.mark.parametrize("word", ["560.95.5\n", "580.95.05 ", "580.95.05"])
def test_the_module_tells_its_version_in_two_places(word: str) -> None:
    """Where /proc has none, the module's own file has it."""
    contents = {"nvidia-module": absent("not_found"), "nvidia-sysfs-version": word}
    assert value(node(contents).module_version) == word.strip()
    assert unread(node({"nvidia-module": "x", "nvidia-sysfs-version": "y"}).module_version).kind == "garbled"


@pytest.mark.parametrize(
    "version", ["", "580", "580.x", "[N/A]", 580.95, None, "580.95.05; rm", "5" * 9 + ".1"]
)
def test_only_a_version_is_a_driver_version(version: Any) -> None:
    """Anything else cannot be ordered, and so must not be compared."""
    unread(node(small(nvml=nvml() | {"driver": version})).driver_version)


def test_na_stays_apart_from_failure() -> None:
    """Only what the tool itself calls unsupported may become a skip."""
    changes = {"remapped_rows": mark("unsupported", "NVML: Not Supported (3)")}
    gpu = node(small(nvml=nvml(device(0, 0x1A, **changes), device(1, 0x2A)))).gpus[0]
    assert unread(gpu.remap_pending).kind == "unsupported"
    assert unread(gpu.remap_banks_exhausted).kind == "unsupported"
    assert value(gpu.ecc_current) is True


# --- which functions are GPUs --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vendor", "kind", "gpu"),
    [
        ("0x10de", "0x030200", True),  # 3D controller
        ("0x10de", "0x030000", True),  # VGA controller
        ("0x10de", "0x068000", False),  # NVSwitch
        ("0x10de", "0x040300", False),  # audio of a GPU
        ("0x10de", "0x0c0330", False),  # USB of a GPU
        ("0x10de", "0x060400", False),  # Grace's PCI bridge
        ("0x1002", "0x120000", True),  # MI300X
        ("0x1002", "0x038000", True),  # MI210
        ("0x1002", "0x030000", False),  # a graphics card
        ("0x1a03", "0x030000", False),  # the ASPEED of a server board
        ("0x15b3", "0x020000", False),
    ],
)
def test_gpus_are_told_by_vendor_and_class(vendor: str, kind: str, *, gpu: bool) -> None:
    """Switches, bridges, sound and server graphics are no accelerators."""
    sample = node({"pci": {"0000:01:00.0": {"vendor": vendor, "class": kind}}})
    assert value(sample.gpus_on_bus) == int(gpu)
    assert value(sample.shows("gpu")) is gpu


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"vendor": "0x10de"},
        {"vendor": "10de", "class": "0x030200"},
        {"vendor": mark("denied", "no")},
        3,
        None,
    ],
)
def test_a_function_that_cannot_be_told_from_a_gpu_leaves_the_count_open(entry: Any) -> None:
    """To say that there is no GPU, every function must have been read."""
    contents = small()
    contents["pci"]["0000:3a:00.0"] = entry
    sample = node(contents)
    assert "0000:3a:00.0" in unread(sample.gpus_on_bus).why
    assert len(sample.gpus) == 2
    assert unread(node({"pci": {"0000:3a:00.0": entry}}).shows("gpu"))


def test_a_machine_without_a_pci_bus_has_no_gpu() -> None:
    """An empty tree is a reading; a tree that was denied is none."""
    assert value(node({"pci": {}}).shows("gpu")) is False
    assert unread(node({"pci": absent("denied", "Permission denied")}).shows("gpu")).kind == "denied"


def test_a_gpu_of_amd_is_seen_and_its_driver_not_asked() -> None:
    """What this version does not ask is not run; it is no error and no pass."""
    sample = node({"pci": {"0000:05:00.0": {"vendor": "0x1002", "device": "0x75a3", "class": "0x120000"}}})
    assert [gpu.where for gpu in sample.gpus] == ["n1/0000:05:00.0"]
    assert sample.gpus[0].models == ("1002:75a3",)
    assert unread(sample.gpus_in_driver).kind == unread(sample.gpus[0].ecc_current).kind == "not_asked"
    assert value(sample.shows("amd")) is True
    assert value(sample.shows("nvidia")) is False


def test_what_one_side_shows_none_of_both_show_none_of() -> None:
    """A node that has lost all its GPUs from the bus has none, though its driver does not answer."""
    bare = node(small(pci={}, nvml=absent("failed", "NVML: Driver Not Loaded (9)")))
    assert value(bare.gpus_seen) == 0
    blind = node(small(pci=absent("denied", "Permission denied"), nvml=nvml()))
    assert value(blind.gpus_seen) == 0


def test_sightings_count_by_witness() -> None:
    """The engine takes the larger count, so each witness is told apart."""
    contents = small(nvml=nvml(device(0, 0x1A)))
    counts = {witness: value(fact) for witness, fact in node(contents).sightings("gpu", ("gpu",)).items()}
    assert counts == {"bus": 2, "driver": 1}


# --- the PCIe link -------------------------------------------------------------------------------


def link(bus: dict[str, str], **pcie: Any) -> Any:
    """Make a GPU of which bus and driver show these links."""
    driver = {"gen": 5, "width": 16, "width_max": 16} | pcie
    entry = function(**bus)
    return node({"pci": {"0000:1a:00.0": entry}, "nvml": nvml(device(0, 0x1A, pcie=driver))}).gpus[0]


def test_a_narrow_link_is_read_from_the_bus() -> None:
    """Width 8 of 16 is what both say."""
    gpu = link({"current_link_width": "8"}, width=8)
    assert (value(gpu.pcie_width), value(gpu.pcie_width_max)) == (8, 16)


@pytest.mark.parametrize(("bus", "driver"), [("16", 8), ("8", 16)])
def test_where_two_witnesses_differ_the_worse_counts(bus: str, driver: int) -> None:
    """Neither may hide what the other saw; the note names both."""
    fact = link({"current_link_width": bus}, width=driver).pcie_width
    assert value(fact) == 8
    assert fact.note == f"the bus says {bus}, the driver {driver}"


@pytest.mark.parametrize("state", ["D3hot", "D3cold", "D1", "error"])
def test_a_sleeping_gpu_has_no_width_on_the_bus(state: str) -> None:
    """The link of a GPU that sleeps may be down; the driver wakes it to look."""
    gpu = link({"power_state": state, "current_link_width": "1"})
    assert value(gpu.pcie_width) == 16
    assert state in gpu.pcie_width.note
    unasked = link({"power_state": state}, width=mark("failed", "NVML: Unknown Error (999)"))
    assert unread(unasked.pcie_width).kind == "failed"


@pytest.mark.parametrize("state", ["D0", "unknown", ""])
def test_a_gpu_that_is_awake_is_read(state: str) -> None:
    """Older kernels do not tell the power state."""
    assert value(link({"power_state": state}, width=mark("failed", "x")).pcie_width) == 16


@pytest.mark.parametrize(
    ("width", "kind"), [("0", "failed"), ("255", "failed"), ("7", "garbled"), ("x", "garbled")]
)
def test_widths_that_no_link_has_are_no_reading(width: str, kind: str) -> None:
    """A link that is down shows a number, too."""
    gpu = link(
        {"current_link_width": width, "max_link_width": width}, width=mark("not_found", ""), width_max=0
    )
    assert unread(gpu.pcie_width).kind == kind
    assert unread(gpu.pcie_width_max).kind in ("failed", kind)


@pytest.mark.parametrize("change", [{"revision": "0xff"}, {"vendor": "0xffff"}, {"current_link_width": "63"}])
def test_a_gpu_whose_registers_are_all_ones_has_fallen(change: dict[str, str]) -> None:
    """It still counts on the bus, it is not seen, and what the driver remembers of its link is no reading."""
    contents = small()
    contents["pci"]["0000:2a:00.0"] = function(**change)
    sample = node(contents)
    assert (value(sample.gpus_on_bus), value(sample.gpus_seen)) == (2, 1)
    assert "all ones" in unread(sample.gpus[1].pcie_width).why
    assert "all ones" in unread(sample.gpus[1].pcie_width_max).why


def test_the_maximum_is_the_gpus_own() -> None:
    """A port above that has fewer lanes is told of in the note, and does not make the narrow link right."""
    contents = small()
    contents["pci"]["0000:19:00.0"] = {"vendor": "0x1000", "class": "0x060400", "max_link_width": "8"}
    contents["pci"]["0000:1a:00.0"] = function(parent="0000:19:00.0", current_link_width="8")
    contents["nvml"]["devices"][0]["pcie"]["width"] = 8
    fact = node(contents).gpus[0].pcie_width_max
    assert value(fact) == 16
    assert getattr(fact, "note", "") == "the port above it, 0000:19:00.0, says it has 8 lanes"


@pytest.mark.parametrize(
    ("speed", "generation"),
    [("2.5 GT/s PCIe", 1), ("16.0 GT/s PCIe", 4), ("32.0 GT/s PCIe", 5), ("64.0 GT/s PCIe", 6)],
)
def test_the_speed_tells_the_generation(speed: str, generation: int) -> None:
    """The kernel writes GT/s; people say generations."""
    assert value(link({"current_link_speed": speed}).pcie_gen) == generation


def test_the_driver_tells_the_generation_that_the_bus_does_not() -> None:
    """In some virtual machines the bus knows no speed."""
    assert value(link({"current_link_speed": "Unknown"}).pcie_gen) == 5
    assert unread(link({"current_link_speed": "9.9 GT/s"}, gen="5").pcie_gen).kind == "garbled"


def test_a_lost_gpu_keeps_no_remembered_width() -> None:
    """What the driver still says of a GPU that it has lost is what it remembers."""
    gone = mark("failed", "NVML: GPU is lost (15)")
    entry = device(0, 0x1A, remapped_rows=gone)
    gpu = node({"pci": {"0000:1a:00.0": function(current_link_width="0")}, "nvml": nvml(entry)}).gpus[0]
    assert "GPU is lost" in gpu.loss
    assert unread(gpu.pcie_width).kind == "failed"
