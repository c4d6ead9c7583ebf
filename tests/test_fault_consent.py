"""Consent: each thing that is missing is named, and nothing else ever lets a fault be injected."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gpuassay.fault.consent import Consent, RefusedError, refuse_own, refuse_unless

NOW = datetime(2026, 11, 30, 22, tzinfo=UTC)
WHOLE = Consent(("n1", "n2"), "CHG-1", NOW - timedelta(hours=1), NOW + timedelta(hours=1))
SOME_S = 600.0


def refusal(consent: Consent, node: str = "n1", seconds: float = SOME_S) -> str:
    """Give the words of a refusal."""
    with pytest.raises(RefusedError) as refused:
        refuse_unless(consent, node, NOW, seconds, ("n1", "n3"))
    return str(refused.value)


def test_all_that_was_agreed_is_enough() -> None:
    """With nodes, ticket and a window that is open long enough nothing is refused."""
    refuse_unless(WHOLE, "n1", NOW, SOME_S, ("n1", "n3"))


def test_nothing_agreed_names_everything() -> None:
    """Who has said nothing is told of every option at once."""
    said = refusal(Consent())
    assert all(option in said for option in ("--break-nodes", "--ticket", "--window"))


@pytest.mark.parametrize("ticket", ["", "  "])
def test_a_ticket_is_needed(ticket: str) -> None:
    """Blanks are no ticket."""
    assert "no ticket is named" in refusal(Consent(WHOLE.nodes, ticket, WHOLE.begin, WHOLE.end))


@pytest.mark.parametrize("hours", [(1, 2), (-2, -1), (-1, 0)])
def test_only_inside_the_window(hours: tuple[int, int]) -> None:
    """Before it opens, after it has closed, and at the very moment of its end."""
    begin, end = (NOW + timedelta(hours=one) for one in hours)
    assert "is outside the window" in refusal(Consent(WHOLE.nodes, WHOLE.ticket, begin, end))


def test_the_window_has_to_stay_open_until_all_is_mended() -> None:
    """What may take longer than the window is left is not begun."""
    assert "the window closes in 3600 s" in refusal(WHOLE, seconds=3601)


@pytest.mark.parametrize(("node", "why"), [("n2", "no compute node"), ("n3", "not among the nodes")])
def test_only_named_nodes_of_the_cluster(node: str, why: str) -> None:
    """A node that was named and is none of the cluster's, and one of the cluster's that was not named."""
    assert why in refusal(WHOLE, node)


def test_the_machine_that_this_runs_on_is_never_broken() -> None:
    """Its boot tells it, whatever name it goes by."""
    refuse_own("n1", {"boot": "other"}, "own")
    with pytest.raises(RefusedError, match="the machine that this runs on"):
        refuse_own("n1", {"boot": "own"}, "own")
