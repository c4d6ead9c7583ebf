"""Limits on what must be unique, on the contract or else the product; checks that one profile asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.judge.config import ConfigError
from gpuassay.judge.verdict import Verdict
from judging import B200, Node, bench, gpu, judged, pool, table, values, words

if TYPE_CHECKING:
    from collections.abc import Sequence

NODES = [Node(f"n{number}") for number in range(1, 4)]
ELSE = 'value = { fail_below = 0.9, of = "contract.watts", else_of = "accelerator.tflops" }'


def seen(*places: tuple[str, int, Any]) -> Sequence[Any]:
    """Let GPUs, by node and index, show a value."""
    return [(gpu(node, index), {"value": value}) for node, index, value in places]


@pytest.mark.parametrize(
    ("to", "verdicts"),
    [("subject", ["fail", "fail", "fail", "pass"]), ("node", ["fail", "fail", "fail", "pass"])],
)
def test_what_is_on_two_nodes_is_unique_to_nobody(to: str, verdicts: list[str]) -> None:
    """All that share a value fail, on both nodes, and each says who else has it."""
    found = judged(
        bench(table(f'value = {{ unique_to = "{to}" }}'), *NODES[:2]),
        seen(("n1", 0, "a"), ("n1", 1, "a"), ("n2", 0, "a"), ("n2", 1, "b")),
    )
    assert words(found.rows) == verdicts
    assert found.rows[2].reason == "value is a, n1/gpu0, n1/gpu1 has it too"


def test_parts_of_one_board_may_share_what_is_the_nodes() -> None:
    """Unique to a node allows two on it; unique to a subject does not."""
    shared = seen(("n1", 0, "a"), ("n1", 1, "a"), ("n2", 0, "b"))
    by_node = bench(table('value = { unique_to = "node" }'), *NODES[:2])
    by_subject = bench(table('value = { unique_to = "subject" }'), *NODES[:2])

    assert judged(by_node, shared).verdict is Verdict.PASS
    assert words(judged(by_subject, shared).rows) == ["fail", "fail", "pass"]


def test_uniqueness_knows_no_pools_and_no_second_look() -> None:
    """Two pools are one cluster; a subject that is observed twice is not its own double."""
    pools = pool("n1", 'has = ["gpu"]') + pool("n2", 'has = ["gpu"]')
    on = bench(table('value = { unique_to = "subject" }'), *NODES[:2], pools=pools)

    assert words(judged(on, seen(("n1", 0, "a"), ("n2", 0, "a"))).rows) == ["fail", "fail"]
    assert judged(on, seen(("n1", 0, "a"), ("n1", 0, "a"), ("n2", 0, "b"))).verdict is Verdict.PASS


def test_the_contract_comes_first_and_the_product_where_it_says_nothing() -> None:
    """1000 is the product's; a pool that declares 700 is held to 700."""
    undeclared = bench(table(ELSE), *NODES[:1])
    declared = bench(table(ELSE), *NODES[:1], pools=pool("n1", 'has = ["gpu"]', "watts = 700"))

    assert judged(undeclared, values(NODES[:1], 800)).reason == (
        "n1/gpu0: value is 800, fails below 0.90 of 1000 (0.80)"
    )
    assert judged(declared, values(NODES[:1], 800)).verdict is Verdict.PASS
    assert judged(declared, values(NODES[:1], 600)).verdict is Verdict.FAIL


@pytest.mark.parametrize("limit", ["fail_below = 1", 'fail_below = 1, of = "subject.rated"', "is = 1"])
def test_else_of_stands_beside_the_contract_only(limit: str) -> None:
    """Anything else has no case in which it would be used."""
    with pytest.raises(ConfigError, match=r"value\.else_of: "):
        bench(table(f'value = {{ {limit}, else_of = "subject.rated" }}'), *NODES[:1])


def test_a_softened_limit_warns_also_without_a_majority() -> None:
    """Where nobody can say which value is the right one, a limit that only warns goes on to warn."""
    on = bench(table('value = { same = true, else = "warn" }'), *NODES[:2])

    assert words(judged(on, values(NODES[:2], "a", "b")).rows) == ["warn", "warn"]


def test_a_check_of_a_profile_is_skipped_under_another() -> None:
    """What only a rating asks for neither fails nor counts in an acceptance."""
    tables = table("value = { is = 1 }", profiles=["rating"])
    accepted = judged(bench(tables, *NODES[:1]), values(NODES[:1], 2))
    rated = judged(bench(tables, *NODES[:1], profile="rating"), values(NODES[:1], 2))

    assert (accepted.verdict, accepted.applicable) == (Verdict.SKIP, False)
    assert accepted.reason == "asked for by profile rating only"
    assert rated.verdict is Verdict.FAIL


def test_a_profile_that_is_not_there_is_a_mistake() -> None:
    """A check that no profile asks for would never be judged."""
    with pytest.raises(ConfigError, match=r"profiles: expected a list of at least 1, each one of rating"):
        bench(table("value = { is = 1 }", profiles=["ratng"]), *NODES[:1])


def test_the_product_that_was_sold_is_part_of_the_contract() -> None:
    """What a pool names as its accelerator can be compared with."""
    tables = table('value = { is_of = "contract.accelerator" }')
    on = bench(tables, *NODES[:1], pools=pool("n1", 'has = ["gpu"]', 'accelerator = "b200"'))

    assert judged(on, values(NODES[:1], "b200", models=B200)).verdict is Verdict.PASS
    assert judged(on, values(NODES[:1], "h200")).reason == (
        "n1/gpu0: value is h200, expected b200 (contract.accelerator)"
    )
