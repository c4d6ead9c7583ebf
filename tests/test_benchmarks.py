"""What is measured about ourselves: an interval that means what it says, and pages of one command."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interleaved import LEAST_ROUNDS, Compared, compare, in_turn

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.parametrize(
    ("overhead", "status"),
    [pytest.param(1.0, 0, id="none"), pytest.param(1.004, 0, id="small"), pytest.param(1.02, 1, id="large")],
)
def test_an_overhead_is_told_from_a_machine_that_changes_its_speed(overhead: float, status: int) -> None:
    """Rounds differ by half, and both ways of one by three percent: the interval has the ratio in it."""
    noise = random.Random(1)  # noqa: S311 - the same each time
    pairs = []
    for _ in range(1000):
        speed = noise.uniform(1.0, 1.5)
        pairs.append((overhead * speed * noise.gauss(1, 0.03), speed * noise.gauss(1, 0.03)))
    found = compare(pairs)
    assert found.low <= overhead <= found.high
    assert found.against(0.0, 1.01) == status, found


@given(st.lists(st.tuples(st.floats(1e-6, 1e3), st.floats(1e-6, 1e3)), min_size=LEAST_ROUNDS, max_size=12))
def test_an_interval_has_its_ratio_in_it_and_keeps_its_unit(pairs: list[tuple[float, float]]) -> None:
    """Whatever the figures; and the ways taken the other way round give one over the ratio."""
    found = compare(pairs)
    assert found.low <= found.high
    assert found.low <= found.ratio * (1 + 1e-9)
    assert found.ratio <= found.high * (1 + 1e-9)
    assert compare([(2 * one, 2 * other) for one, other in pairs]).ratio == pytest.approx(found.ratio)
    other_way = compare([(other, one) for one, other in pairs])
    assert (other_way.ratio, other_way.low) == pytest.approx((1 / found.ratio, 1 / found.high))


def test_the_interval_has_the_median_in_it_as_often_as_it_says() -> None:
    """By the chances of a coin: for 20 values the 6th and the 15th, for 100 the 40th and the 61st."""
    spans = {count: compare([(float(one), 1.0) for one in range(1, count + 1)]) for count in (6, 20, 100)}
    found = {count: (round(one.low), round(one.high)) for count, one in spans.items()}
    assert found == {6: (1, 6), 20: (6, 15), 100: (40, 61)}


def test_an_interval_across_the_bound_proves_neither() -> None:
    """A noisy machine leaves it undecided: that is no success."""
    assert Compared(1.0, 0.95, 1.05, 20).against(0.0, 1.01) == 2
    assert Compared(0.97, 0.96, 0.975, 20).against(0.98, 1.02) == 1


def test_too_few_rounds_tell_nothing() -> None:
    """An interval of two rounds would be no more than both of them."""
    with pytest.raises(ValueError, match="2 rounds tell no interval"):
        compare([(1.0, 1.0), (1.0, 1.1)])


def test_ways_take_turns_in_being_first() -> None:
    """So that what the first of a round finds, a cold cache or a clock that was idle, is either's share."""
    order: list[str] = []

    def way(name: str, seconds: float) -> float:
        order.append(name)
        return seconds

    assert in_turn(lambda: way("a", 1.0), lambda: way("b", 2.0), 4) == [(1.0, 2.0)] * 4
    assert "".join(order) == "abbaabba"


def run(name: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a benchmark as a person does."""
    argv = [sys.executable, str(BENCHMARKS / name), *options]
    return subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)


def test_the_overhead_of_the_harness_is_one_command() -> None:
    """Tiny: it says the kernel, the ratio with its interval, that the kernel is too short, and ends by it."""
    pytest.importorskip("torch")
    done = run("harness.py", "--rounds", "6", "--seconds", "0.01", "--side", "64")
    assert done.returncode in (0, 1, 2), done.stderr
    assert "harness over bare loop" in done.stdout
    assert "over 6 rounds" in done.stdout
    assert "shorter than 5 ms" in done.stdout


def test_the_page_of_a_gpu_is_one_command() -> None:
    """On a processor, tiny: products, copies and the harness, each with both figures and an interval."""
    pytest.importorskip("torch")
    done = run("methods.py", "--rounds", "6", "--seconds", "0.02", "--warm", "0.01", "--format", "float32")
    assert done.returncode in (0, 1, 2), done.stderr
    assert "shows only that it works" in done.stdout
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ") and "rounds" in line]
    assert [row.split(" beside ")[0].lstrip("| ").split()[0] for row in rows] == [
        "float32",
        "copy",
        "harness",
    ]
