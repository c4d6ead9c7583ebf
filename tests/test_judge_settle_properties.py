"""Properties of settling, on fleets and observations of every kind."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.judge.bench import Bench
from gpuassay.judge.fact import Absence, Read, Unread
from gpuassay.judge.needs import Needs
from gpuassay.judge.observe import Observe
from gpuassay.judge.settle import CheckResult, settle
from gpuassay.judge.verdict import Verdict, worst
from judging import B200, CHECK, Node, Thing, gpu, pool, silent, site_of, table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

LIMITS = """
value = { is = 1 }
band = { warn_below = 2, fail_below = 1, fail_above = 9 }
equal = { same = true }
middle = { fail_below = 0.9, of = "pool.median" }
rated = { is_of = "subject.rated" }
figure = { platinum_below = 0.9, of = "accelerator.tflops" }
sold = { is_of = "contract.lanes" }
version = { at_least = "570", as = "dotted" }
maybe = { is = 1, provisional = true }
"""
METRICS = [line.partition(" ")[0] for line in LIMITS.strip().splitlines()]
POOLS = pool("n[1-2]", 'has = ["gpu"]', "gpus = 2", "contracted = 1", "lanes = 16") + pool("n[3-4]")
WAIVER = f'[[waiver]]\ncheck = "{CHECK}"\nwhere = "n1"\nuntil = 2026-12-31\nreason = "agreed"\n'
SITES = {
    (over, declared): site_of(
        table(LIMITS, over=over, needs=["gpu"], fault="component"), POOLS + WAIVER if declared else ""
    )
    for over, declared in product(("gpu", "node", "cluster"), (True, False))
}

unread = st.builds(Unread, st.sampled_from(get_args(Absence)), st.just("why"))
scalars = st.one_of(
    st.sampled_from([0, 1, 2, 16, True, "", "1", "575", "580.1", math.nan, math.inf, 10**400, -1e308]),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
)
things = st.one_of(
    scalars, st.none(), st.binary(max_size=2), st.builds(object), st.lists(st.integers(), max_size=1)
)
facts = st.one_of(scalars, unread, st.builds(Read, things), things)
names = st.sampled_from(["n1", "n2", "n3", "n4", "", "ghost"])
models = st.sampled_from(
    [B200, B200[::-1], B200[1:], (), ("1002:75a3",), ("NVIDIA B999",), ("NVIDIA B200", "1002:75a3")]
)
subjects = st.builds(
    lambda node, part, own, rated: Thing(f"{node}/gpu{part}", node, own, rated),
    names,
    st.integers(0, 2),
    models,
    facts,
)
observed = st.lists(
    st.tuples(subjects, st.dictionaries(st.sampled_from([*METRICS, "unknown"]), facts)), max_size=12
)
shown = st.fixed_dictionaries({}, optional={"gpu": st.one_of(st.booleans(), unread)})
counts = st.dictionaries(st.sampled_from(["bus", "driver"]), st.one_of(st.integers(0, 3), unread))
fleets = st.tuples(
    *(
        st.one_of(st.builds(Node, st.just(name), shown, counts), st.just(silent(name)))
        for name in ("n1", "n2", "n3")
    )
)
sites = st.sampled_from(sorted(SITES))


def settled(
    site_key: tuple[str, bool], nodes: Sequence[Node], seen: Sequence[tuple[Any, Any]]
) -> CheckResult:
    """Settle what was observed at one of the sites."""
    site = SITES[site_key]
    observe = Observe()
    for subject, metrics in seen:
        observe(subject, **metrics)
    return settle(Bench(site.catalog, site, nodes, Needs(site, nodes)), site.catalog.checks[CHECK], observe)


@given(sites, fleets, observed)
def test_settling_never_raises_and_its_numbers_add_up(
    site: tuple[str, bool], nodes: tuple[Node, ...], seen: list[tuple[Any, Any]]
) -> None:
    """Whatever a check observes of whatever fleet: there is a verdict, a reason, and honest counts."""
    found = settled(site, nodes, seen)
    judged = [row for row in found.rows if row.verdict in (Verdict.PASS, Verdict.WARN, Verdict.FAIL)]

    assert found.reason
    assert all(row.reason or row.verdict is Verdict.PASS for row in found.rows)
    assert 0 <= found.cells_judged <= found.cells_expected
    assert found.cells_judged == len(judged)
    assert not set(found.sick) & set(found.doubtful)
    if found.verdict is Verdict.PASS:
        assert {row.verdict for row in found.rows if not row.provisional} <= {Verdict.PASS, Verdict.SKIP}
        assert any(row.verdict is Verdict.PASS for row in found.rows)


@given(sites, fleets, observed, st.randoms(use_true_random=False))
def test_the_order_of_nodes_and_observations_decides_nothing(
    site: tuple[str, bool], nodes: tuple[Node, ...], seen: list[tuple[Any, Any]], random: Random
) -> None:
    """Verdict, rows, sick and doubtful nodes and all counts are the same in any order."""

    def gist(found: CheckResult) -> tuple[object, ...]:
        rows = sorted(repr((row.where, row.metric, row.verdict, row.reason, row.value)) for row in found.rows)
        counts = (found.cells_expected, found.cells_judged, found.caps_at_gold, found.warned)
        return (found.verdict, rows, counts, sorted(found.sick), found.doubtful, found.subjects_judged)

    # Identity stands for things whose text differs from one to the next.
    seen = [
        (subject, {name: fact for name, fact in own.items() if "object at" not in repr(fact)})
        for subject, own in seen
    ]
    seen = [(subject, own) for subject, own in seen if "object at" not in repr(subject)]
    mixed, others = list(seen), list(nodes)
    random.shuffle(mixed)
    random.shuffle(others)

    assert gist(settled(site, nodes, seen)) == gist(settled(site, others, mixed))


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), unread, st.data())
def test_nothing_gets_better_by_being_left_out(sizes: list[int], mute: Unread, data: st.DataObject) -> None:
    """Where a witness has counted the GPUs, to say less of any is an error, though another one is mute."""
    nodes = [Node(f"n{number}", counts={"bus": size, "driver": mute}) for number, size in enumerate(sizes, 1)]
    gpus = [gpu(node.name, index) for node, size in zip(nodes, sizes, strict=True) for index in range(size)]
    seen = [(one, {metric: data.draw(facts)}) for one in gpus for metric in METRICS]
    left_out = data.draw(st.integers(0, len(seen) - 1))
    part = settled(("gpu", False), nodes, seen[:left_out] + seen[left_out + 1 :])

    assert part.verdict in (Verdict.ERROR, Verdict.FAIL)
    assert part.cells_judged < part.cells_expected


verdicts = st.sampled_from(Verdict)


@given(verdicts, verdicts, verdicts)
def test_joining_verdicts_is_associative_commutative_and_idempotent(
    one: Verdict, two: Verdict, three: Verdict
) -> None:
    """Joins may be nested and repeated at will, so rows, checks and runs join alike."""
    assert worst([worst([one, two]), three]) is worst([one, worst([two, three])]) is worst([one, two, three])
    assert worst([one, two]) is worst([two, one])
    assert worst([one, one]) is one


def test_joining_nothing_is_an_error() -> None:
    """Nothing at all is never a pass, and the order of the verdicts is the one that is promised."""
    assert worst([]) is Verdict.ERROR
    assert [verdict.word for verdict in Verdict] == ["skip", "pass", "warn", "unseen", "error", "fail"]
    with pytest.raises(ValueError, match="6"):
        Verdict(6)
