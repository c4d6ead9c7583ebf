"""The arithmetic of collectives, as nccl-tests defines it (its doc/PERFORMANCE.md), and who meets whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
TOLD_NICS_BY_RING = ("all_gather", "reduce_scatter")


def algbw(size: int, seconds: float) -> float:
    """Give the algorithm bandwidth in 10^9 bytes a second.

    ``size`` is what nccl-tests prints as size: of an all-reduce each rank's data; of the others that of all
    ranks together, which an all-gather gives each of them, and a reduce-scatter or all-to-all takes of each.
    """
    return size / seconds / 1e9


def bus_factor(collective: str, ranks: int) -> float:
    """Give what algbw is multiplied with, so that the result can be held to the speed of a link."""
    if collective in ("send_receive", "broadcast", "reduce"):
        return 1.0
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if collective in COLLECTIVES:
        return (ranks - 1) / ranks
    raise KeyError(collective)


def busbw(collective: str, ranks: int, size: int, seconds: float) -> float:
    """Give the bus bandwidth in 10^9 bytes a second; of one rank it is 0, for it has no bus."""
    return algbw(size, seconds) * bus_factor(collective, ranks)


def leaving(collective: str, bus: float, ranks: int, island: int) -> float:
    """Give the bytes a second (10^9) that leave an island of ``island`` ranks, inside of which is NVLink.

    Of an all-to-all each rank sends its share to every rank outside: ``bus * (n - k) / (n - 1)`` for each of
    the k. An all-gather or reduce-scatter goes round in one ring, which leaves an island once. How much an
    all-reduce sends is up to the algorithm that the library chose, and cannot be told from outside.
    """
    if collective == "all_to_all":
        return island * bus * (ranks - island) / (ranks - 1)
    if collective in TOLD_NICS_BY_RING:
        return bus if island < ranks else 0.0
    raise KeyError(collective)


def sizes(least: int, most: int, factor: int) -> list[int]:
    """List sizes from the least to the most, which is always among them."""
    found = []
    while least < most:
        found.append(least)
        least *= factor
    return [*found, most]


def rounds(members: int, most: int) -> list[list[int]]:
    """Let members meet in rounds of disjoint pairs: of each round, the partner of each, -1 for none.

    One stays, the others go round the table, so in ``members - 1`` rounds each has met each; at most
    ``most`` rounds.
    """
    seats: list[int] = [*range(members), *([-1] if members % 2 else [])]
    found = []
    for _ in range(min(most, len(seats) - 1)):
        partners = [-1] * members
        for one, other in zip(seats, reversed(seats), strict=True):
            if one >= 0:
                partners[one] = other
        found.append(partners)
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return found


def meetings(rank: int, of_node: int, nodes: int, most: int) -> list[tuple[str, int]]:
    """List whom a rank meets, round by round: partners of its own node, then its like in other nodes.

    In a round in which it meets nobody, the partner is -1.
    """
    group, local = divmod(rank, of_node)
    inside = [partners[local] for partners in rounds(of_node, most)]
    outside = [partners[group] for partners in rounds(nodes, most)]
    return [
        *(("within", group * of_node + one if one >= 0 else -1) for one in inside),
        *(("across", one * of_node + local if one >= 0 else -1) for one in outside),
    ]


def growing(ordered: Sequence[int]) -> list[list[int]]:
    """Give groups of the first 2, 4, 8 … of an order, and at last of all."""
    counts = [1 << power for power in range(1, 32) if 1 << power < len(ordered)]
    return [list(ordered[:count]) for count in (*counts, len(ordered))] if len(ordered) > 1 else []
