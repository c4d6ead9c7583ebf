"""Whatever the history: no second counts twice, cuts and order change nothing, less outage is not worse."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.sla.account import CLASSES, Line, node_line, rack_line, standing
from gpuassay.sla.clauses import clauses
from gpuassay.sla.judged import Contract, judge, together
from gpuassay.sla.moments import Month, months
from gpuassay.sla.outages import AGREED, STEPS, Actor, History, Outage, Pool, Proof, Window, joined
from gpuassay.sla.spans import ALWAYS, Spans, both, closed, lasting, minus, seconds, union
from gpuassay.sla.template import TEMPLATES, load

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuassay.sla.clauses import Told
    from gpuassay.sla.outages import State
    from gpuassay.sla.terms import Terms

    Unit = Callable[..., Line]

MONTH = Month("2025-11", (0, 30 * 86_400), whole=True)
TERMS = [load(name) for name in TEMPLATES]
NODES = [f"n{number}" for number in range(18)]
CONTRACT = Contract(tuple(NODES), {}, MONTH.span, ZoneInfo("UTC"))
ORDER = ("missed", "unknown", "met")

# Times of ten minutes or of whole hours, so that outages often touch, overlap and flap.
moments = st.one_of(
    st.integers(-60, 4380).map(lambda n: 600 * n), st.integers(0, 730).map(lambda n: 3600 * n)
)
spans = st.tuples(moments, st.sampled_from([60, 240, 300, 600, 1800, 7200, 90_000])).map(
    lambda pair: (pair[0], pair[0] + pair[1])
)
sets = st.lists(spans, max_size=6).map(union)
terms = st.sampled_from(TERMS)


@st.composite
def outages(draw: st.DrawFn, nodes: tuple[str, ...] = ("n0", "n1", "n2", "n3")) -> Outage:
    """Draw one outage; some have no end."""
    begin, end = draw(spans)
    until = None if draw(st.integers(0, 19)) == 0 else end
    state: State = draw(st.sampled_from(("down", "degraded")))
    actor = draw(st.sampled_from(list(Actor)))
    return Outage(draw(st.sampled_from(nodes)), state, begin, until, actor, "", "")


@st.composite
def windows(draw: st.DrawFn) -> Window:
    """Draw a window: agreed, announced so many days before (or after) it began, or nobody says when."""
    begin, end = draw(spans)
    told = draw(st.one_of(st.none(), st.just(AGREED), st.integers(-1, 20).map(lambda n: begin - n * 86_400)))
    nodes = draw(st.sampled_from([(), ("n0",), ("n1", "n2")]))
    return Window(begin, end, draw(st.booleans()), frozenset(nodes), told)


tests = st.builds(Proof, st.sampled_from(("n0", "n1", "n2")), moments, st.sampled_from(STEPS), st.just(""))
pools = st.builds(Pool, moments, st.integers(0, 4), st.just(""))
histories = st.builds(
    lambda found, agreed, known, tested, ready: History(
        tuple(found), tuple(agreed), throughout=known, tests=tuple(tested), pools=tuple(ready)
    ),
    st.lists(outages(), max_size=12),
    st.lists(windows(), max_size=4),
    st.one_of(sets, st.just((ALWAYS,))),
    st.lists(tests, max_size=6),
    st.lists(pools, max_size=6),
)


def node(history: History, terms: Terms, month: Month = MONTH) -> Line:
    """Account for the first node."""
    return node_line("n0", month, standing("n0", history, terms), terms)


def rack(history: History, terms: Terms, month: Month = MONTH) -> Line:
    """Account for a rack of all nodes."""
    told = [standing(name, history, terms) for name in NODES[:5]]
    return rack_line("r", month, [*told, *told[-1:] * 13], terms)  # of the others nothing is ever told


def held(history: History, terms: Terms) -> dict[str, tuple[str, tuple[Told, ...]]]:
    """Hold a history to the clauses beside availability: each with its outcome, and all that is told."""
    found = clauses(history, CONTRACT, terms)
    return {one.name: (together(kept for kept, _ in one.told), one.told) for one in found}


UNITS = pytest.mark.parametrize("unit", [node, rack])


@given(sets, sets, st.integers(0, 4000))
def test_sets_of_moments_are_sets(one: Spans, other: Spans, gap: int) -> None:
    """Union, intersection and difference agree in seconds, and closing gaps only adds."""
    assert seconds(union(one, other)) == seconds(one) + seconds(other) - seconds(both(one, other))
    assert seconds(minus(one, other)) == seconds(one) - seconds(both(one, other))
    assert not both(minus(one, other), other)
    assert not minus(one, closed(one, gap))
    assert not minus(lasting(one, gap), one)


@given(histories, terms)
def test_no_second_is_counted_twice(history: History, terms: Terms) -> None:
    """The classes of a node share no second and fit into the month; so do those of a rack."""
    found = standing("n0", history, terms)
    for number, one in enumerate(CLASSES):
        for other in CLASSES[number + 1 :]:
            assert not both(found.of[one], found.of[other])
    for line in (node(history, terms), rack(history, terms)):
        assert 0 <= sum(line.of.values()) <= line.length
        assert 0 <= line.worst <= line.best <= 1


@UNITS
@given(data=st.data(), history=histories, terms=terms)
def test_splitting_a_history_changes_nothing(
    unit: Unit, data: st.DataObject, history: History, terms: Terms
) -> None:
    """Outages cut into pieces, and a history given in two parts, come to the same."""
    pieces: list[Outage] = []
    for outage in history.outages:
        end = outage.begin + 90_000 if outage.until is None else outage.until
        cut = data.draw(st.integers(outage.begin, end))
        pieces += [replace(outage, until=cut), replace(outage, begin=cut)]
    half = data.draw(st.integers(0, len(pieces)))
    tested = data.draw(st.integers(0, len(history.tests)))
    parts = [
        replace(history, outages=tuple(pieces[:half]), tests=history.tests[:tested]),
        replace(history, outages=tuple(pieces[half:]), tests=history.tests[tested:]),
    ]
    assert unit(joined(parts), terms) == unit(history, terms)
    assert held(joined(parts), terms) == held(history, terms)


@given(data=st.data(), history=histories.filter(lambda one: one.pools), terms=terms)
def test_telling_of_the_same_spares_again_changes_nothing(
    data: st.DataObject, history: History, terms: Terms
) -> None:
    """A stretch with so many spares may be told of at its beginning, or at any moment within it too."""
    first = min(pool.at for pool in history.pools)
    at = data.draw(st.integers(first, first + 40 * 86_400))
    last = max(pool.at for pool in history.pools if pool.at <= at)
    healthy = min(pool.healthy for pool in history.pools if pool.at == last)
    again = replace(history, pools=(Pool(at, healthy, ""), *history.pools))
    assert held(again, terms) == held(history, terms)


@UNITS
@given(data=st.data(), history=histories, terms=terms)
def test_order_does_not_matter(unit: Unit, data: st.DataObject, history: History, terms: Terms) -> None:
    """Outages and windows come in any order, also twice."""
    mixed = data.draw(st.permutations([*history.outages, *history.outages]))
    agreed = data.draw(st.permutations(history.windows))
    again = data.draw(st.permutations([*history.tests, *history.tests]))
    ready = data.draw(st.permutations([*history.pools, *history.pools]))
    other = replace(
        history, outages=tuple(mixed), windows=tuple(agreed), tests=tuple(again), pools=tuple(ready)
    )
    assert unit(other, terms) == unit(history, terms)
    assert held(other, terms) == held(history, terms)


@UNITS
@given(data=st.data(), history=histories.filter(lambda one: one.outages), terms=terms)
def test_removing_an_outage_never_lowers_availability(
    unit: Unit, data: st.DataObject, history: History, terms: Terms
) -> None:
    """Whoever's it was: without it both the best and the worst availability are as high or higher."""
    gone = data.draw(st.integers(0, len(history.outages) - 1))
    # What an outage told is known of the rest, so that its removal makes no new time unknown.
    lost = history.outages[gone]
    known = {lost.node: union([(lost.begin, ALWAYS[1] if lost.until is None else lost.until)])}
    fewer = tuple(outage for number, outage in enumerate(history.outages) if number != gone)
    before, after = (
        unit(replace(history, outages=some, known=known), terms) for some in (history.outages, fewer)
    )
    assert after.best >= before.best
    assert after.worst >= before.worst


@UNITS
@given(history=histories, terms=terms, cut=st.integers(1, 30 * 86_400 - 1))
def test_two_parts_of_a_month_add_up(unit: Unit, history: History, terms: Terms, cut: int) -> None:
    """The seconds of each class in two parts of a month are those of the whole."""
    whole = unit(history, terms)
    parts = [unit(history, terms, Month("", span, whole=False)) for span in ((0, cut), (cut, MONTH.span[1]))]
    assert {name: sum(part.of[name] for part in parts) for name in CLASSES} == dict(whole.of)


@given(history=histories, terms=terms)
def test_an_agreed_window_never_lowers_availability(history: History, terms: Terms) -> None:
    """Time that was agreed to be out of service is not held against the provider, up to what is allowed."""
    without = replace(history, windows=())
    for unit in (node, rack):
        assert unit(history, terms).best >= unit(without, terms).best
        assert unit(history, terms).worst >= unit(without, terms).worst


@given(data=st.data(), history=histories.filter(lambda one: one.windows), terms=terms)
def test_an_earlier_announcement_is_never_worse(data: st.DataObject, history: History, terms: Terms) -> None:
    """Agreed is as good as early; where nobody says, it is as good at best, and as bad as late at worst."""
    number = data.draw(st.integers(0, len(history.windows) - 1))
    window = history.windows[number]
    early, late = window.begin - terms.maintenance.notice_s, window.begin - terms.maintenance.notice_s + 1

    def told(when: int | None) -> History:
        changed = replace(window, announced=when)
        return replace(history, windows=(*history.windows[:number], changed, *history.windows[number + 1 :]))

    for unit in (node, rack):
        agreed, kept, silent, missed = (unit(told(when), terms) for when in (AGREED, early, None, late))
        assert agreed == kept
        assert (kept.best, kept.worst) >= (silent.best, silent.worst)
        assert silent.best == kept.best
        assert silent.worst == missed.worst
    if not window.ours:
        found = [held(told(when), terms) for when in (AGREED, None, late)]
        outcomes = [one["notice"][0] if "notice" in one else "met" for one in found]  # not of these months
        assert sorted(outcomes, key=ORDER.index, reverse=True) == outcomes


@UNITS
@given(data=st.data(), history=histories.filter(lambda one: one.tests), terms=terms)
def test_a_test_that_is_passed_is_never_worse(
    unit: Unit, data: st.DataObject, history: History, terms: Terms
) -> None:
    """Passed instead of failed, and a swap or a fail less: both availabilities are as high or higher."""
    number = data.draw(st.integers(0, len(history.tests) - 1))
    test, before = history.tests[number], unit(history, terms)
    rest = (*history.tests[:number], *history.tests[number + 1 :])
    better = [replace(history, tests=(*rest, replace(test, step="passed")))]
    if test.step != "passed":
        better.append(replace(history, tests=rest))
    for after in (unit(one, terms) for one in better):
        assert after.best >= before.best
        assert after.worst >= before.worst


@given(data=st.data(), history=histories.filter(lambda one: one.pools), terms=terms)
def test_more_spares_are_never_worse(data: st.DataObject, history: History, terms: Terms) -> None:
    """One more of them, whenever it was: what was met stays met, and nothing new is missed."""
    number = data.draw(st.integers(0, len(history.pools) - 1))
    pool = replace(history.pools[number], healthy=history.pools[number].healthy + 1)
    more = replace(history, pools=(*history.pools[:number], pool, *history.pools[number + 1 :]))
    was, now = (held(one, terms)["spares"][0] for one in (history, more))
    assert ORDER.index(now) >= ORDER.index(was)


@given(history=histories, terms=terms)
def test_worse_terms_for_degraded_nodes_are_worse(history: History, terms: Terms) -> None:
    """A heavier weight of degraded time never raises an availability."""
    lines = [
        node(history, replace(terms, down=replace(terms.down, degraded_counts=Fraction(weight, 4))))
        for weight in range(5)
    ]
    assert [line.best for line in lines] == sorted((line.best for line in lines), reverse=True)


@given(histories, terms)
def test_unknown_time_is_never_met(history: History, terms: Terms) -> None:
    """Of a history that says nothing, nothing is met, and nothing is owed for certain."""
    blind = History(windows=tuple(window for window in history.windows if window.nodes))
    contract = Contract(("n5",), {}, MONTH.span, ZoneInfo("UTC"))
    (found,) = judge(contract, blind, terms)
    assert (found.outcome, found.least) == ("unknown", 0)
    assert found.line.unknown == found.line.length
    assert found.most == max(band.percent for band in terms.credits.node)


@given(
    st.integers(0, 2**32),
    st.integers(1, 10**8),
    st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"]),
)
def test_months_are_a_partition(begin: int, length: int, zone: str) -> None:
    """Months of any zone follow one another without a gap or an overlap, and cover the time."""
    found = [month.span for month in months((begin, begin + length), ZoneInfo(zone))]
    assert union(found) == ((begin, begin + length),)
    assert sum(end - start for start, end in found) == length
