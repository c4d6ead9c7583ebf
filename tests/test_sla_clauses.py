"""The clauses beside availability, as ``gpuassay sla check`` tells them: notice, tests of swaps, spares."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.cli import main
from test_sla_cli import SPAN, check, line

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["check"]  # a fixture, which pytest finds here by its name


@pytest.mark.parametrize(
    ("told", "counted", "unknown", "kept"),
    [
        ("2025-10-29T00:00Z/", "3600", "0", "met"),
        ("2025-10-29T00:01Z/", "18000", "0", "missed"),
        ("2025-11-12T03:00Z/", "18000", "0", "missed"),
        ("", "3600", "14400", "unknown"),
        ("agreed/", "3600", "0", "met"),
    ],
)
def test_maintenance_is_announced_in_time(
    check: Any, told: str, counted: str, unknown: str, kept: str
) -> None:
    """Gold wants 14 days: a minute later it excuses nothing, and where nobody says when, that is unknown."""
    window = f"--maintenance={told}2025-11-12T00:00Z/2025-11-12T05:00Z"
    found = check(line("n1", "12T00:00", "12T05:00"), options=("--nodes=n1", window))
    assert (found["n1"]["counted_s"], found["n1"]["unknown_s"]) == (counted, unknown)
    clause = found.document["clauses"][0]
    assert (clause["clause"], clause["promised"], clause["outcome"]) == (
        "notice",
        "announced 14 d 00:00:00 before it begins",
        kept,
    )


def event(what: str, at: str, **more: object) -> str:
    """Write an event by hand; the time is of November 2025."""
    return json.dumps({"event": what, "at": f"2025-11-{at}:00Z", **more})


@pytest.mark.parametrize(
    ("tests", "down", "kept"),
    [
        ([("13T00:00", True)], 14, "met"),
        ([("12T12:00", False), ("12T15:00", True)], 5, "met"),
        ([("13T12:00", True)], 26, "missed"),
        ([], 18 * 24 + 14, "missed"),
    ],
)
def test_a_swapped_node_is_down_until_it_has_passed(
    check: Any, tests: list[tuple[str, bool]], down: int, kept: str
) -> None:
    """From the swap to the test that it passes, however many it fails; gold gives a day for the first."""
    told = [event("tested", at, node="n1", passed=passed) for at, passed in tests]
    found = check(line("n1", "12T10:00", "12T11:00"), event("swapped", "12T11:00", node="n1"), *told)
    assert found["n1"]["by"]["down"] == down * 3600
    (clause,) = [one for one in found.document["clauses"] if one["clause"] == "retest"]
    assert clause["outcome"] == kept


def test_a_node_that_fails_its_test_is_down_without_a_swap(check: Any) -> None:
    """Section 1: while it fails the acceptance test; what others say of the time is no matter."""
    lines = (
        event("tested", "12T10:00", node="n1", passed=False),
        event("tested", "12T12:00", node="n1", passed=True),
    )
    assert check(line("n2", "01T00:00", None), *lines)["n1"]["by"]["down"] == 7200


@pytest.mark.parametrize(
    ("levels", "kept", "why"),
    [
        ([("01T00:00", 2)], "met", "never fewer for longer"),
        ([("01T00:00", 2), ("10T00:00", 1), ("13T00:00", 2)], "met", "never fewer for longer"),
        (
            [("01T00:00", 2), ("10T00:00", 1), ("13T01:00", 2)],
            "missed",
            "fewer for 01:00:00 beyond that time",
        ),
        ([("02T00:00", 2)], "unknown", "for 1 d 00:00:00 nobody says how many there were"),
        ([], "unknown", "no history tells of spares"),
    ],
)
def test_the_pool_of_spares(check: Any, levels: list[tuple[str, int]], kept: str, why: str) -> None:
    """Ten percent of eleven nodes are two; one that was used is made good within three days."""
    lines = [event("spares", at, healthy=healthy) for at, healthy in levels]
    found = check(line("n1", "12T00:00", "12T00:01"), *lines, options=("--nodes=n[1-11]",))
    (clause,) = [one for one in found.document["clauses"] if one["clause"] == "spares"]
    assert (clause["promised"], clause["outcome"]) == (
        "2 healthy, used ones made good within 3 d 00:00:00",
        kept,
    )
    assert clause["why"].startswith(why)
    assert found.document["outcome"] == (kept if levels else "met")
    assert found.status == (kept == "missed")


def test_a_file_of_events_alone_knows_of_no_outages(check: Any) -> None:
    """It may be kept beside Slurm's accounting: that nodes were in order it does not say."""
    found = check(event("spares", "01T00:00", healthy=2))
    assert (found["n1"]["outcome"], found.document["outcome"]) == ("unknown", "unknown")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"event": "bought", "at": "2025-11-12"}', "event: expected one of swapped, tested, spares"),
        (
            '{"event": "swapped", "at": "2025-11-12"}',
            "expected an event swapped with the keys at, event, node",
        ),
        ('{"event": "spares", "at": "2025-11-12", "healthy": -1}', "healthy: expected a whole number"),
        ('{"event": "spares", "at": "2025-11-12", "healthy": true}', "healthy: expected a whole number"),
        (
            '{"event": "tested", "at": "2025-11-12", "node": "n1", "passed": 1}',
            "passed: expected true or false",
        ),
        ('{"event": "swapped", "at": "soon", "node": "n1"}', "at: 'soon' is no time"),
    ],
)
def test_a_mistake_in_an_event_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, why: str
) -> None:
    """With its file and line, and exit status 2."""
    events = tmp_path / "events.jsonl"
    events.write_text(text)
    assert main(["sla", "check", str(events), "--sla=gold", *SPAN, "--nodes=n1"]) == 2
    assert f"{events}:1: {why}" in capsys.readouterr().err
