"""The points of a sweep by fio: which there are, what each gave, and where more in flight no longer helps."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.judge.fact import Fact, Scalar

AXES = ("pattern", "block", "depth", "jobs")
_MORE = 1.1  # what is gained less than a tenth by having more in flight is past the knee
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def points(args: Mapping[str, Scalar]) -> dict[str, Any]:
    """Make the sweep; what sequential speed is told from is repeated, apart from the others."""
    sweep = [
        dict(zip(AXES, point, strict=True)) for point in product(*(str(args[axis]).split() for axis in AXES))
    ]
    widest = [point for point in sweep if point["pattern"] in ("read", "write") and is_widest(point, args)]
    again = [
        {**point, "repeat": str(count)} for count in range(2, int(args["repeats"]) + 1) for point in widest
    ]
    return {"points": sweep + again, **{key: args[key] for key in ("size_mib", "seconds", "ramp")}}


def is_widest(point: Mapping[str, str], args: Mapping[str, Scalar]) -> bool:
    """Tell whether a point has the largest block, the deepest queue and most jobs."""
    return all(point[axis] == str(args[axis]).split()[-1] for axis in ("block", "depth", "jobs"))


@dataclass(frozen=True)
class Point:
    """One combination of block, depth, pattern and jobs in one mount."""

    node: str
    where: str
    models: tuple[str, ...]
    at: Mapping[str, str]
    gbps: Fact[float]
    iops: Fact[float]
    lesser: Sequence[Point] = field(default=(), repr=False)

    @property
    def best_lesser_gbps(self) -> Fact[float]:
        """The most that the same pattern gave with as much or less in flight, itself too."""
        rates = [one.gbps.value for one in (*self.lesser, self) if isinstance(one.gbps, Read)]
        return Read(max(rates)) if rates else Unread("failed", "nothing was measured")

    @property
    def in_flight(self) -> int:
        """How many operations are under way at once."""
        return int(self.at["depth"]) * int(self.at["jobs"])


@dataclass(frozen=True)
class Figure:
    """One figure of a mount beside others, and the coordinate that tells them apart."""

    at: Mapping[str, str]
    value: Fact[float]


def knee(line: Sequence[Point]) -> Fact[float]:
    """Find the least in flight that gives within a tenth of the most."""
    unread = next((one.gbps for one in line if isinstance(one.gbps, Unread)), None)
    if unread:
        return unread
    rates = [(one.in_flight, one.gbps) for one in line]
    best = max(fact.value for _, fact in rates if isinstance(fact, Read))
    enough = [(count, fact) for count, fact in rates if isinstance(fact, Read) and fact.value * _MORE >= best]
    count, fact = min(enough, key=lambda pair: pair[0])
    return Read(count, fact.evidence, f"{fact.value:.3g} GB/s, and at most {best:.3g}")


def fits(lesser: Mapping[str, str], at: Mapping[str, str]) -> bool:
    """Tell whether a point has as much or less in flight than another of its kind."""
    alike = all(lesser[axis] == at[axis] for axis in ("pattern", "block"))
    return alike and all(int(lesser[axis]) <= int(at[axis]) for axis in ("depth", "jobs"))


def size(block: str) -> int:
    """Read a block size as fio writes it."""
    return int(block[:-1]) * _UNITS[block[-1]] if block[-1] in _UNITS else int(block)
