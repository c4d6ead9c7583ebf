"""The arithmetic of collectives: by nccl-tests' definitions, by hand, and by what others have printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.judge.catalog import load_catalog
from gpuassay.measure.work import rates

ROOT = Path(__file__).parents[1]

# Rows of public runs of nccl-tests, 8 GPUs of a node: size, microseconds, algbw and busbw as printed.
PRINTED = [
    ("all_reduce", 8, 8_589_934_592, 63_896, 134.44, 235.26),  # microsoft/superbenchmark, tests/data
    ("all_reduce", 8, 1_048_576, 74.78, 14.02, 24.54),
    ("all_to_all", 8, 8_589_934_592, 33_508, 256.36, 224.31),
    ("all_to_all", 8, 33_554_432, 237.5, 141.30, 123.64),
    ("all_reduce", 8, 1_073_741_824, 4304.55, 249.45, 436.54),  # of rccl-tests
]


@pytest.mark.parametrize("row", PRINTED)
def test_bandwidth_is_what_nccl_tests_prints_for_the_same_time(
    row: tuple[str, int, int, float, float, float],
) -> None:
    """To the last digit that it prints."""
    collective, ranks, size, micros, alg, bus = row
    seconds = micros / 1e6
    assert rates.algbw(size, seconds) == pytest.approx(alg, rel=3e-4, abs=0.011)
    assert rates.busbw(collective, ranks, size, seconds) == pytest.approx(bus, rel=3e-4, abs=0.011)


@pytest.mark.parametrize(
    ("collective", "ranks", "factor"),
    [
        ("all_reduce", 2, 1.0),
        ("all_reduce", 8, 1.75),
        ("all_gather", 8, 0.875),
        ("reduce_scatter", 4, 0.75),
        ("all_to_all", 72, 71 / 72),
        ("broadcast", 8, 1.0),
        ("send_receive", 2, 1.0),
        ("all_reduce", 1, 0.0),
    ],
)
def test_factors_are_those_of_its_documentation(collective: str, ranks: int, factor: float) -> None:
    """doc/PERFORMANCE.md of nccl-tests: 2(n-1)/n, (n-1)/n and 1; a single rank has no bus."""
    assert rates.bus_factor(collective, ranks) == pytest.approx(factor)


def test_an_unknown_collective_has_no_factor() -> None:
    """Rather none than that of another."""
    with pytest.raises(KeyError):
        rates.bus_factor("all_of_it", 8)
    with pytest.raises(KeyError):
        rates.leaving("all_reduce", 100.0, 16, 8)


@pytest.mark.parametrize(
    ("collective", "bus", "ranks", "island", "each"),
    [
        ("all_to_all", 99.5, 72, 4, 95.30),  # 99.5 as printed are 95.3 on each card, in trays of four
        ("all_to_all", 58.2, 16, 4, 46.56),  # public runs of GB200 without MNNVL: 46.5 and 47.8 of 50
        ("all_gather", 191.3, 16, 4, 47.8),
        ("all_to_all", 79.1, 16, 8, 42.2),  # two nodes of 8 H100 on EFA
        ("all_gather", 338.6, 16, 8, 42.3),
        ("reduce_scatter", 400.0, 8, 8, 0.0),  # nothing leaves a single node
        ("all_to_all", 400.0, 8, 8, 0.0),
    ],
)
def test_what_leaves_a_node_is_counted_by_hand(
    collective: str, bus: float, ranks: int, island: int, each: float
) -> None:
    """Of an all-to-all what goes to ranks outside; of a ring what passes its one exit. Here for each card."""
    assert rates.leaving(collective, bus, ranks, island) / island == pytest.approx(each, abs=0.06)


@given(st.integers(2, 40), st.integers(2, 9), st.integers(1, 10**6))
def test_bytes_that_leave_are_those_that_an_all_to_all_sends_outside(
    islands: int, island: int, chunk: int
) -> None:
    """Counted one by one: each rank sends a chunk to each rank that is not of its island."""
    ranks, seconds = islands * island, 0.25
    sent = sum(chunk for _ in range(island) for _ in range(ranks - island))
    bus = rates.busbw("all_to_all", ranks, chunk * ranks, seconds)

    assert rates.leaving("all_to_all", bus, ranks, island) * seconds * 1e9 == pytest.approx(sent)


@given(st.integers(1, 40))
def test_in_rounds_each_meets_each_once(members: int) -> None:
    """Pairs of a round are disjoint, partners agree, and after all rounds nobody was left out."""
    met = []
    for partners in rates.rounds(members, 1000):
        assert all(one < 0 or partners[one] == me for me, one in enumerate(partners))
        assert all(one != me for me, one in enumerate(partners))
        met += [(me, one) for me, one in enumerate(partners) if one > me]
    assert sorted(met) == [(a, b) for a in range(members) for b in range(a + 1, members)]


def test_of_sixty_four_nodes_each_rank_meets_its_like_in_every_other() -> None:
    """In the rounds that the table of measurements asks for."""
    catalog = load_catalog(ROOT / "thresholds.toml", ROOT / "advisories.toml")
    for name in ("first_contact", "collectives", "scale_out"):
        most = int(catalog.measurements[name].args["rounds"])
        met = {other for kind, other in rates.meetings(3, 8, 64, most) if kind == "across"}
        assert met == {8 * node + 3 for node in range(1, 64)}


def test_rounds_can_be_bounded() -> None:
    """A thousand nodes need not all meet each other."""
    assert len(rates.rounds(1000, 16)) == 16


def test_sizes_end_with_the_largest() -> None:
    """Also where no power of the factor leads to it."""
    assert rates.sizes(8, 1 << 20, 64) == [8, 512, 32_768, 1_048_576]
    assert rates.sizes(8, 1000, 8) == [8, 64, 512, 1000]
    assert rates.sizes(8, 8, 8) == [8]


def test_groups_grow_by_doubling_up_to_all() -> None:
    """Each holds the one before; one node alone is no group."""
    assert rates.growing([3, 1, 2, 0, 4]) == [[3, 1], [3, 1, 2, 0], [3, 1, 2, 0, 4]]
    assert rates.growing([0, 1]) == [[0, 1]]
    assert rates.growing([0]) == []
