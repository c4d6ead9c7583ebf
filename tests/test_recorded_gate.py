"""The gate stops a check that cannot fail, one that cannot pass, and one that passes on nothing."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

GATE = runpy.run_path(str(Path(__file__).parents[1] / ".ci" / "gate.py"))

SOUND = {
    "healthy": {"audit.a.one": "pass", "audit.a.two": "pass"},
    "faulty": {"audit.a.one": "fail", "audit.a.two": "fail"},
    "dark": {"audit.a.one": "error", "audit.a.two": "unseen"},
}


def lacks(changes: dict[str, dict[str, str]], nothing: tuple[str, ...] = ("dark",)) -> list[str]:
    """Return what the gate says of sound verdicts after some changes."""
    verdicts = {name: found | changes.get(name, {}) for name, found in SOUND.items()}
    return list(GATE["lacks"](["audit.a.one", "audit.a.two"], verdicts, nothing))


def test_sound_checks_pass_the_gate() -> None:
    """A check that fails where it should, passes where it should, and errs on nothing is let through."""
    assert lacks({}) == []


@pytest.mark.parametrize(
    ("cluster", "verdict", "says"),
    [
        ("faulty", "warn", "audit.a.one: no recorded cluster on which it fails"),
        ("healthy", "skip", "audit.a.one: no recorded cluster on which it passes"),
        ("dark", "pass", "audit.a.one: passes on dark, which shows nothing"),
        ("dark", "warn", "audit.a.one: passes on dark, which shows nothing"),
    ],
)
def test_an_unsound_check_is_named(cluster: str, verdict: str, says: str) -> None:
    """The gate names the check and what it lacks, and nothing of the sound one beside it."""
    assert lacks({cluster: {"audit.a.one": verdict}}) == [says]


def test_a_check_that_only_warns_is_seen_to_warn() -> None:
    """Where no value can fail, a warning is what proves that the check sees anything."""
    verdicts = SOUND | {"faulty": {"audit.a.one": "warn", "audit.a.two": "pass"}}
    assert list(GATE["lacks"](["audit.a.one"], verdicts, ["dark"], {"audit.a.one"})) == []
    assert list(GATE["lacks"](["audit.a.two"], verdicts, ["dark"], {"audit.a.two"})) == [
        "audit.a.two: no recorded cluster on which it warns"
    ]


def test_the_gate_needs_a_cluster_that_shows_nothing() -> None:
    """Without one, the most important question was never asked."""
    assert lacks({}, nothing=()) == ["no recorded cluster shows nothing"]


def test_a_check_that_never_ran_is_named() -> None:
    """A check of the catalogue that is in no results has been seen neither to fail nor to pass."""
    assert list(GATE["lacks"](["audit.a.new"], SOUND, ["dark"])) == [
        "audit.a.new: no recorded cluster on which it fails",
        "audit.a.new: no recorded cluster on which it passes",
    ]


def test_a_cluster_that_no_test_has_passed_is_unproven(tmp_path: Path) -> None:
    """A description counts only where a test of this very run found it true: one that ran, and passed."""
    ended = {"sound": "", "odd": "<failure/>", "left": "<skipped/>"}
    cases = (f'<testcase name="{GATE["PROOF"].format(name)}">{end}</testcase>' for name, end in ended.items())
    junit = tmp_path / "tests.xml"
    junit.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>", encoding="utf-8")
    assert GATE["unproven"](["sound", "odd", "left", "new"], str(junit)) == ["odd", "left", "new"]
