"""Which objects are moved between nodes and a store: their sizes, how many, how often, and the sum of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.judge.fact import Scalar

_KIB, _MIB = 1 << 10, 1 << 20
_TINY_STREAMS = 4


@dataclass(frozen=True)
class Case:
    """Objects of one size on each node, of ``parts`` parts, which are moved ``passes`` times in a round."""

    size: int
    objects: int
    passes: int = 1
    parts: int = 1

    @property
    def name(self) -> str:
        """Say their size."""
        return f"{self.size // _MIB} MiB" if self.size >= _MIB else f"{self.size // _KIB} KiB"

    @property
    def piece(self) -> int:
        """The bytes of one request."""
        return self.size // self.parts

    @property
    def requests(self) -> int:
        """How many requests move them once in one direction."""
        return self.objects * self.parts * self.passes

    @property
    def bytes(self) -> int:
        """How many bytes that is."""
        return self.requests * self.piece


def streams(args: Mapping[str, Scalar], *, tiny: bool) -> int:
    """Say how many streams each node has: few where there is no accelerator, for what is only shown."""
    return min(_TINY_STREAMS, int(args["streams"])) if tiny else int(args["streams"])


def cases(args: Mapping[str, Scalar], *, tiny: bool) -> list[Case]:
    """List the cases: small objects for the time that one takes, larger ones, and large ones in parts."""
    each = streams(args, tiny=tiny)
    small, middle = (1, 1) if tiny else (int(args["small_passes"]), int(args["middle_passes"]))
    return [
        Case(int(args["small"]), each, small),
        Case(int(args["middle"]), each, middle),
        Case(
            int(args["part"]) * int(args["parts"]),
            1 if tiny else int(args["large_objects"]),
            1,
            int(args["parts"]),
        ),
    ]


def cost(args: Mapping[str, Scalar], nodes: int, *, tiny: bool = False) -> str:
    """Say what is moved: bytes and requests may be charged for."""
    found, rounds = cases(args, tiny=tiny), int(args["repeats"])
    moved = rounds * sum(case.bytes for case in found) / 1e9
    requests = 2 * rounds * sum(case.requests for case in found)
    each = f"{moved:.3g} GB to the store and {moved:.3g} GB back, in some {requests} requests, on each node"
    return f"{each}; {moved * nodes:.3g} GB either way on {nodes} nodes" if nodes else each
