"""Values of collectives: exact, told apart by rank and place, and wrong ones are counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.measure.work import exchange

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")


def carried_out(collective: str, ranks: int, chunk: int) -> list[object]:
    """Give what each rank must get, by carrying the collective out on one list of tensors."""
    total = chunk if collective == "all_gather" else chunk * ranks
    given_ = [
        exchange.Pattern(ranks, rank, chunk).given(collective, torch.arange(total)) for rank in range(ranks)
    ]
    whole = torch.stack(given_).float()
    if collective == "all_reduce":
        return [whole.sum(0)] * ranks
    if collective == "reduce_scatter":
        return list(whole.sum(0).split(chunk))
    if collective == "all_gather":
        return [whole.flatten()] * ranks
    return [torch.cat([one.split(chunk)[rank] for one in whole]) for rank in range(ranks)]


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
@given(ranks=st.integers(1, 9), chunk=st.integers(1, 1500))
def test_what_is_expected_is_what_comes_out(collective: str, ranks: int, chunk: int) -> None:
    """For any number of ranks and any chunk: carried out by hand, element by element."""
    for rank, result in enumerate(carried_out(collective, ranks, chunk)):
        expected = exchange.Pattern(ranks, rank, chunk).expected(collective, torch.arange(len(result)))  # type: ignore[arg-type]
        assert torch.equal(result, expected)


@given(st.integers(1, 2000))
def test_sums_stay_exact(ranks: int) -> None:
    """The largest value that a sum can reach is a whole number that float32 holds."""
    largest = exchange.period(ranks) * sum(map(exchange.weight, range(ranks)))
    assert largest < 1 << 24


@pytest.mark.parametrize("collective", ["all_gather", "all_to_all"])
def test_chunks_that_are_exchanged_show(collective: str) -> None:
    """Two neighbours' chunks in each other's place are wrong in nearly every element."""
    ranks, chunk = 4, 1000
    expected = exchange.Pattern(ranks, 0, chunk).expected(collective, torch.arange(ranks * chunk))
    one, other, *rest = expected.split(chunk)
    assert int((torch.cat([other, one, *rest]) != expected).sum()) > 1900
