"""Places: what is folded stays what it was, and what is cut says so."""

from __future__ import annotations

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.report.fold import fold, natural
from gpuassay.report.places import nodes, shorten

NODES = st.sampled_from([f"gpu{n:03}" for n in range(12)] + ["login", "gpu7", "rack2-gpu10"])
PARTS = st.sampled_from(["", *(f"gpu{n}" for n in range(8)), "mlx5_0/1", "mlx5_10/1"])


@given(st.sets(st.tuples(NODES, PARTS), min_size=1))
def test_folding_keeps_every_place(pairs: set[tuple[str, str]]) -> None:
    """Unfolding a folded expression gives the same places, whatever gaps they have."""
    places = {f"{node}/{part}" if part else node for node, part in pairs}
    assert set(NodeSet(fold(places), resolver=RESOLVER_NOGROUP)) == places


@given(st.sets(st.tuples(NODES, PARTS), min_size=1))
def test_nodes_of_a_folded_place(pairs: set[tuple[str, str]]) -> None:
    """The nodes of a folded expression are the nodes that went into it."""
    places = {f"{node}/{part}" if part else node for node, part in pairs}
    assert set(nodes(fold(places))) == {node for node, _ in pairs}


@given(st.text())
def test_any_text_is_a_place(where: str) -> None:
    """A place that nothing can read is still shown: neither splitting nor cutting ever raises."""
    nodes(where)
    shorten(where)


def test_a_name_with_operators_is_not_folded_away() -> None:
    """What ClusterShell takes for an operator must not make one name out of two."""
    assert fold(["a!b", "a&c"]) == "a!b,a&c"


def test_a_group_is_a_name() -> None:
    """No report may depend on the node groups that the reading machine happens to know."""
    assert nodes("@all/gpu[0-7]") == ("@all",)


def test_long_places_are_cut_and_say_so() -> None:
    """Ten names are given, then an ellipsis, in brackets and between them; the rest of the place stays."""
    odd = ",".join(f"{n:03}" for n in range(1, 60, 2))
    assert shorten(f"gpu[{odd}]/gpu[0-7]") == "gpu[001,003,005,007,009,011,013,015,017,019,…]/gpu[0-7]"
    assert shorten(",".join(f"host-{n}x" for n in range(30))).endswith("host-8x, host-9x, …")
    assert shorten("gpu[001-900]/gpu[0-7]") == "gpu[001-900]/gpu[0-7]"


def test_order_is_natural() -> None:
    """A reader counts gpu2 before gpu10."""
    assert sorted(["gpu10", "gpu2", "gpu1"], key=natural) == ["gpu1", "gpu2", "gpu10"]
