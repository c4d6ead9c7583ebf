"""Whatever comes back from a node: no reader raises, and nothing odd becomes a value."""

from __future__ import annotations

import copy
import json
import string
from typing import TYPE_CHECKING, Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from facts_evidence import absent, device, evidence, small, unread
from gpuassay.evidence.item import Item
from gpuassay.facts.node import Node
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpuassay.evidence.item import Status

PORT = {
    "state": "4: ACTIVE",
    "phys_state": "5: LinkUp",
    "lid": "0x0",
    "counters": {"symbol_error": "0", "link_downed": "1"},
    "pkeys": {"0": "0xffff"},
    "rate": "400 Gb/sec (4X NDR)",
    "link_layer": "Ethernet",
    "gids": {"0": "fe80:0000:0000:0000:0000:5eff:fe35:f32d", "3": "::ffff:10.0.0.1"},
    "types": {"0": "IB/RoCE v1", "3": "RoCE v2"},
    "ndevs": {"0": "eth0", "3": "eth0"},
}
HEALTHY = small(
    host={"machine": "x86_64"},
    cpuinfo={"hypervisor": False},
    clock={"state": 0, "status": 0x2001, "maxerror_us": 8500},
    infiniband={"mlx5_0": {"ports": {"1": PORT}}},
    net={"eth0": {"mtu": "9000", "carrier_down_count": "1"}},
    dcb={"eth0": {"pfc": [3]}},
    gpudirect={"gdrdrv": {"version": "2.5"}},
    nccl={
        "environment": {"NCCL_IB_HCA": "mlx5_0"},
        "files": [{"path": "/etc/nccl.conf", "settings": [["NCCL_IB_GID_INDEX", "3"]]}],
        "topology_file": {"path": "/etc/topo.xml", "there": True},
        "plugins": ["/usr/lib/libnccl-net.so"],
    },
    shm={"size_bytes": 100, "free_bytes": 40, "owners": {"0": {"files": 1, "bytes": 60}}, "newest_age_s": 5},
    limits="Max locked memory         unlimited            unlimited            bytes     \n",
    uptime="7200.00 1.00\n",
    processors={"online": "0-3", "present": "0-3", "packages": ["0-3"], "cores": ["0,2", "1,3"]},
    numa={"node0": {"cpulist": "0-3", "memory": "33554432 kB"}, "node1": {"cpulist": "", "memory": "0 kB"}},
    nvme={"nvme0": {"model": "EXAMPLE", "transport": "pcie", "sectors": {"nvme0n1": "1875385008"}}},
    **{"nvme-health": {"nvme0": {"critical_warning": 0, "used_percent": 4, "spare_percent": 100}}},
    **{"nvidia-params": 'ModifyDeviceFiles: 1\nCoherentGPUMemoryMode: "driver"\n'},
    imex="Node #0   - 192.0.2.1   - READY\n\n Nodes From\\To  0\n       0        C\nDomain State: UP\n",
)
DOCUMENTS = sorted(key for key, content in HEALTHY.items() if isinstance(content, dict))
ITEMS = [
    *(*sorted(HEALTHY), "nvidia-smi-xml", "nvidia-sysfs-version", "virt"),
    *("amdgpu", "amdgpu-version", "kfd", "rocm", "amd-smi"),
]
STATUSES = ["ok", "not_found", "denied", "timed_out", "failed", "unsupported"]
NVLINK = ["nvlink", "nvswitch", "nvl72", "imex"]
NEEDS = ["gpu", "nvidia", "amd", *NVLINK, "rdma", "roce", "infiniband", "vm", "bare_metal", "slurm", ""]

FLAGS = (False, True)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)
MARKS = st.fixed_dictionaries({"unread": SCALARS | st.sampled_from(STATUSES), "why": SCALARS})
XML = st.text(string.ascii_letters + "<>/&;![]\"'= \n", max_size=200).map(
    lambda text: f'<?xml version="1.0" ?>\n<nvidia_smi_log><gpu id="{text}">'
)


def facts(node: Node) -> Iterator[tuple[str, Any]]:
    """Ask a node, its GPUs and its ports for everything that they know."""
    told: list[Any] = [part for gpu in node.gpus for part in (gpu.health, gpu.condition)]
    parts = (node.machine, node.drives, node.affinity, node.pci_errors, node.shared_memory, *told)
    for subject in (node, node.fabric, *node.gpus, *node.ports, *parts):
        for name in dir(type(subject)):
            if not name.startswith("_") and name not in (
                "shows",
                "sightings",
                "kernel_log",
                "amdgpu",
                "amdgpu_log",
            ):
                yield name, getattr(subject, name)
    for part in (node.rack, node.imex, *(part for gpu in node.gpus for part in (gpu.nvlink, gpu.fabric))):
        for name in dir(type(part)):
            fact = None if name.startswith("_") else getattr(part, name)
            if isinstance(fact, (Read, Unread)):
                yield name, fact
    for need in NEEDS:
        yield need, node.shows(need)
    for domain in ("gpu", "port", "node"):
        yield from node.sightings(domain, ("roce",)).items()


def is_among(*values: object) -> Callable[[Any], bool]:
    """Tell whether a value is one of these, of the same type."""
    return lambda value: any(type(value) is type(one) and value == one for one in values)


def is_count(value: Any) -> bool:
    """Tell whether a value can be a number of things."""
    return type(value) is int and value >= 0


SOUND: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(
        ["ecc_current", "ecc_pending", "remap_pending", "remap_failed", *NEEDS], is_among(*FLAGS)
    ),
    **dict.fromkeys(["pcie_width", "pcie_width_max"], is_among(1, 2, 4, 8, 12, 16, 32)),
    **dict.fromkeys(
        [
            *("gpus_on_bus", "gpus_in_driver", "gpus_seen", "routable_gids", "bus", "driver"),
            *("connected_count", "crippling", "left_over", "path_mtu"),
        ],
        is_count,
    ),
    "remap_banks_exhausted": is_count,
    **dict.fromkeys(["fatal", "nonfatal"], is_count),
    **dict.fromkeys(["corrected_per_hour", "replays_per_minute"], lambda value: value >= 0),
    "left_share": lambda value: 0 <= value <= 1,
    **dict.fromkeys(["gpus_unplaced", "gpus_far", "sockets", "cores", "threads", "count"], is_count),
    **dict.fromkeys(["memory_mib", "clock_limit_mhz", "warning", "worst_used_percent"], is_count),
    **dict.fromkeys(["partition_mode", "partition_mode_after_reset"], is_among("whole", "mig")),
    **dict.fromkeys(["up", "slow", "packet_errors", "recoveries", "replays", "crc_errors"], is_count),
    **dict.fromkeys(["domains", "outside", "members", "unready", "unconnected", "other_versions"], is_count),
    "running": is_among(*FLAGS),
    "effective_ber": lambda value: 0 <= value <= 15,
    **dict.fromkeys(["uncorrected_errors", "corrected_errors", "lifetime_uncorrected_errors"], is_count),
    **dict.fromkeys(["sram_threshold_exceeded", "inforom_valid", "power_brake"], is_among(*FLAGS)),
    **dict.fromkeys(["hw_slowdown", "hw_thermal_slowdown", "sw_thermal_slowdown"], is_among(*FLAGS)),
    **dict.fromkeys(["idle_power_w", "held_mib", "orphaned_mib"], lambda value: value >= 0),
    "thermal_margin_c": lambda value: type(value) is int and abs(value) <= 400,
    "driver_version": lambda value: value.replace(".", "").isdecimal(),
}


def check(node: Node) -> None:
    """Every fact is read or unread, and what was read is what such a thing can be."""
    for name, fact in facts(node):
        if isinstance(fact, Unread):
            assert fact.why
            assert fact.why.isprintable()
        elif isinstance(fact, Read):
            assert fact.value is not None
            assert SOUND.get(name, lambda _: True)(fact.value), (name, fact)
    wheres = [gpu.where for gpu in node.gpus]
    assert len(set(wheres)) == len(wheres)


@settings(deadline=None)  # a busy machine is no defect
@given(st.sampled_from(ITEMS), st.binary(max_size=300), st.sampled_from(STATUSES), st.booleans())
def test_any_bytes_give_facts(item: str, out: bytes, status: str, truncated: bool) -> None:  # noqa: FBT001
    """No byte sequence in any item, with any status, makes a reader raise."""
    content = Item(item, 1, status=cast("Status", status), out=out, truncated=truncated)
    check(Node("n1", evidence(HEALTHY | {item: content})))


@settings(deadline=None)  # a busy machine is no defect
@given(st.sampled_from(ITEMS), VALUES | MARKS)
def test_any_document_gives_facts(item: str, content: Any) -> None:
    """Nor does any JSON document."""
    check(Node("n1", evidence(HEALTHY | {item: json.dumps(content)})))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(DOCUMENTS), st.data())
def test_any_change_in_a_healthy_document_gives_facts(item: str, data: st.DataObject) -> None:
    """A single odd value, anywhere, is found out by its reader."""
    document = copy.deepcopy(HEALTHY[item])
    place: Any = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], (dict, list)) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(VALUES | MARKS)
    check(Node("n1", evidence(HEALTHY | {item: document})))


@settings(deadline=None)  # a busy machine is no defect
@given(XML)
def test_any_xml_gives_facts(xml: str) -> None:
    """A broken log of nvidia-smi is read as far as it goes."""
    check(Node("n1", evidence(HEALTHY | {"nvml": absent("failed"), "nvidia-smi-xml": xml})))


@settings(deadline=None)  # a busy machine is no defect
@given(st.integers(0, 400))
def test_half_a_document_gives_no_value(cut: int) -> None:
    """A file that was cut anywhere is not read as the part that is left."""
    whole = json.dumps(HEALTHY["nvml"]).encode()
    node = Node("n1", evidence(HEALTHY | {"nvml": whole[: min(cut, len(whole) - 1)]}))
    unread(node.driver_version)
    unread(node.gpus_in_driver)
    for gpu in node.gpus:
        unread(gpu.ecc_current)
        unread(gpu.remap_pending)


@settings(deadline=None)  # a busy machine is no defect
@given(
    st.lists(st.sampled_from([device(0, 0x1A), device(1, 0x2A), {"index": 1, "unread": "failed"}, {}, None]))
)
def test_every_gpu_of_any_list_is_a_subject(devices: list[Any]) -> None:
    """Whatever the driver lists, no GPU that the bus shows is lost, and none of the list is."""
    nvml = {"driver": "580.95.05", "count": len(devices), "devices": devices}
    node = Node("n1", evidence(HEALTHY | {"nvml": nvml}))
    check(node)
    assert len(node.gpus) >= max(2, len(devices))
