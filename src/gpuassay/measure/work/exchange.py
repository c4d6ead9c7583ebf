"""One collective on one group: its buffers, the call, and whether every element came out as it must.

Values are small whole numbers, which float32 adds without rounding, and differ by rank and place: what is
lost, doubled or put elsewhere shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ELEMENT = 4
_SLICE = 1 << 24
_EXACT = 1 << 24  # whole numbers up to here are exact in float32
_PERIODS = (1021, 127, 1)  # primes: no power of two, as the sizes of chunks are, comes back to its place
_WEIGHTS = 8
_TO = 2048


@dataclass(frozen=True)
class Exchange:
    """A collective made ready. ``call`` does it; ``check`` does it with new values and counts wrong ones."""

    bytes: int
    call: Callable[[], None]
    check: Callable[[], int]


def weight(rank: int) -> int:
    """Give what the values of a rank are multiplied with."""
    return 1 + rank % _WEIGHTS


def period(ranks: int) -> int:
    """Choose after how many elements values come again, so that their sums stay exact."""
    total = sum(map(weight, range(ranks)))
    return next(one for one in _PERIODS if one * total < _EXACT)


def prepare(collective: str, size: int, place: str) -> Exchange:
    """Make a collective of ``size`` bytes ready, as nccl-tests counts them, rounded to whole chunks."""
    import torch  # noqa: PLC0415 - torch is loaded only where it runs
    import torch.distributed as dist  # noqa: PLC0415

    ranks, rank = dist.get_world_size(), dist.get_rank()
    chunk = max(1, size // ELEMENT // ranks)
    total = max(1, size // ELEMENT) if collective == "all_reduce" else chunk * ranks
    given = torch.empty(chunk if collective == "all_gather" else total, device=place)
    taken = {"all_reduce": given, "reduce_scatter": given[:0].new_empty(chunk)}.get(collective)
    result = torch.empty(total, device=place) if taken is None else taken
    calls = {
        "all_reduce": lambda: dist.all_reduce(given),
        "all_gather": lambda: dist.all_gather_into_tensor(result, given),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(result, given),
        "all_to_all": lambda: dist.all_to_all_single(result, given),
    }
    pattern = Pattern(ranks, rank, chunk)

    def check() -> int:
        result.fill_(float("nan"))
        for part, first, last in _slices(given.numel()):
            given[part] = pattern.given(collective, _range(first, last, place))
        calls[collective]()
        wrong = 0
        for part, first, last in _slices(result.numel()):
            expected = pattern.expected(collective, _range(first, last, place))
            wrong += int((result[part] != expected).sum())  # NaN, which was never written, differs too
        return wrong

    return Exchange(total * ELEMENT, calls[collective], check)


class Pattern:
    """What each element of each rank is, by its index in the whole tensor."""

    def __init__(self, ranks: int, rank: int, chunk: int) -> None:
        self.rank, self.chunk = rank, chunk
        self.period, self.total = period(ranks), sum(map(weight, range(ranks)))

    def given(self, collective: str, index: Any) -> Any:
        """Give the elements that this rank puts in."""
        if collective in ("all_reduce", "reduce_scatter"):
            return self._base(index) * weight(self.rank)
        own = self._base(index % self.chunk) * weight(self.rank) + self.rank % self.period
        to = index // self.chunk % self.period if collective == "all_to_all" else 0
        return own + _TO * to

    def expected(self, collective: str, index: Any) -> Any:
        """Give the elements that this rank must get."""
        if collective == "all_reduce":
            return (self._base(index) * self.total).float()
        if collective == "reduce_scatter":
            return (self._base(index + self.rank * self.chunk) * self.total).float()
        sender = index // self.chunk
        own = self._base(index % self.chunk) * (1 + sender % _WEIGHTS) + sender % self.period
        to = self.rank % self.period if collective == "all_to_all" else 0
        return (own + _TO * to).float()

    def _base(self, index: Any) -> Any:
        return 1 + index % self.period


def _slices(elements: int) -> Iterator[tuple[slice, int, int]]:
    for first in range(0, elements, _SLICE):
        last = min(elements, first + _SLICE)
        yield slice(first, last), first, last


def _range(first: int, last: int, place: str) -> Any:
    import torch  # noqa: PLC0415

    return torch.arange(first, last, device=place)
