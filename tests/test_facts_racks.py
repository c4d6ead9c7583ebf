"""Pools of racks: who shares NVLink with whom, and what one node in doubt leaves of that."""

from __future__ import annotations

from typing import Any

from facts_evidence import device, evidence, fabric, function, mark, small, unread, value
from gpuassay.facts import Fleet
from gpuassay.facts.node import Node

RACK = "00000001-0000-0000-0000-000000000001"


def node(name: str, pool: str = "rack", product: str = "NVIDIA GB300", **changes: Any) -> Node:
    """Make a node of one GPU in a rack."""
    told = fabric(**{"cluster": RACK, "clique": 1, **changes})
    nvml = {
        "driver": "580",
        "count": 1,
        "devices": [device(0, 0x1A, name=product, pci_device_id=None, fabric=told)],
    }
    bus = {"0000:1a:00.0": function(device="0x31c2" if product == "NVIDIA GB300" else "0x2901")}
    return Node(name, evidence(small(nvml=nvml, pci=bus)), (), pool)


def test_one_domain_is_one_and_says_nothing() -> None:
    """The nodes of a healthy rack."""
    (pool,) = Fleet([node("gb1"), node("gb2")]).rack_pools
    assert (pool.where, value(pool.domains), value(pool.alone)) == ("rack", 1, 0)


def test_two_racks_are_told_apart_by_their_nodes() -> None:
    """Equal cliques of different clusters are different domains."""
    other = {"cluster": RACK.replace("1", "2")}
    names = [node("gb1"), node("gb2"), node("gb3", **other), node("gb4", **other)]
    (pool,) = Fleet(names).rack_pools
    assert (value(pool.domains), value(pool.alone)) == (2, 0)
    assert getattr(pool.domains, "note", "").startswith(f"gb[1-2] in {RACK}.1; gb[3-4] in ")


def test_a_node_alone_is_named_and_a_single_node_is_not_alone() -> None:
    """To be alone takes others."""
    (pool,) = Fleet([node("gb1"), node("gb2"), node("gb3", clique=2)]).rack_pools
    assert value(pool.alone) == 1
    assert "gb3" in getattr(pool.alone, "note", "")
    (single,) = Fleet([node("gb1")]).rack_pools
    assert value(single.alone) == 0


def test_pools_are_apart_and_other_machines_are_in_none() -> None:
    """A pool for each rack is one domain each; a pool of HGX boards is no matter here."""
    nodes = [
        node("gb1", "a"),
        node("gb2", "b", clique=2),
        node("gpu1", "hgx", "NVIDIA B200"),
        Node("gb9", None),
    ]
    assert [(pool.where, value(pool.domains)) for pool in Fleet(nodes).rack_pools] == [("a", 1), ("b", 1)]
    (undeclared,) = Fleet([node("gb1", "")]).rack_pools
    assert undeclared.where == "cluster"


def test_a_node_in_doubt_hides_no_second_domain_and_proves_no_first() -> None:
    """Two domains stay two whatever a third node says; one domain may be two."""
    doubt = node("gb3", cluster=mark("failed", "GPU is lost"))
    (pool,) = Fleet([node("gb1"), node("gb2", clique=2), doubt]).rack_pools
    assert value(pool.domains) == 2
    assert "gb3: gpu0: GPU is lost" in unread(pool.alone).why
    (pool,) = Fleet([node("gb1"), node("gb2"), doubt]).rack_pools
    assert "gb3: gpu0: GPU is lost" in unread(pool.domains).why


def test_nodes_outside_every_domain() -> None:
    """One that has none is left out, and said elsewhere; if none has one, nothing is known of the pool."""
    zero = {"cluster": "00000000-0000-0000-0000-000000000000"}
    (pool,) = Fleet([node("gb1"), node("gb2"), node("gb3", **zero)]).rack_pools
    assert (value(pool.domains), value(pool.alone)) == (1, 0)
    (pool,) = Fleet([node("gb1", **zero)]).rack_pools
    assert unread(pool.domains).kind == "failed"
