"""Advisories by package: only its own count, a window gives time, no word on a package is no pass."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from gpuassay.judge.advisories import SEVERITIES, Advisory
from gpuassay.judge.catalog import load_catalog
from gpuassay.judge.config import ConfigError, Place
from gpuassay.judge.limits import Limit
from gpuassay.judge.verdict import Verdict
from gpuassay.session import Request, prepare

ROOT = Path(__file__).parents[1]
CATALOG = load_catalog(ROOT / "thresholds.toml", ROOT / "advisories.toml")
PLACE = Place("thresholds.toml", "[audit.versions.runc]", "version")
FIXED = date(2026, 6, 13)
ONE = Advisory(
    "GHSA-1",
    "runc",
    "pep440",
    (),
    "source 1",
    FIXED + timedelta(days=9),
    "runc",
    {"upstream/runc": ((None, "1.3.6"), ("1.4.0", "1.4.3"))},
    "high",
    FIXED,
    30,
)
TWO = replace(
    ONE, id="USN-2", scheme="debian", packages={"ubuntu:24.04/runc-app": ((None, "1.3.3-0ubuntu1~24.04.2"),)}
)
LIMIT = Limit.parse({"advised": "runc"}, PLACE, {"GHSA-1": ONE, "USN-2": TWO})


@pytest.mark.parametrize(
    ("value", "days", "verdict", "words"),
    [
        ("upstream/runc 1.3.6", 400, Verdict.PASS, ""),
        ("upstream/runc 1.5.0", 400, Verdict.PASS, ""),
        (
            "upstream/runc 1.3.5",
            31,
            Verdict.FAIL,
            "affected by GHSA-1 (high, first fixed in 1.3.6, source 1)",
        ),
        ("upstream/runc 1.4.2", 31, Verdict.FAIL, "first fixed in 1.4.3"),
        ("upstream/runc 1.3.5", 30, Verdict.WARN, "fails if it is not mended by 2026-07-13"),
        ("upstream/runc 1.3.5", 0, Verdict.WARN, "GHSA-1"),
        ("upstream/runc 1.3.5", -1, Verdict.PASS, ""),
        ("ubuntu:24.04/runc-app 1.3.3-0ubuntu1~24.04.2", 400, Verdict.PASS, ""),
        ("ubuntu:24.04/runc-app 1.3.0-0ubuntu2~24.04.1", 400, Verdict.FAIL, "USN-2"),
        (
            "ubuntu:22.04/runc-app 9.9",
            400,
            Verdict.ERROR,
            "no advisory on runc speaks of ubuntu:22.04/runc-app",
        ),
        ("upstream/runc garbled?", 400, Verdict.ERROR, "expected a version in the pep440 scheme"),
        ("1.3.6", 400, Verdict.ERROR, "no advisory"),
        (7, 400, Verdict.ERROR, "expected a package and its version"),
    ],
)
def test_a_package_is_held_to_its_own_advisories(value: str, days: int, verdict: Verdict, words: str) -> None:
    """On the last day of its window a version still warns, and before anybody knew of a hole it passes."""
    grade = LIMIT.grade(value, (FIXED + timedelta(days=days)).isoformat())
    assert grade.verdict is verdict
    assert words in grade.reason
    assert grade.reference is None


def test_without_a_day_nothing_is_judged() -> None:
    """A window cannot be counted to nowhere."""
    assert LIMIT.grade("upstream/runc 1.3.5").verdict is Verdict.ERROR


@pytest.mark.parametrize(
    ("check", "value", "words"),
    [
        (
            "runc",
            "upstream/runc 1.1.14",
            ["GHSA-9493-h29p-rfm2", "GHSA-qw9x-cqr3-wc7r", "GHSA-cgrx-mc8f-2prm", "and 1 more"],
        ),
        ("runc", "upstream/runc 1.2.8", ["GHSA-xjvp-4fhw-gc47"]),
        ("runc", "upstream/runc 1.0.3", ["and 7 more"]),
        ("container_toolkit", "upstream/container-toolkit 1.19.0", ["nvidia-5850", "1.19.1"]),
    ],
)
def test_a_line_of_releases_hides_no_advisory(check: str, value: str, words: list[str]) -> None:
    """The newest release of an old line has the holes that were mended in later ones only."""
    limit = CATALOG.checks[f"audit.versions.{check}"].limits["version"]
    grade = limit.grade(value, "2026-11-30")
    assert grade.verdict is Verdict.FAIL
    assert all(word in grade.reason for word in words), grade.reason


@pytest.mark.parametrize("value", ["upstream/runc 1.3.6", "upstream/runc 1.4.3", "upstream/runc 1.5.1"])
def test_the_mended_releases_pass(value: str) -> None:
    """Those that the advisories themselves name."""
    assert (
        CATALOG.checks["audit.versions.runc"].limits["version"].grade(value, "2026-11-30").verdict
        is Verdict.PASS
    )


@pytest.mark.parametrize(
    "advisory", [one for one in CATALOG.advisories.values() if one.packages], ids=lambda one: one.id
)
def test_every_advisory_can_be_acted_upon(advisory: Advisory) -> None:
    """Its own first fixed versions are not affected by it, and its window is that of its severity."""
    for package, ranges in advisory.packages.items():
        for _, before in ranges:
            assert advisory.first_fixed(before, package) is None
    assert advisory.severity in ("", *SEVERITIES)
    assert advisory.due >= (advisory.fixed or advisory.date)
    assert advisory.component in {
        getattr(limit.rule, "component", "")
        for check in CATALOG.checks.values()
        for limit in check.limits.values()
    }


def test_an_unknown_component_is_a_mistake() -> None:
    """A limit that no advisory can ever break would pass for ever."""
    with pytest.raises(ConfigError, match=r"advised: expected a component of advisories\.toml"):
        Limit.parse({"advised": "ronc"}, PLACE, {"GHSA-1": ONE})


def test_a_range_of_a_package_needs_its_component(tmp_path: Path) -> None:
    """Else no limit would find it."""
    table = tmp_path / "advisories.toml"
    table.write_text(
        '[advisory.x]\nproduct = "x"\nscheme = "dotted"\nsource = "x"\ndate = 2026-01-01\n'
        'affected = [{ packages = ["upstream/x"], before = "2" }]\n'
    )
    with pytest.raises(ConfigError, match="component"):
        load_catalog(ROOT / "thresholds.toml", table)


def test_a_report_says_how_old_the_table_is() -> None:
    """By the clock of the recording, and from 30 days on."""
    recording = ROOT / "fixtures" / "recorded" / "hgx-b200-4" / "recording"
    stamps = dict(prepare(Request(root=ROOT), recording).stamps)
    assert CATALOG.reviewed is not None
    days = (date(2026, 11, 30) - CATALOG.reviewed).days
    assert (f"{days} days before" in stamps.get("old advisories", "")) is (days > 30)
