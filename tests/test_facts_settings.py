"""How a host is set up: what each reader makes of real words, of odd ones, and of any bytes at all."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import settings as settings_of_runs
from hypothesis import strategies as st

from facts_evidence import absent, evidence, node, unread, value
from gpuassay.evidence.item import Item
from gpuassay.facts.node import Node
from gpuassay.judge.fact import Read, Unread
from recorded import hgx_b200
from recorded.settings import SHM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuassay.evidence.item import Status
    from gpuassay.facts.settings import Settings

HEALTHY = {item.id: item for item in hgx_b200.node("n1", 1)}
ITEMS = sorted(
    {*HEALTHY} & {"settings", "cmdline", "mounts", "own-name", "cpu", "edac", "iommu", "acs", "failed-units"}
    | {"kmsg", "limits", "nvidia-params", "pci", "infiniband", "host", "dmi"}
)
STATUSES = ["ok", "not_found", "denied", "timed_out", "failed", "unsupported"]


def settings(**changes: Any) -> Settings:
    """Read the settings of a healthy node of eight B200 of which some items are others."""
    changed = {key.replace("_", "-"): content for key, content in changes.items()}
    return node(dict(HEALTHY) | changed).settings


def content(item: str) -> Any:
    """Give the document of a healthy item, to change it."""
    return json.loads(HEALTHY[item].out)


def files(**changes: str) -> Settings:
    """Read settings of which some files, named by their last part, hold something else."""
    document = content("settings")
    for key, text in changes.items():
        (path,) = [path for path in document if path.endswith(f"/{key}")]
        document[path] = text
    return settings(settings=document)


def facts(found: Settings) -> Iterator[tuple[str, Any]]:
    """Ask for everything that settings know."""
    for part in (found, found.space, found.processors, found.own_name, found.dma):
        for name in dir(type(part)):
            fact = getattr(part, name) if not name.startswith("_") else None
            if isinstance(fact, (Read, Unread)):
                yield name, fact


def test_a_healthy_node_has_every_fact() -> None:
    """All of them are read, and are what the recording says."""
    found = dict(facts(settings()))
    assert {name for name, fact in found.items() if isinstance(fact, Unread)} == set()
    assert found["iommu"].value == "passthrough"
    assert found["acs_redirecting"].note == "of 24 switch ports above GPUs and adapters"
    assert found["governor"].value == "performance"
    assert found["wake_up_us"].value == 2  # C6 is switched off


@settings_of_runs(deadline=None, max_examples=50)  # a node of eight GPUs is read each time
@given(st.sampled_from(ITEMS), st.binary(max_size=200), st.sampled_from(STATUSES), st.booleans())
def test_any_bytes_give_facts(item: str, out: bytes, status: str, truncated: bool) -> None:  # noqa: FBT001
    """No byte sequence in any item, with any status, makes a reader raise or give None."""
    odd = Item(item, 1, status=cast("Status", status), out=out, truncated=truncated)
    for _, fact in facts(Node("n1", evidence(dict(HEALTHY) | {item: odd})).settings):
        assert fact.why if isinstance(fact, Unread) else fact.value is not None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)


@settings_of_runs(deadline=None, max_examples=50)
@given(st.data())
def test_any_change_in_a_healthy_document_gives_facts(data: st.DataObject) -> None:
    """A single odd value, anywhere, is found out by its reader."""
    item = data.draw(
        st.sampled_from(["settings", "cmdline", "mounts", "own-name", "cpu", "edac", "iommu", "acs"])
    )
    document = place = content(item)
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], (dict, list)) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(VALUES)
    for _, fact in facts(settings(**{item: document})):
        assert fact.why if isinstance(fact, Unread) else fact.value is not None


def test_an_older_probe_is_not_run() -> None:
    """What was never asked for says so, and nothing of it passes."""
    kept = {key: HEALTHY[key] for key in ("host", "pci", "infiniband", "virt")}
    for name, fact in facts(node(kept).settings):
        assert unread(fact).kind == "not_asked", name


# --- memory ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "nodes", "read"),
    [("0", "0-1", 0), ("1", "0-1", 1), ("2", "0-1", 2), ("3", "0,2", 3), ("1", "0", 0)],
)
def test_numa_balancing_needs_two_nodes_to_matter(mode: str, nodes: str, read: int) -> None:
    """It is a bit mask; on one NUMA node it does nothing, whatever it says."""
    assert value(files(numa_balancing=mode, online=nodes).numa_balancing) == read


@pytest.mark.parametrize("mode", ["", "on", "-1", "12", "0x2"])
def test_an_odd_mode_is_garbled(mode: str) -> None:
    """Anything but a digit is no mode."""
    assert unread(files(numa_balancing=mode).numa_balancing).kind == "garbled"


def test_large_pages_need_no_huge_ones() -> None:
    """With pages of 64 KiB, as on Grace, the transparent ones may be off."""
    host = content("host") | {"page_size": 65536}
    document = content("settings") | {"/sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]"}
    assert value(settings(host=host, settings=document).transparent_huge_pages) == "never, with 64 KiB pages"
    assert value(settings(settings=document).transparent_huge_pages) == "never"


@pytest.mark.parametrize(
    ("lines", "gib"),
    [
        ("", 0),
        ("/dev/zram0 partition 8388604 6291456 100", 0),
        ("/swap.img file 8388604 6291456 -2\n/dev/dm-1\tpartition\t100\t1048576\t-3", 7),
    ],
)
def test_swap_on_disks_counts(lines: str, gib: float) -> None:
    """Memory that is compressed in place was not given to a disk."""
    assert value(files(swaps=f"Filename Type Size Used Priority\n{lines}").swap_used_gib) == gib


@pytest.mark.parametrize("table", ["", "what is this", "Filename Type\n/dev/sda2 lots"])
def test_an_odd_table_of_swaps_is_garbled(table: str) -> None:
    """It must not read as no swap."""
    assert unread(files(swaps=table).swap_used_gib).kind == "garbled"


# --- IOMMU and ACS -----------------------------------------------------------------------------------------


def translated(kind: str) -> dict[str, Any]:
    """Give all devices to groups of one type."""
    return {key: group | {"type": kind} for key, group in content("iommu").items()}


@pytest.mark.parametrize(
    ("kind", "mode"),
    [("identity", "passthrough"), ("DMA", "translated"), ("DMA-FQ", "translated"), ("unmanaged", "off")],
)
def test_the_groups_tell_how_the_iommu_is_set(kind: str, mode: str) -> None:
    """Of groups that hold GPUs and adapters; those that are given to virtual machines are not this host's."""
    assert value(settings(iommu=translated(kind)).dma.iommu) == mode


def test_a_disk_that_is_translated_harms_no_gpu() -> None:
    """Only groups with a GPU or an adapter in them count."""
    groups = content("iommu") | {"900": {"type": "DMA-FQ", "devices": ["0000:f0:00.0"]}}
    assert value(settings(iommu=groups).dma.iommu) == "passthrough"


def test_an_arm_smmu_is_said_apart() -> None:
    """What its translation costs is not published: the limit decides, not the reader."""
    host = content("host") | {"machine": "aarch64"}
    dma = settings(host=host, iommu=translated("DMA")).dma
    assert value(dma.iommu) == "translated by an Arm SMMU"
    assert value(dma.iommu_bypassed) is False


@pytest.mark.parametrize(("said", "mode"), [("Translated", "translated"), ("Passthrough", "passthrough")])
def test_the_boot_log_tells_where_the_groups_do_not(said: str, mode: str) -> None:
    """A recording made from a customer's files may have a log and nothing else."""
    log = f"6,1,913542,-;iommu: Default domain type: {said}\n6,2,1204411,-;AMD-Vi: Virtual APIC enabled\n"
    assert value(settings(iommu=absent("not_found"), kmsg=log).dma.iommu) == mode
    assert unread(settings(iommu=absent("denied", "no"), kmsg="6,1,1,-;boot\n").dma.iommu).kind == "denied"


def test_a_default_without_an_iommu_translates_nothing() -> None:
    """The kernel prints its default whether or not one is there; nor does it matter where no GPU is."""
    log = "6,1,913542,-;iommu: Default domain type: Translated\n"
    assert unread(settings(iommu=absent("not_found"), kmsg=log).dma.iommu).kind == "not_found"
    active = f"{log}6,2,1204411,-;DMAR: IOMMU enabled\n"
    assert unread(settings(iommu={}, kmsg=active, pci={}).dma.iommu).kind == "not_found"
    assert value(settings(iommu={}, kmsg=active).dma.iommu) == "off"


def test_an_unknown_type_of_group_is_garbled() -> None:
    """A word that no kernel of ours has is not taken for harmless."""
    assert unread(settings(iommu=translated("DMA-NEW")).dma.iommu).kind == "garbled"


@pytest.mark.parametrize(("control", "bad"), [("0x0001", 0), ("0x001d", 24), ("0x0004", 24), ("0x0041", 0)])
def test_only_redirecting_bits_of_switch_ports_count(control: str, bad: int) -> None:
    """Source validation (bit 0) and direct translated P2P (bit 6) redirect nothing."""
    everywhere = {place: {"control": control} for place in content("acs")}
    assert value(settings(acs=everywhere).dma.acs_redirecting) == bad


def test_the_switch_of_an_adapter_is_left_out() -> None:
    """The switch in a ConnectX-8 redirects on purpose."""
    pci = {
        place: entry | ({"vendor": "0x15b3"} if entry["vendor"] == "0x1000" else {})
        for place, entry in content("pci").items()
    }
    everywhere = {place: {"control": "0x001d"} for place in content("acs")}
    assert value(settings(acs=everywhere, pci=pci).dma.acs_redirecting) == 0


# --- processors, names, disks, services --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("driver", "governor", "preference", "told", "down"),
    [
        ("intel_pstate", "performance", "performance", "performance", False),
        ("intel_pstate", "powersave", "performance", "powersave, performance", False),
        ("amd-pstate-epp", "powersave", "balance_power", "powersave, balance_power", False),
        ("cppc_cpufreq", "schedutil", None, "schedutil", False),
        ("cppc_cpufreq", "powersave", None, "powersave, the lowest frequency", True),
    ],
)
def test_powersave_means_what_the_driver_makes_of_it(
    driver: str, governor: str, preference: str | None, told: str, *, down: bool
) -> None:
    """Hardware that scales by itself is told a preference; with other drivers it is the lowest frequency."""
    cpu = content("cpu")
    (group,) = cpu["frequency"]
    group |= {"scaling_driver": driver, "scaling_governor": governor}
    group.pop("energy_performance_preference")
    group |= {"energy_performance_preference": preference} if preference else {}
    processors = settings(cpu=cpu).processors
    assert value(processors.governor) == told
    assert value(processors.held_down) is down


@pytest.mark.parametrize(
    ("addresses", "leads_to", "usable"),
    [
        ([("other", True)], "itself", True),
        ([("loopback", True), ("other", True)], "itself", False),
        ([("other", True), ("other", False)], "another machine", True),
        ([], "nothing", False),
    ],
)
def test_what_the_own_name_leads_to(
    addresses: list[tuple[str, bool]], leads_to: str, *, usable: bool
) -> None:
    """The first address is what programs take; one that is nobody's spoils the name."""
    listed = [{"family": "ipv4", "kind": kind, "own": own} for kind, own in addresses]
    name = settings(own_name={"addresses": listed}).own_name
    assert value(name.leads_to) == leads_to
    assert value(name.others_can_use_it) is usable


@pytest.mark.parametrize(
    ("type_", "options", "above", "count"),
    [
        ("ext4", "rw,relatime", "rw", 0),
        ("ext4", "rw,relatime", "ro,errors=remount-ro", 1),
        ("ext4", "rw,relatime", "rw,emergency_ro", 1),
        ("ext4", "ro,relatime", "ro", 0),
        ("squashfs", "rw,relatime", "ro", 0),
    ],
)
def test_a_file_system_that_turned_read_only(type_: str, options: str, above: str, count: int) -> None:
    """Mounted for writing and yet read-only; those that are so on purpose or by nature are not meant."""
    mounts = content("mounts")
    mounts["places"]["/"] |= {"type": type_, "options": options, "super": above}
    mounts["places"] = {place: mounts["places"][place] for place in ("/", SHM)}
    assert value(settings(mounts=mounts).space.turned_read_only) == count


def test_a_file_system_without_a_count_of_inodes_has_enough() -> None:
    """Btrfs makes them as it needs them, and says 0 of 0."""
    mounts = content("mounts")
    for place in mounts["places"].values():
        place |= {"inodes": 0, "inodes_free": 0}
    assert value(settings(mounts=mounts).space.free_inodes_share) == 1.0


@pytest.mark.parametrize(
    "printed", ["", "nvidia.service loaded failed failed x\n", "2 loaded units listed.\n"]
)
def test_units_have_to_be_counted(printed: str) -> None:
    """Without the tool's own total, an empty answer would be a pass on nothing."""
    assert unread(settings(failed_units=printed).failed_units).kind == "garbled"


def test_without_systemd_no_unit_can_be_seen() -> None:
    """A container has none; that is no fault of the node."""
    silent = Item(
        "", 0, status="failed", exit=1, err="System has not been booted with systemd as init system"
    )
    assert unread(settings(failed_units=silent).failed_units).kind == "denied"
    assert unread(settings(failed_units=absent("not_found")).failed_units).kind == "denied"
    assert unread(settings(failed_units=absent("timed_out")).failed_units).kind == "timed_out"


@pytest.mark.parametrize(
    ("corrected", "seconds", "per_day"),
    [("0", "100", 0), ("5", "100", 5), ("100", "864000", 10), ("9", "0", 9)],
)
def test_errors_are_counted_over_at_least_a_day(corrected: str, seconds: str, per_day: float) -> None:
    """Five in the first minutes are not thousands a day."""
    counts = {"ce_count": corrected, "ue_count": "0", "seconds_since_reset": seconds}
    assert value(settings(edac={"mc0": counts}).corrected_memory_errors_per_day) == per_day


@pytest.mark.parametrize(
    ("dmi", "virtual"),
    [
        ({"sys_vendor": "QEMU", "product_name": "KVM Virtual Machine", "chassis_type": "1"}, True),
        (
            {"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine", "chassis_type": "3"},
            True,
        ),
        ({"sys_vendor": "Supermicro", "product_name": "ARS-121GL-NB2", "chassis_type": "23"}, False),
        ({"sys_vendor": "Amazon EC2", "product_name": "p6e-gb200.36xlarge", "chassis_type": "1"}, True),
        ({"sys_vendor": "Amazon EC2", "product_name": "g5g.metal", "chassis_type": "23"}, None),
        ({"sys_vendor": "Example", "product_name": "Box", "chassis_type": "1"}, None),
        ({"sys_vendor": "Example", "chassis_type": "23"}, None),
    ],
)
def test_on_arm_the_firmware_tells_a_virtual_machine(dmi: dict[str, str], virtual: bool | None) -> None:  # noqa: FBT001
    """In a container on Arm neither the tool nor the processor does; in doubt nothing is said."""
    contents = {"virt": "docker\n", "cpuinfo": {}, "host": {"machine": "aarch64"}, "dmi": dmi}
    fact = node(contents).shows("vm")
    assert (fact.value if isinstance(fact, Read) else None) is virtual
