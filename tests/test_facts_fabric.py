"""The compute fabric of a node: links, counts, settings of NCCL, GPUDirect; and what is none of it."""

from __future__ import annotations

import os
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts_evidence import mark, node, unread, value
from gpuassay.facts.gid import Gid, Wanted, nccl_choice, parse_address
from gpuassay.facts.nccl import Names, Setting

IB: dict[str, Any] = {
    "state": "4: ACTIVE",
    "phys_state": "5: LinkUp",
    "rate": "400 Gb/sec (4X NDR)",
    "link_layer": "InfiniBand",
    "lid": "0x4b",
    "counters": {"symbol_error": "0", "link_downed": "1"},
    "pkeys": {"0": "0x7fff", "1": "0x8005"},
    "gids": {"0": "fe80:0000:0000:0000:0200:5e37:66d5:4f88"},
    "types": {"0": "IB/RoCE v1"},
    "ndevs": {},
}
ROCE: dict[str, Any] = IB | {
    "link_layer": "Ethernet",
    "lid": "0x0",
    "gids": {"0": "fe80:0000:0000:0000:0000:5eff:fe35:f32d", "3": "::ffff:10.0.0.1"},
    "types": {"0": "IB/RoCE v1", "3": "RoCE v2"},
    "ndevs": {"0": "eth0", "3": "eth0"},
}
DEVICE = {"fw_ver": "28.46.3048", "board_id": "MT_0000000838", "node_guid": "0200:5e37:66d5:4f88"}
FORTNIGHT = "1209600.00 1.00\n"


def host(*ports: dict[str, Any], fabric: tuple[str, ...] = (), **items: Any) -> Any:
    """Make a node whose devices mlx5_0, mlx5_1 … have one port each."""
    devices = {
        f"mlx5_{number}": {**DEVICE, "pci": f"0000:{number + 16:02x}:00.0", "ports": {"1": entry}}
        for number, entry in enumerate(ports)
    }
    net = {"eth0": {"mtu": "9000", "carrier_down_count": "1"}}
    return node({"infiniband": devices, "net": net, "uptime": FORTNIGHT, **items}, fabric=fabric)


def settings(*pairs: tuple[str, str], **more: Any) -> dict[str, Any]:
    """Make what the probe finds of NCCL: these settings in /etc/nccl.conf."""
    files = [{"path": "/etc/nccl.conf", "settings": [list(pair) for pair in pairs]}]
    return {"environment": {}, "files": files, "plugins": [], **more}


@pytest.mark.parametrize(
    ("changes", "link"),
    [
        ({}, "ACTIVE"),
        ({"phys_state": "0: <unknown>"}, "ACTIVE"),
        ({"state": "1: DOWN", "phys_state": "2: Polling"}, "DOWN, Polling"),
        ({"state": "1: DOWN", "phys_state": "3: Disabled"}, "DOWN, Disabled"),
        ({"state": "2: INIT"}, "INIT, LinkUp"),
        ({"phys_state": "6: LinkErrorRecovery"}, "ACTIVE, LinkErrorRecovery"),
        ({"lid": "0xffff"}, "ACTIVE, LID 65535"),
        ({"lid": "0x0"}, "ACTIVE, LID 0"),
        ({"lid": "0x0", "link_layer": "Ethernet"}, "ACTIVE"),
    ],
)
def test_a_link_is_active_or_says_what_it_is(changes: dict[str, Any], link: str) -> None:
    """Both states count; a LID belongs to InfiniBand only."""
    one = host(IB | changes).ports[0]
    assert value(one.link) == link
    assert one.connected is (link == "ACTIVE")


def test_a_link_that_cannot_be_read_is_not_active() -> None:
    """Neither for the check nor for the counts of the node."""
    sample = host(IB, IB | {"phys_state": mark("denied", "no")})
    assert unread(sample.ports[1].link).kind == "denied"
    unread(sample.fabric.connected_count)
    unread(sample.fabric.speeds)
    unread(sample.fabric.slowest_gbps)


def test_undeclared_infiniband_counts_in_any_state_and_unused_ethernet_does_not() -> None:
    """A polling port is a bad cable; a storage card's second port is unused."""
    polling = {"state": "1: DOWN", "phys_state": "2: Polling"}
    sample = host(IB, IB | polling, ROCE, ROCE | polling)
    assert [port.device for port in sample.fabric.ports] == ["mlx5_0", "mlx5_1", "mlx5_2"]
    assert value(sample.fabric.connected_count) == 2
    assert value(sample.fabric.speeds) == "1 x 400 Gb/s 4X NDR Ethernet, 1 x 400 Gb/s 4X NDR InfiniBand"


def test_bridges_to_nvswitches_are_no_fabric() -> None:
    """One function of a card has the mark, and its whole card is meant."""
    sample = host(IB, IB, IB)
    devices: dict[str, dict[str, Any]] = {name: {**DEVICE} for name in ("mlx5_0", "mlx5_1")}
    devices["mlx5_0"] |= {"pci": "0000:04:00.0", "ports": {"1": IB}, "manages_nvswitch": True}
    devices["mlx5_1"] |= {"pci": "0000:04:00.1", "ports": {"1": IB}, "manages_nvswitch": False}
    bridges = node({"infiniband": devices, "net": {}})
    assert len(sample.fabric.infiniband_ports) == 3
    assert bridges.fabric.ports == ()
    assert value(bridges.shows("infiniband")) is False
    assert value(bridges.shows("rdma")) is True
    declared = node({"infiniband": devices, "net": {}}, fabric=("mlx5_1",))
    assert [port.device for port in declared.fabric.ports] == ["mlx5_1"]


def test_the_slowest_port_is_named() -> None:
    """Two lanes of four are half the rate."""
    sample = host(IB, IB | {"rate": "200 Gb/sec (2X NDR)"})
    assert value(sample.fabric.slowest_gbps) == 200.0
    assert sample.fabric.slowest_gbps.note == "at that rate: mlx5_1/1"
    assert value(host(IB | {"rate": "800 Gb/sec (4X XDR)"}).ports[0].speed) == "800 Gb/s 4X XDR InfiniBand"


def test_errors_are_averaged_over_the_time_since_the_boot() -> None:
    """And over three days at least: a boot alone is no flapping."""
    bad = IB | {"counters": {"symbol_error": "2000", "link_downed": "28"}}
    one = host(bad).ports[0]
    assert value(one.downs_per_day) == 2.0
    assert one.downs_per_day.note == "28 times in 14.0 days"
    assert value(one.bit_error_rate) == pytest.approx(2000 / (400e9 * 1209600))
    assert value(host(bad, uptime="60.00 1.00\n").ports[0].downs_per_day) == pytest.approx(28 / 3)
    assert value(host(ROCE).ports[0].downs_per_day) == pytest.approx(1 / 14)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"counters": {"link_downed": "N/A (no PMA)"}}, "denied"),
        ({"counters": {"link_downed": "-1"}}, "garbled"),
        ({"counters": {}}, "not_asked"),
        ({"counters": mark("denied", "no")}, "denied"),
        ({"link_layer": "Unspecified"}, "denied"),
        ({"link_layer": "Ethernet", "ndevs": {}}, "denied"),
    ],
)
def test_counts_that_are_not_shown_are_not_zero(change: dict[str, Any], kind: str) -> None:
    """A driver without counters, a link of the provider's, an interface of another namespace."""
    assert unread(host(IB | change).ports[0].downs_per_day).kind == kind


def test_an_older_probe_did_not_ask() -> None:
    """What it did not record is neither missing nor wrong."""
    old = {key: one for key, one in ROCE.items() if key not in ("counters", "pkeys")}
    port = host(old, net={"eth0": {"mtu": "9000"}}).ports[0]
    facts = (port.partitions, port.downs_per_day, port.bit_error_rate, port.lossless, port.pinned_gid)
    assert {unread(fact).kind for fact in facts} == {"not_asked"}
    assert value(port.nccl_gid) == "ipv4 v2"


@pytest.mark.parametrize(
    ("keys", "default", "told"),
    [
        (["0xffff"], "full", "0xffff full"),
        (["0x7fff", "0x8005"], "limited", "0x7fff limited, 0x8005 full"),
        (["0x8005"], "none", "0x8005 full"),
        ([], "none", "none"),
    ],
)
def test_partitions(keys: list[str], default: str, told: str) -> None:
    """The highest bit is full membership, the rest the partition."""
    one = host(IB | {"pkeys": {str(slot): key for slot, key in enumerate(keys)}}).ports[0]
    assert (value(one.default_partition), value(one.partitions)) == (default, told)


@pytest.mark.parametrize("mtu", [(9000, 4096), (4192, 4096), (4191, 2048), (1500, 1024), (200, 0)])
def test_the_packets_of_an_mtu(mtu: tuple[int, int]) -> None:
    """As the kernel computes them."""
    one = host(ROCE, net={"eth0": {"mtu": str(mtu[0])}}).ports[0]
    assert value(one.path_mtu) == mtu[1]


@pytest.mark.parametrize(
    ("answer", "told"),
    [({"pfc": [3]}, "3"), ({"pfc": []}, "none"), ({"pfc": [3, 4]}, "3, 4")],
)
def test_lossless_priorities(answer: dict[str, Any], told: str) -> None:
    """None is an answer, too."""
    assert value(host(ROCE, dcb={"eth0": answer}).ports[0].lossless) == told


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (mark("unsupported", "the driver has no such setting"), "denied"),
        (mark("failed", "no"), "failed"),
        ({"pfc": [8]}, "garbled"),
        ({"pfc": [True]}, "garbled"),
        ({"pfc": "3"}, "garbled"),
    ],
)
def test_priorities_that_are_not_shown(answer: dict[str, Any], kind: str) -> None:
    """A driver without the setting leaves it to those who set the switch."""
    assert unread(host(ROCE, dcb={"eth0": answer}).ports[0].lossless).kind == kind


@pytest.mark.parametrize(
    ("pairs", "entry"),
    [
        ([], "not pinned"),
        ([("NCCL_IB_GID_INDEX", "3")], "ipv4 v2"),
        ([("NCCL_IB_GID_INDEX", "0x3")], "ipv4 v2"),
        ([("NCCL_IB_GID_INDEX", "0")], "link-local v1"),
        ([("NCCL_IB_GID_INDEX", "5")], "empty"),
        ([("NCCL_IB_GID_INDEX", "")], "not pinned"),
        ([("NCCL_IB_GID_INDEX", "-1")], "not pinned"),
    ],
)
def test_a_pinned_index_is_looked_up_on_the_port(pairs: list[tuple[str, str]], entry: str) -> None:
    """An empty value is none to NCCL, and -1 is its default."""
    assert value(host(ROCE, nccl=settings(*pairs)).ports[0].pinned_gid) == entry


def test_the_environment_comes_first_and_a_place_in_doubt_decides_nothing() -> None:
    """A file that may not be read may hold anything."""
    found = settings(("NCCL_ALGO", "Ring"), environment={"NCCL_ALGO": "Tree"})
    assert value(host(ROCE, nccl=found).fabric.settings_text) == "NCCL_ALGO=Tree"
    found["files"].append({"path": "/root/.nccl.conf", "unread": "denied", "why": "no"})
    sample = host(ROCE, nccl=found)
    assert unread(sample.fabric.settings_text).kind == "denied"
    unread(sample.fabric.crippling)
    unread(sample.ports[0].pinned_gid)


@pytest.mark.parametrize(
    ("pair", "crippling", "left_over"),
    [
        (("NCCL_IB_DISABLE", "1"), 1, 0),
        (("NCCL_IB_DISABLE", "0"), 0, 0),
        (("NCCL_NET", "socket"), 1, 0),
        (("NCCL_NET", "gIB"), 0, 0),
        (("NCCL_P2P_LEVEL", "NVL"), 0, 0),
        (("NCCL_P2P_LEVEL", "LOC"), 1, 0),
        (("NCCL_IB_TIMEOUT", "22"), 0, 0),
        (("NCCL_IB_TIMEOUT", "23"), 0, 1),
        (("NCCL_CROSS_NIC", "0"), 0, 0),
        (("NCCL_DEBUG", "WARN"), 0, 0),
        (("NCCL_ALGO", ""), 0, 0),
        (("NCCL_ALGO", "Ring"), 0, 1),
        (("NCCL_SOCKET_IFNAME", "=eth0"), 0, 0),
        (("NCCL_SOCKET_IFNAME", "bond0"), 1, 0),
        (("NCCL_SOCKET_IFNAME", "^lo"), 0, 0),
        (("NCCL_IB_HCA", "=mlx5_0"), 1, 0),
        (("NCCL_IB_HCA", "mlx5"), 0, 0),
        (("NCCL_IB_HCA", "^mlx5_1"), 1, 0),
    ],
)
def test_settings_are_judged_by_what_they_do(pair: tuple[str, str], crippling: int, left_over: int) -> None:
    """The same name may be in order with another value."""
    fabric = host(ROCE, ROCE, fabric=("mlx5_0", "mlx5_1"), nccl=settings(pair)).fabric
    assert (value(fabric.crippling), value(fabric.left_over)) == (crippling, left_over)


def test_a_name_without_the_equals_sign_is_a_beginning() -> None:
    """mlx5_1 is mlx5_10, too; listed by themselves they are meant."""
    names = [f"mlx5_{number}" for number in range(12)]
    assert Names.parse("mlx5_1").traps(names) == ["mlx5_1 also means mlx5_10, mlx5_11"]
    assert Names.parse("=mlx5_1").traps(names) == []
    assert Names.parse("mlx5_1:1,mlx5_10,mlx5_11").traps(names) == []
    assert [one for one in names if Names.parse("^=mlx5_1,mlx5_2").takes(one)] == [*names[:1], *names[3:]]
    assert Names.parse("").takes("mlx5_0")


@given(st.text())
def test_any_value_is_a_number_or_none(text: str) -> None:
    """As strtoll reads it, and no text makes it raise."""
    Names.parse(text).takes("mlx5_0")
    number = Setting("NCCL_IB_GID_INDEX", text, "").number
    assert number is None or isinstance(number, int)


def test_the_choice_follows_what_is_wanted() -> None:
    """IPv6 and a range, as one cloud tells its jobs."""
    texts = ["fe80::1", "fe80::1", "::ffff:10.0.0.1", "fd03::1", "fd02::1", "fd02::1"]
    versions = [1, 2, 2, 2, 1, 2]
    table = [
        Gid(index, address, version)
        for index, (text, version) in enumerate(zip(texts, versions, strict=True))
        if (address := parse_address(text))
    ]
    span = Wanted(ipv6=True, network=ip_network("fd02::/16"))
    assert nccl_choice(table).index == 2
    assert nccl_choice(table, Wanted(ipv6=True)).index == 3
    assert nccl_choice(table, span).index == 5


OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.309.01  Tue Jan 6"


@pytest.mark.parametrize(
    ("loaded", "module", "kernel", "way"),
    [
        (["nvidia_peermem"], CLOSED, "5.4.0", "peermem"),
        ([], OPEN, "6.8.0-71-generic", "dma_buf"),
        ([], OPEN, "5.12.0", "dma_buf"),
        ([], OPEN, "5.4.0-1018", "none"),
        ([], CLOSED, "6.8.0", "none"),
    ],
)
def test_gpudirect_is_a_module_or_the_kernel(loaded: list[str], module: str, kernel: str, way: str) -> None:
    """Either will do."""
    items: dict[str, Any] = {
        "gpudirect": {name: {} for name in loaded},
        "nvidia-module": module,
        "host": {"kernel": kernel},
    }
    assert value(host(ROCE, **items).fabric.gpudirect) == way


def test_gpudirect_in_doubt_is_unread() -> None:
    """A file that names no module proves nothing."""
    items: dict[str, Any] = {"gpudirect": {}, "nvidia-module": "{}", "host": {"kernel": "6.8.0"}}
    assert unread(host(ROCE, **items).fabric.gpudirect).kind == "garbled"
    assert unread(host(ROCE, gpudirect={}, host={"kernel": "6.8"}).fabric.gpudirect).kind == "not_asked"


CAPTURE = Path(os.environ.get("GPUASSAY_SAMPLES", Path(__file__).parents[2] / "shared")).joinpath(
    "captures/sysfs-infiniband/sys_class_infiniband_h100_2hca_flat.txt"
)


@pytest.mark.skipif(not CAPTURE.is_file(), reason=f"no {CAPTURE}: set GPUASSAY_SAMPLES")
def test_a_real_machine_is_healthy() -> None:
    """Its counters are not all zero, and nothing is wrong with it."""
    devices: dict[str, Any] = {}
    for line in CAPTURE.read_text().splitlines():
        path, _, text = line.partition(":")
        place = devices
        *folders, name = path.split("/")
        for folder in folders:
            place = place.setdefault(folder, {})
        place[name] = text
    sample = node({"infiniband": devices, "net": {}, "uptime": FORTNIGHT})
    assert value(sample.fabric.speeds) == "2 x 400 Gb/s 4X NDR InfiniBand"
    assert [value(port.link) for port in sample.ports] == ["ACTIVE", "ACTIVE"]
    assert [value(port.bit_error_rate) for port in sample.ports] == [0, 0]
    assert [value(port.downs_per_day) for port in sample.ports] == [0, 0]
