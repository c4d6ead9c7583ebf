"""RDMA ports, what their addresses are good for, and which one NCCL takes."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts_evidence import absent, mark, node, unread, value
from gpuassay.facts.gid import Gid, nccl_choice

EUI64 = "fe80:0000:0000:0000:0000:5eff:fe35:f32d"
IPV4 = "0000:0000:0000:0000:0000:ffff:0a00:0001"
ULA = "fd00:0000:0000:0001:0000:0000:0000:0001"
GLOBAL = "2001:0db8:0000:0000:0000:0000:0000:0001"
USUAL = ((EUI64, 1), (EUI64, 2), (IPV4, 1), (IPV4, 2))
"""The order in which mlx5 fills a table: each address twice, the MAC's own first."""


def port(*gids: tuple[str, int], **changes: Any) -> dict[str, Any]:
    """Make a port of Ethernet with these entries in its table, from index 0."""
    kinds = {1: "IB/RoCE v1", 2: "RoCE v2"}
    return {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "rate": "400 Gb/sec (4X NDR)",
        "link_layer": "Ethernet",
        "gids": {str(slot): address for slot, (address, _) in enumerate(gids)},
        "types": {str(slot): kinds[version] for slot, (_, version) in enumerate(gids)},
        "ndevs": {str(slot): "eth0" for slot, _ in enumerate(gids)},
        **changes,
    }


def host(*ports: dict[str, Any], fabric: tuple[str, ...] = ()) -> Any:
    """Make a node whose devices mlx5_0, mlx5_1 … have one port each."""
    devices = {f"mlx5_{number}": {"ports": {"1": entry}} for number, entry in enumerate(ports)}
    return node({"infiniband": devices, "net": {"eth0": {"mtu": "9000"}}}, fabric=fabric)


def only(*gids: tuple[str, int], **changes: Any) -> Any:
    """Make the only port of a node."""
    return host(port(*gids, **changes)).ports[0]


def test_a_port_tells_state_rate_and_interface() -> None:
    """The kernel writes a number before the state and a width behind the rate."""
    one = only(*USUAL)
    assert (one.where, one.name, one.node, one.models) == ("n1/mlx5_0/1", "mlx5_0/1", "n1", ())
    assert (value(one.state), value(one.line_rate_gbps)) == ("ACTIVE", 400.0)
    assert (value(one.netdev), value(one.mtu)) == ("eth0", 9000)
    assert value(only(rate="2.5 Gb/sec (1X SDR)").line_rate_gbps) == 2.5


@pytest.mark.parametrize(
    ("gids", "routable", "choice"),
    [
        (USUAL, 1, "ipv4 v2"),
        (((EUI64, 1), (EUI64, 2)), 0, "link-local v1"),
        (((EUI64, 1), (EUI64, 2), (ULA, 1), (ULA, 2)), 1, "link-local v1"),
        (((EUI64, 1), (EUI64, 2), (GLOBAL, 1), (GLOBAL, 2)), 1, "link-local v1"),
        (((EUI64, 1), (EUI64, 2), (IPV4, 1)), 0, "ipv4 v1"),
        (((EUI64, 2), (IPV4, 2)), 1, "ipv4 v2"),  # a device that has version 2 only
        (((ULA, 2), (GLOBAL, 2)), 2, "ipv6-ula v2"),
        (((GLOBAL, 2),), 1, "ipv6-global v2"),
        ((), 0, "empty"),
        ((("fe80::", 1), ("fe80::", 2)), 0, "unconfigured v1"),
        ((("0000:0000:0000:0000:0000:ffff:a9fe:0001", 2),), 0, "link-local v2"),  # 169.254.0.1
        ((("0000:0000:0000:0000:0000:ffff:0000:0000", 2),), 0, "empty"),
        ((("ff0e:0000:0000:0000:0000:ffff:e000:0001", 2),), 0, "other v2"),
    ],
)
def test_addresses_are_sorted_by_where_they_reach(
    gids: tuple[tuple[str, int], ...], routable: int, choice: str
) -> None:
    """Only version 2 with an address of more than one link crosses a router."""
    one = only(*gids)
    assert (value(one.routable_gids), value(one.nccl_gid)) == (routable, choice)


def test_the_notes_show_the_table_and_the_choice() -> None:
    """A finding can be understood without a shell on the node."""
    one = only(*USUAL)
    assert one.nccl_gid.note == "NCCL takes entry 3: ::ffff:10.0.0.1 (ipv4 v2)"
    assert one.routable_gids.note.startswith("GID table: 0: fe80::5eff:fe35:f32d (link-local v1); 1: ")


def test_a_sparse_table_is_read_by_its_indexes() -> None:
    """Empty slots are left out of the tree; zero entries and holes are no addresses."""
    table = {"0": "0000:" * 7 + "0000", "5": EUI64, "11": IPV4}
    kinds = {"5": "RoCE v2", "11": "RoCE v2"}
    one = only(gids=table, types=kinds, ndevs={"11": "net1"})
    assert (value(one.routable_gids), value(one.nccl_gid), value(one.netdev)) == (1, "ipv4 v2", "net1")
    assert one.nccl_gid.note.startswith("NCCL takes entry 11: ")
    assert unread(one.mtu).kind == "not_found"


def test_a_slot_of_another_network_namespace_is_not_usable() -> None:
    """Its type answers EINVAL and so is left out: no version, no route."""
    one = only(gids={"0": EUI64, "3": IPV4}, types={"0": "IB/RoCE v1"})
    assert value(one.routable_gids) == 0
    assert value(one.nccl_gid) == "ipv4 of no version"


@pytest.mark.parametrize(
    "changes",
    [
        {"gids": {"0": "no address"}},
        {"gids": {"0": "fe80::1%eth0"}},
        {"gids": {"zero": IPV4}},
        {"gids": {"00": IPV4}},
        {"gids": {"0": 7}},
        {"gids": [IPV4]},
        {"gids": mark("denied", "Permission denied")},
        {"gids": {"0": IPV4}, "types": {"0": "RoCE v3"}},
        {"gids": {"0": IPV4}, "types": {"0": mark("denied", "Permission denied")}},
        {"gids": {"0": IPV4}, "types": 3},
    ],
)
def test_one_entry_that_cannot_be_read_leaves_the_table_unread(changes: dict[str, Any]) -> None:
    """NCCL's choice depends on the whole of it."""
    one = only(**changes)
    unread(one.routable_gids)
    unread(one.nccl_gid)
    unread(one.mtu)


def test_infiniband_is_not_judged_by_its_gids() -> None:
    """There fe80:: is the usual subnet prefix of every port."""
    sample = host(port((EUI64, 1), link_layer="InfiniBand", state="4: ACTIVE"))
    assert unread(sample.ports[0].routable_gids).kind == "unsupported"
    assert sample.roce_ports == ()
    assert value(sample.shows("infiniband")) is True
    assert value(sample.shows("roce")) is False
    assert value(sample.sightings("port", ("infiniband",))["sysfs"]) == 1
    assert value(sample.sightings("port", ("roce",))["sysfs"]) == 0


def test_undeclared_every_active_ethernet_port_is_of_the_fabric() -> None:
    """Unused ports of a storage card are down, and no fault."""
    sample = host(port(*USUAL), port(state="1: DOWN"), port(link_layer="InfiniBand"))
    assert [one.where for one in sample.roce_ports] == ["n1/mlx5_0/1"]
    assert len(sample.ports) == 3
    down = host(port(state="1: DOWN"))
    assert value(down.shows("roce")) is False
    assert value(down.shows("rdma")) is True


@pytest.mark.parametrize("fabric", [("mlx5_1", "mlx5_7"), ("mlx5_1/1",)])
def test_declared_ports_are_of_the_fabric_in_any_state(fabric: tuple[str, ...]) -> None:
    """A declared port that is down must not excuse itself, and others are none of our business."""
    sample = host(port(*USUAL), port((EUI64, 1), state="1: DOWN"), fabric=fabric)
    assert [one.name for one in sample.roce_ports] == ["mlx5_1/1"]
    assert value(sample.sightings("port", ("roce",))["sysfs"]) == 1
    assert value(sample.sightings("port", ())["sysfs"]) == 2


@pytest.mark.parametrize(
    "change", [{"link_layer": ""}, {"link_layer": mark("failed", "EIO")}, {"state": "Active"}]
)
def test_only_what_was_read_keeps_a_port_out(change: dict[str, Any]) -> None:
    """A port in doubt is judged, and says why it cannot be."""
    sample = host(port(*USUAL), port(*USUAL, **change))
    assert [one.name for one in sample.roce_ports] == ["mlx5_0/1", "mlx5_1/1"]
    if "link_layer" in change:
        unread(sample.roce_ports[1].routable_gids)
        unread(host(port(*USUAL, **change)).shows("roce"))


@pytest.mark.parametrize(
    "devices",
    [{"mlx5_0": {}}, {"mlx5_0": 3}, {"mlx5_0": {"ports": {"one": {}}}}, {"a b": {"ports": {"1": {}}}}],
)
def test_ports_that_cannot_be_found_leave_the_count_open(devices: dict[str, Any]) -> None:
    """A device without its ports is not a device without ports."""
    sample = node({"infiniband": devices, "net": {}})
    unread(sample.sightings("port", ("roce",))["sysfs"])
    unread(sample.shows("roce"))
    assert value(sample.shows("rdma")) is True


def test_a_host_without_rdma_shows_none() -> None:
    """No such class in the kernel is a reading, a refusal is none."""
    assert value(node({"infiniband": {}, "net": {}}).shows("rdma")) is False
    assert unread(node({"infiniband": absent("denied", "no")}).shows("rdma")).kind == "denied"


def test_ports_are_in_natural_order() -> None:
    """mlx5_2 comes before mlx5_10."""
    names = [one.device for one in host(*[port(*USUAL)] * 12).ports]
    assert names == [f"mlx5_{number}" for number in range(12)]


ADDRESSES = st.sampled_from([EUI64, IPV4, ULA, GLOBAL, "fe80::", "::", "::ffff:169.254.0.1"])
TABLES = st.dictionaries(st.integers(0, 15), st.tuples(ADDRESSES, st.sampled_from([None, 1, 2])))


@given(TABLES)
def test_nccl_takes_an_ipv4_address_of_version_2_wherever_there_is_one(
    table: dict[int, tuple[str, int | None]],
) -> None:
    """As its documentation says: AF_INET and RoCE v2 are the defaults; else it stays where it started."""
    gids = [Gid(index, IPv6Address(text), version) for index, (text, version) in table.items()]
    chosen = nccl_choice(gids)
    fit = [gid for gid in gids if gid.is_ipv4 and gid.version == 2]
    if fit:
        assert chosen in fit
    elif any(gid.is_ipv4 for gid in gids):
        assert chosen.is_ipv4
    else:
        assert chosen.index == 0
