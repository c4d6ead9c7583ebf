"""Needs: decided for each node by what is declared, what it shows, and what most of its peers show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.needs import Applicability, Needs
from judging import Node, pool, silent, site_of, table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from gpuassay.judge.fact import Fact

TABLES = table()
GPU = {"gpu": True}
NONE: dict[str, bool] = {}
GARBLED = Unread("garbled", "no tree of PCI devices", "nodes/n1#3")
SITE = site_of(TABLES)


def of(node: Node, *peers: Node, needs: tuple[str, ...] = ("gpu",), pools: str = "") -> Applicability:
    """Tell whether a check applies to a node beside its peers."""
    site = site_of(TABLES, pools) if pools else SITE
    return Needs(site, (node, *peers)).of(node, needs)


def test_what_is_declared_needs_no_showing() -> None:
    """A node that was sold with GPUs is asked for them, though it shows none and has no peer."""
    assert of(Node("n1", NONE), pools=pool("n1", 'has = ["gpu"]')).applies


def test_what_is_shown_needs_no_declaring() -> None:
    """Leaving a need out of a pool excuses nothing that is seen."""
    assert of(Node("n1", {"roce": True}), needs=("roce",), pools=pool("n1", "has = []")).applies


def test_what_is_neither_declared_nor_shown_is_skipped_on_its_ground() -> None:
    """The reason says what is missing, and by whose word."""
    assert of(Node("n1", NONE)) == Applicability(
        applies=False, reason="gpu: not declared, and the node shows none", lacks="gpu"
    )
    declared = of(Node("n1", NONE), pools=pool("n1"))
    assert declared.reason == "gpu: not declared for pool n1, and the node shows none"


@pytest.mark.parametrize(
    ("peers", "applies"),
    [((GPU, GPU, NONE), True), ((GPU,), True), ((GPU, NONE), False), ((), False)],
)
def test_a_node_takes_what_half_of_the_fleet_shows(
    peers: tuple[dict[str, bool], ...], *, applies: bool
) -> None:
    """A node without GPUs beside as many with them has lost its own; else it never had any."""
    others = [Node(f"p{number}", has) for number, has in enumerate(peers)]

    assert of(Node("n1", NONE), *others).applies is applies


@pytest.mark.parametrize(("shown", "applies"), [(NONE, False), (GPU, True)])
def test_only_peers_of_the_same_pool_count(shown: dict[str, bool], *, applies: bool) -> None:
    """Login nodes are no peers of GPU nodes, once they are declared apart."""
    pools = pool("n[1-2]") + pool("p[1-9]", 'has = ["gpu"]')
    others = [Node("n2", shown), *(Node(f"p{number}") for number in range(1, 10))]

    assert of(Node("n1", NONE), *others, pools=pools).applies is applies


def test_a_silent_node_has_what_its_pool_declares() -> None:
    """Silence takes nothing away from what was bought."""
    assert of(silent("n1"), pools=pool("n1", 'has = ["gpu"]')).applies


def test_a_silent_node_has_what_its_peers_show() -> None:
    """Without a declaration the majority decides, and the silent ones have no vote."""
    assert of(silent("n1"), Node("n2"), silent("n3"), silent("n4")).applies


def test_a_silent_node_of_a_pool_declared_without_is_skipped() -> None:
    """A login node that was declared to have no GPU is not missed by checks of GPUs."""
    found = of(silent("n1"), pools=pool("n1"))
    assert not found.applies
    assert found.unread is None
    assert found.reason == "gpu: not declared for pool n1, and the node is silent"


def test_of_a_silent_node_that_nobody_declared_nothing_can_be_told() -> None:
    """It might have had GPUs: that is no ground to skip."""
    found = of(silent("n1"), Node("n2", NONE), Node("n3", NONE))
    assert found.unread is not None
    assert "could not be told" in found.reason


def test_a_need_that_cannot_be_read_is_no_ground_to_skip() -> None:
    """The reading's own reason and evidence are kept for the row that says so."""
    found = of(Node("n1", {"gpu": GARBLED}), pools=pool("n1"))
    assert not found.applies
    assert found.unread == GARBLED
    assert found.reason == "whether it has gpu could not be told: no tree of PCI devices"


def test_peers_speak_for_a_node_that_cannot_be_read() -> None:
    """Beside GPU nodes it is held to be one."""
    assert of(Node("n1", {"gpu": GARBLED}), Node("n2")).applies


def test_all_needs_are_required_and_a_sure_lack_outweighs_a_doubt() -> None:
    """A check of GPUs and RoCE says nothing of a node that surely has no RoCE, whatever its GPUs."""
    doubtful = Node("n1", {"gpu": GARBLED, "roce": False})
    assert of(doubtful, needs=("gpu", "roce")).unread is None
    assert of(doubtful, needs=("roce", "gpu")).unread is None
    assert not of(Node("n1", {"gpu": True, "roce": False}), needs=("gpu", "roce")).applies
    assert of(Node("n1", {"gpu": True, "roce": True}), needs=("gpu", "roce")).applies


def test_a_check_without_needs_applies_to_every_node() -> None:
    """Also to a silent one: nothing excuses it."""
    assert of(silent("n1"), needs=()).applies


def test_anywhere_wants_one_node_that_has_it_for_sure() -> None:
    """What the rating profile requires is not met by a doubt."""
    assert Needs(SITE, (Node("n1", NONE), Node("n2", NONE), Node("n3"))).anywhere("gpu")
    assert not Needs(SITE, (Node("n1", {"gpu": GARBLED}), Node("n2", NONE))).anywhere("gpu")
    assert not Needs(SITE, ()).anywhere("gpu")


SHOWN = st.sampled_from(["yes", "no", "unread", "silent"])


def fleet(kinds: list[str]) -> list[Node]:
    """Make nodes of these kinds."""
    has: Mapping[str, Mapping[str, Fact[bool] | bool]] = {
        "yes": {"gpu": True},
        "no": {},
        "unread": {"gpu": GARBLED},
    }
    return [
        silent(f"n{number}") if kind == "silent" else Node(f"n{number}", has[kind])
        for number, kind in enumerate(kinds)
    ]


@given(st.lists(SHOWN, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_nodes_decides_nothing(kinds: list[str], random: Random) -> None:
    """Every node stands the same, however the fleet is listed and whoever is asked first."""
    nodes = fleet(kinds)
    mixed = list(nodes)
    random.shuffle(mixed)
    listed, other = Needs(SITE, nodes), Needs(SITE, mixed)

    assert {n.name: listed.of(n, ("gpu",)) for n in nodes} == {n.name: other.of(n, ("gpu",)) for n in mixed}


@given(st.lists(SHOWN, min_size=1, max_size=6))
def test_no_node_is_excused_by_one_more_gpu_node(kinds: list[str]) -> None:
    """One more node with GPUs turns skips into judgements, never the other way; a doubt is never a skip."""
    nodes, more = fleet(kinds), fleet([*kinds, "yes"])
    before, after = Needs(SITE, nodes), Needs(SITE, more)
    for kind, node in zip(kinds, nodes, strict=True):
        then, now = before.of(node, ("gpu",)), after.of(node, ("gpu",))
        assert now.applies or not then.applies
        if kind != "no":
            assert then.applies or then.unread


S3 = '[s3]\nendpoint = "https://s3.example"\n'


@pytest.mark.parametrize("node", [Node("n1", NONE), silent("n1")])
def test_a_service_is_the_site_file_s_to_declare(node: Node) -> None:
    """Whatever its nodes show, or do not, a cluster has the services that were bought, and no others."""
    assert of(node, needs=("s3",), pools=pool("n1") + S3).applies
    assert of(node, needs=("s3",), pools=pool("n1")) == Applicability(
        applies=False, reason="s3: not declared in the site file", lacks="s3"
    )


def test_a_past_is_neither_declared_nor_taken_from_peers() -> None:
    """What a node was is known or not, whatever its pool has, also where the node is silent now."""
    new = Node("n1", {"earlier": Read(value=False, note="a new node")})
    peers = [Node(name, {"earlier": True}) for name in ("n2", "n3")]
    found = of(new, *peers, needs=("earlier",), pools=pool("n[1-3]", 'has = ["earlier"]'))
    assert found == Applicability(applies=False, reason="earlier: a new node", lacks="earlier")
    assert of(peers[0], new, needs=("earlier",)).applies
