"""The vocabulary: every verdict and tier that the judge can give has its word, mark, colour and place."""

from __future__ import annotations

from importlib.resources import files

import pytest

from gpuassay.judge.catalog import TIERS
from gpuassay.judge.verdict import Verdict
from gpuassay.report import view, words
from report_sample import check, earlier, results, row

TEMPLATES = files("gpuassay.report").joinpath("templates")


def test_every_verdict_has_a_word() -> None:
    """A verdict that the judge knows and a report does not would end a run without a report."""
    assert set(words.VERDICTS) == {verdict.word for verdict in Verdict} | {"not_run"}


def test_every_tier_and_state_can_be_struck() -> None:
    """The medallion has lines for each tier and for each state without one."""
    assert tuple(words.TIERS) == TIERS
    assert set(words.COIN) == set(words.TIERS) | set(words.STATES) - {"won"}


@pytest.mark.parametrize("verdict", words.VERDICTS)
def test_every_verdict_has_a_mark_and_a_colour(verdict: str) -> None:
    """The page draws a shape and defines a colour for each."""
    assert f'id="m-{verdict}"' in TEMPLATES.joinpath("macros.html.j2").read_text()
    assert f".{verdict} {{ --c: var(--{verdict});" in TEMPLATES.joinpath("report.css").read_text()


@pytest.mark.parametrize(
    ("begin", "end", "said"),
    [
        ("2026-11-30T09:00:00Z", "2026-11-30T09:00:42Z", "2026-11-30 09:00:00 to 09:00:42 UTC"),
        ("2026-11-30T23:59:00Z", "2026-12-01T00:01:00Z", "2026-11-30 23:59:00 to 2026-12-01 00:01:00 UTC"),
        (None, None, "at a time that was not recorded"),
    ],
)
def test_the_time_of_a_recording(begin: str | None, end: str | None, said: str) -> None:
    """A day is named once, and a hand-written recording without times does not break the page."""
    assert words.period(begin, end) == said


def test_an_earlier_recording_is_named_with_what_only_one_of_the_two_has() -> None:
    """Its digest, its time, its seal; nodes that are new, and nodes that have gone, folded."""
    plain = "efefefefefefefef of 2026-11-01 09:00:00 to 09:00:40 UTC, sealed"
    assert words.compared(earlier()) == plain
    other = earlier(new=["gpu005", "gpu006"], gone=["gpu001"])
    assert words.compared(other) == f"{plain}, not in it: gpu[005-006], in it alone: gpu001"


def test_pytest_shows_the_verdict_and_keeps_its_own_outcome() -> None:
    """Warn is a passed test, unseen a skipped one, error a failed one; the word says which it was."""
    shown = {verdict: words.status(verdict) for verdict in words.VERDICTS}
    assert {verdict: status[0] for verdict, status in shown.items()} == {
        **dict.fromkeys(("pass", "warn"), "passed"),
        **dict.fromkeys(("fail", "error"), "failed"),
        **dict.fromkeys(("skip", "unseen", "not_run"), "skipped"),
    }
    assert len({letter for _, letter, _ in shown.values()}) == len(shown)


def test_findings_come_worst_first_in_natural_order() -> None:
    """A reader sees fails before warnings, what the ribbon asks before what gold asks, gpu2 before gpu10."""
    document = results(
        {
            "audit.a.warned": check(row("gpu1", "warn")),
            "audit.a.for_gold": check(row("gpu1", "fail"), tier="gold"),
            "audit.a.for_ribbon": check(row("gpu10", "fail"), row("gpu2", "fail"), tier="ribbon"),
        }
    )
    found = view.with_verdict(document, words.FINDINGS)
    assert [check_id for check_id, _ in found] == ["audit.a.for_ribbon", "audit.a.for_gold", "audit.a.warned"]
    assert [each["where"] for each in view.offenders(found[0][1])] == ["gpu2", "gpu10"]


def test_metrics_that_one_cause_hid_are_one_row() -> None:
    """A log that may not be read hides many metrics, and is told once; values that were read stay apart."""
    hidden = [
        row("gpu1", "unseen", metric=metric, value=None, reason=f"{metric} denied: no right to read it")
        for metric in ("serious", "fatal")
    ]
    read = [row("gpu1", "warn", metric=metric, value=1, reason=f"{metric} is 1") for metric in ("a", "b")]
    listed = view.offenders(check(*hidden, *read))
    assert [each["reason"] for each in listed] == [
        "a is 1",
        "b is 1",
        "serious, fatal denied: no right to read it",
    ]


def test_silent_nodes_are_nodes_also_in_a_check_of_gpus() -> None:
    """A whole node that is missing is not counted as one GPU."""
    silent = row("gpu[1-2]", "error", 2, metric="", reason="silent: no route")
    assert view.row_text(check(silent), silent) == "gpu[1-2] (2 nodes): silent: no route"


def test_the_advice_fits_the_verdict() -> None:
    """Nobody is told to drain a node that was merely not seen."""
    assert view.advice(check(row("gpu1", "fail")))[0] == "Fix"
    label, text = view.advice(check(row("gpu1", "unseen"), seat="root"))
    assert label == "To judge it"
    assert "root" in text
