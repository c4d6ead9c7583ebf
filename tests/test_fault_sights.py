"""The stopwatch: what it reads depends on what was seen and when, and never on the order of the evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.facts.fault_sights import (
    OURS,
    TENANT,
    Injected,
    Sight,
    detected,
    first,
    isolated,
    notified,
    restored,
    returned,
    taken_out,
)

BROKEN = Injected(10.0, 10.0)
QUESTIONS = (detected, taken_out, isolated, notified)


def sight(at_s: float, source: str = "node", **told: object) -> Sight:
    """Give a sight of a moment."""
    plain = Sight(at_s, max(0.0, at_s - 1), source, "seen", f"#{at_s}")
    return replace(plain, **told)  # type: ignore[arg-type]


@st.composite
def stories(draw: st.DrawFn) -> list[Sight]:
    """Give sights of some sources, each at a moment of its own."""
    moments = draw(st.lists(st.integers(0, 60), unique=True, max_size=12))
    return [
        sight(
            float(at),
            draw(st.sampled_from(["node", "canary", "fleet"])),
            out=draw(st.sampled_from([None, True, False])),
            lets_in=draw(st.sampled_from([None, True, False])),
            notified=draw(st.sampled_from([None, True, False])),
            in_service=draw(st.sampled_from([None, frozenset({"a"}), frozenset({"a", "b"})])),
            by=draw(st.sampled_from(["", "healthd", OURS, TENANT])),
        )
        for at in moments
    ]


@given(stories(), st.randoms())
def test_order_does_not_matter(told: list[Sight], chance: st.Random) -> None:  # type: ignore[name-defined]
    """The same sights in any order give the same times."""
    other = list(told)
    chance.shuffle(other)
    for is_it in QUESTIONS:
        assert first(told, BROKEN, is_it) == first(other, BROKEN, is_it)
    assert returned(told, BROKEN) == returned(other, BROKEN)
    assert restored(told, BROKEN) == restored(other, BROKEN)


@given(stories(), stories())
def test_more_sights_never_take_a_time_back(told: list[Sight], more: list[Sight]) -> None:
    """What was found once stays found, at the same time, whatever is seen later."""
    last = max((one.at_s for one in told), default=0.0)
    later = [replace(one, at_s=one.at_s + last + 1, since_s=one.since_s + last + 1) for one in more]
    for is_it in QUESTIONS:
        found = first(told, BROKEN, is_it)
        assert found is None or first([*told, *later], BROKEN, is_it) == found


@given(stories())
def test_no_time_is_before_the_fault(told: list[Sight]) -> None:
    """Times begin at the fault, and each lies between the look before and the look that saw it."""
    for is_it in QUESTIONS:
        found = first(told, BROKEN, is_it)
        assert found is None or 0 <= found.since_s <= found.s


@pytest.mark.parametrize("by", [OURS, TENANT])
def test_what_we_and_the_tenant_do_is_no_detection(by: str) -> None:
    """A drain of our own, or of who started us, is none of the provider's."""
    told = [sight(5, out=False), sight(12, out=True, by=by)]
    assert first(told, BROKEN, detected) is None
    assert first(told, BROKEN, taken_out) is None
    told.append(sight(20, out=True, by="healthd"))
    found = first(told, BROKEN, taken_out)
    assert found is not None
    assert found.s == 10


def test_an_alert_that_was_there_before_is_no_news() -> None:
    """Only one that is new, or says something else, is a message about the fault."""
    old = sight(5, "alerts", notified=True)
    assert first([old, sight(12, "alerts", notified=True)], BROKEN, notified) is None
    assert first([old, sight(12, "alerts", notified=True, words="another")], BROKEN, notified) is not None


@pytest.mark.parametrize(
    ("told", "other"),
    [({"booted_s": 1002.0}, False), ({"booted_s": 1100.0}, True), ({"identity": "i-2"}, True), ({}, False)],
)
def test_another_machine_is_told_by_boot_or_identity(told: dict[str, Any], other: bool) -> None:  # noqa: FBT001
    """A boot time jitters by a second or two; a boot, or another name of the machine, is a change."""
    before: dict[str, Any] = {"identity": "i-1", "booted_s": 1000.0}
    seen = [sight(5, out=False, **before), sight(12, out=True, by="x"), sight(30, out=False, **before | told)]
    found = returned(seen, BROKEN)
    assert found is not None
    assert (found.other, found.moment.s) == (other, 20)


def test_a_spare_is_a_node_that_was_not_there() -> None:
    """It counts only once the broken node is out, and makes the capacity whole."""
    fleet = [sight(5, "fleet", in_service=frozenset("ab")), sight(14, "fleet", in_service=frozenset("b"))]
    spare = sight(40, "fleet", in_service=frozenset("bc"))
    assert returned([*fleet, spare], BROKEN) is None
    found = returned([*fleet, sight(12, out=True, by="x"), spare], BROKEN)
    assert found is not None
    assert (found.node, found.other) == ("c", True)
    whole = restored([*fleet, spare], BROKEN)
    assert whole is not None
    assert whole.s == 30


def test_a_node_whose_gpus_are_not_all_there_does_not_serve_yet() -> None:
    """One that is let in before its device plugin answers has come back only when that has."""
    gone = sight(12, out=True, by="x")
    bare, whole = (sight(at, out=False, whole=all_there) for at, all_there in ((20, False), (25, True)))
    assert returned([sight(5, out=False), gone, bare], BROKEN) is None
    found = returned([sight(5, out=False), gone, bare, whole], BROKEN)
    assert found is not None
    assert found.moment.s == 15
