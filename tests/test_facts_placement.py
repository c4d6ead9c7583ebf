"""Where the nodes are in the network: by the switches' own word, by Slurm, by labels, or not known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts_evidence import absent, evidence, unread, value
from gpuassay.evidence.recording import read_recording
from gpuassay.facts import fleet
from gpuassay.facts.lldp import Neighbour, neighbours
from gpuassay.facts.placement import Placement, placement
from gpuassay.judge.site import load_site
from gpuassay.suite import load_suite
from recorded.build import build
from recorded.fabric import lldp

ROOT = Path(__file__).parents[1]
NODES = ("n1", "n2", "n3")


def placed(name: str) -> Placement:
    """Give the placement of a recorded cluster."""
    folder = build(name)
    site = load_site(folder / "site.toml", load_suite(ROOT).catalog)
    return placement(fleet(read_recording(folder), site))


@pytest.mark.parametrize(
    ("name", "by", "limits", "leaf"),
    [
        ("slurm-b200-4", "Slurm's topology", "spine not tested", "leaf0"),
        ("k8s-b200-2", "labels of Kubernetes", "spine not tested", "leaf-1"),
        ("gb300-nvl72", "LLDP", "spine not tested", "leaf1, leaf2, leaf3, leaf4"),
        ("hgx-b200-4", "", "not known whether the spine was tested", ""),
        ("slurm-one-queue-pair-on-two-leaves", "Slurm's topology", "", "leaf0"),
        ("cpu-vm", "", "spine not tested", ""),
    ],
)
def test_each_source_tells_where_nodes_are(name: str, by: str, limits: str, leaf: str) -> None:
    """One leaf, or one node, tests no spine; two leaves do; where nobody tells, that is said."""
    found = placed(name)
    assert (found.by, found.limits) == (by, limits)
    assert next(iter(found.leaves.values()), "") == leaf
    assert found.limits in found.says


def test_what_is_above_a_leaf_is_told_by_slurm() -> None:
    """The spine of each leaf is named, and the nodes are folded."""
    (leaf,) = placed("slurm-b200-4").document()["leaves"]
    assert leaf == {"leaf": "leaf0", "above": "spine", "nodes": "gpu[001-004]", "count": 4}


def test_a_node_that_is_not_placed_is_counted_and_never_taken_for_near() -> None:
    """Two nodes below one leaf and a third that nobody knows: that the spine was spared is not known."""
    some = Placement(NODES, {"n1": "a", "n2": "a"}, {}, "LLDP")
    assert some.limits == "not known whether the spine was tested"
    assert some.says.startswith("2 nodes are below one leaf, by LLDP; of 1 more it is not known: not known")
    whole = replace(some, leaves=dict.fromkeys(NODES, "a"))
    assert whole.says == "3 nodes are below one leaf, by LLDP: spine not tested"
    apart = replace(some, leaves={"n1": "a", "n2": "b", "n3": "b"})
    assert apart.says == "3 nodes are below 2 leaves, by LLDP"


def test_lldp_names_switch_port_and_frame() -> None:
    """The form of lldpd is read: by interface, the switch, its port and the largest frame."""
    out = json.loads(lldp({"rdma0": ("leaf1", "swp3")}).out)
    assert value(neighbours(evidence({"lldp": out}))) == {"rdma0": Neighbour("leaf1", "swp3", 9216)}


@pytest.mark.parametrize("status", ["not_found", "denied", "failed"])
def test_a_daemon_that_does_not_answer_leaves_the_switches_unseen(status: str) -> None:
    """No lldpd, or one that this user may not ask: the fabric's side is not seen from here."""
    assert unread(neighbours(evidence({"lldp": absent(status, "no socket")}))).kind == "denied"


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["lldp", "interface", "name", "chassis", "port", "id", "mfs", "value"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(ODD)
def test_no_answer_makes_the_reader_stumble(told: Any) -> None:
    """Whatever JSON comes, there is no exception, and no switch without a name."""
    found = neighbours(evidence({"lldp": json.dumps(told)}))
    assert all(one.switch for one in value(found).values())
