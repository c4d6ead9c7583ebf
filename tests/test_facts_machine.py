"""Processors, memory, drives and places of a node, and how its GPUs are set."""

from __future__ import annotations

from typing import Any

import pytest

from facts_evidence import BUSES, absent, device, function, node, small, unread, value
from gpuassay.judge.fact import Unread

KIB = 1 << 20  # of a GiB
GRACE = {
    "node0": {"cpulist": "0-71", "memory": f"{480 * KIB} kB"},
    "node1": {"cpulist": "72-143", "memory": f"{480 * KIB} kB"},
    **{f"node{number}": {"cpulist": "", "memory": "0 kB"} for number in range(2, 34)},
}
CPUS = {
    "online": "0-143",
    "packages": ["0-71", "72-143"],
    "cores": [str(number) for number in range(144)],
}


def test_nodes_without_processors_are_no_fault() -> None:
    """A GB200 has 34 NUMA nodes, of which 32 hold nothing (NVIDIA/ai-cloud-validation#445)."""
    machine = node(small(numa=GRACE, processors=CPUS)).machine

    assert value(machine.processors) == "2 sockets, 144 cores, 144 threads, 2 NUMA nodes"
    assert value(machine.memory_gib) == 960
    assert value(machine.memory_only_gib) == 0


def test_memory_that_the_system_took_from_gpus_is_told_apart() -> None:
    """It is named, and is no memory of the machine."""
    taken = GRACE | {"node2": {"cpulist": "", "memory": f"{185 * KIB} kB"}}
    machine = node(small(numa=taken)).machine

    assert value(machine.memory_gib) == 960
    assert (value(machine.memory_only_gib), machine.memory_only_gib) == (185, machine.memory_only_gib)
    assert "node2 185.0 GiB" in str(machine.memory_only_gib)


def test_a_kernel_without_numa_is_one_node_with_all_memory() -> None:
    """Then the memory that the kernel counts is that of the machine."""
    machine = node(small(numa={}, host={"memory_bytes": 64 << 30})).machine

    assert (value(machine.numa_nodes), value(machine.memory_gib)) == (1, 64)


@pytest.mark.parametrize("online", ["", "0-", "a", "0,,1", "-1", 4, None])
def test_an_odd_list_of_processors_is_no_count(online: Any) -> None:
    """Nothing odd counts as so many processors."""
    assert unread(node(small(processors=CPUS | {"online": online})).machine.threads).kind == "garbled"


def test_an_older_probe_asked_for_none_of_it() -> None:
    """What was not asked for is no error: not run."""
    sample = node(small())
    facts = (sample.machine.threads, sample.machine.memory_gib, sample.drives.count, sample.gpu_memory_mode)

    assert {unread(fact).kind for fact in facts} == {"not_asked"}
    old = {
        key: item
        for key, item in device(0, BUSES[0]).items()
        if key not in ("power", "clocks", "mig_pending")
    }
    gpu = node(small(nvml={"count": 1, "devices": [old]})).gpus[0]
    asked = (gpu.power_limit_w, gpu.clock_limit_mhz, gpu.clock_max_mhz, gpu.partition_mode_after_reset)
    assert {unread(fact).kind for fact in asked} == {"not_asked"}
    assert (value(gpu.memory_mib), value(gpu.partition_mode), value(gpu.persistence)) == (
        183359,
        "whole",
        True,
    )


def drives(health: Any, **more: dict[str, str]) -> Any:
    """Make a node of two local drives and one that is reached through a network."""
    local = {"model": "EXAMPLE SSD", "transport": "pcie", "sectors": {"n1": "1875385008"}}
    listed = {"nvme0": local, "nvme1": local, "nvme2": local | {"transport": "tcp"}, **more}
    return node(small(**{"nvme": listed, "nvme-health": health})).drives


GOOD = {"critical_warning": 0, "used_percent": 4, "spare_percent": 100}


def test_drives_of_somebody_else_do_not_count() -> None:
    """What is reached through a network is neither counted nor asked for its wear."""
    found = drives({"nvme0": GOOD, "nvme1": GOOD | {"used_percent": 81, "critical_warning": 1}})

    assert (value(found.count), value(found.models)) == (2, "2 x EXAMPLE SSD 0.96 TB")
    assert (value(found.worst_used_percent), value(found.warning)) == (81, 1)


def test_a_drive_without_a_log_is_no_healthy_one() -> None:
    """One that refuses is left out and told of; where all refuse it is not seen; an error stays one."""
    refuses = {"unread": "unsupported", "why": "NVMe status 0x2109"}
    some = drives({"nvme0": GOOD, "nvme1": refuses})
    assert "no log of nvme1" in str(some.worst_used_percent)
    assert unread(drives({"nvme0": refuses, "nvme1": refuses}).warning).kind == "denied"
    assert unread(drives({"nvme0": GOOD}).warning).kind == "not_found"
    for kind in ("denied", "failed", "timed_out"):
        assert unread(drives({"nvme0": GOOD, "nvme1": {"unread": kind, "why": "so"}}).warning).kind == kind


def placed(gpus: tuple[str, str], nic: str, numa: Any) -> Any:
    """Make a node whose two GPUs and one NIC are at these NUMA nodes."""
    pci = {f"0000:{bus:02x}:00.0": function(numa_node=at) for bus, at in zip(BUSES, gpus, strict=True)}
    pci["0000:3a:00.0"] = {"vendor": "0x15b3", "class": "0x020700", "numa_node": nic}
    port = {"state": "4: ACTIVE", "link_layer": "InfiniBand"}
    infiniband = {"mlx5_0": {"pci": "0000:3a:00.0", "ports": {"1": port}}}
    return node(small(pci=pci, infiniband=infiniband, numa=numa)).affinity


TWO = {key: GRACE[key] for key in ("node0", "node1")}


@pytest.mark.parametrize(
    ("gpus", "nic", "numa", "unplaced", "far"),
    [
        (("0", "1"), "0", TWO, 0, 1),
        (("0", "0"), "0", TWO, 0, 0),
        (("-1", "-1"), "-1", TWO, 2, 0),
        (("-1", "-1"), "-1", {"node0": GRACE["node0"]}, 0, 0),
        (("0", "-1"), "1", TWO, 1, 1),
    ],
)
def test_places_of_gpus_and_nics(gpus: tuple[str, str], nic: str, numa: Any, unplaced: int, far: int) -> None:
    """A machine with one NUMA node has nothing to tell; on one with several, silence is told of."""
    found = placed(gpus, nic, numa)

    assert (value(found.gpus_unplaced), value(found.gpus_far)) == (unplaced, far)


def test_a_place_that_was_not_read_is_none() -> None:
    """Without the GPUs' places, or their number, nothing is said of them."""
    assert unread(placed(("x", "0"), "0", TWO).layout).kind == "garbled"
    nothing = node(small(pci=absent("denied"), nvml=absent("not_found"))).affinity
    assert unread(nothing.layout).kind == "denied"


@pytest.mark.parametrize(
    ("params", "mode"),
    [
        ('ModifyDeviceFiles: 1\nCoherentGPUMemoryMode: "driver"\n', "driver"),
        ('ModifyDeviceFiles: 1\nCoherentGPUMemoryMode: ""\n', "numa"),
        ("ModifyDeviceFiles: 1\n", "numa"),
        ("", None),
        ("\x00\x01", None),
    ],
)
def test_who_manages_the_memory_of_coherent_gpus(params: str, mode: str | None) -> None:
    """The system does by default, and with a driver that is too old for anything else."""
    fact = node(small(**{"nvidia-params": params})).gpu_memory_mode

    assert (None if isinstance(fact, Unread) else fact.value) == mode


def test_clocks_that_no_driver_sets_any_more() -> None:
    """A function that newer libraries lack means what a newer driver's refusal means."""
    gone = {"unread": "not_found", "why": "NVML: Function Not Found (13)"}
    entry = device(0, BUSES[0])
    entry["clocks"] |= {"applications": gone, "applications_default": gone}
    gpu = node(small(nvml={"count": 1, "devices": [entry]})).gpus[0]

    assert unread(gpu.clock_limit_mhz).kind == unread(gpu.clock_default_mhz).kind == "unsupported"
    assert value(gpu.clock_max_mhz) == 1965
