"""Feeds into a reviewed table: each form is read, what cannot be ranges is a note, comments are kept.

The feeds are made up, in the forms that OSV, NVIDIA, Ubuntu and the CVE programme publish.
"""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuassay import cli
from gpuassay.bulletins.feeds import FeedError, read
from gpuassay.bulletins.update import difference, fetch, merge, propose
from gpuassay.judge.catalog import load_catalog
from gpuassay.judge.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[1]
FEEDS = Path(__file__).parent / "feeds"
TABLE = (ROOT / "advisories.toml").read_text(encoding="utf-8")


def feeds(*names: str) -> Iterable[str]:
    """Give the paths of feeds."""
    return [str(FEEDS / f"{name}.json") for name in names]


def proposed(*names: str) -> tuple[dict[str, dict[str, object]], list[str]]:
    """Give the tables that feeds add, and the notes."""
    new, notes = propose(TABLE, feeds(*names))
    old = tomllib.loads(TABLE)["advisory"]
    added = tomllib.loads(new)["advisory"].items()
    return {name: table for name, table in added if name not in old}, notes


def test_osv_gives_ranges_of_what_is_tracked() -> None:
    """Two ranges of one package; no fix yet is a note, withdrawn or not tracked is nothing."""
    added, notes = proposed("osv-runc")
    assert list(added) == ["GHSA-aaaa-bbbb-cccc"]
    table = added["GHSA-aaaa-bbbb-cccc"]
    assert table["affected"] == [
        {"packages": ["upstream/runc"], "before": "1.4.9"},
        {"packages": ["upstream/runc"], "from": "1.5.0-rc.1", "before": "1.5.7"},
    ]
    assert (table["component"], table["scheme"], table["severity"]) == ("runc", "pep440", "medium")
    assert table["source"] == "CVE-2026-99999, https://github.com/advisories/GHSA-aaaa-bbbb-cccc"
    assert notes == ["GHSA-dddd-eeee-ffff: upstream/containerd has no fix yet: left out"]


def test_a_notice_that_mends_two_issues_is_two_tables() -> None:
    """Kernels are taken by issue, flavour by flavour; those behind a subscription are of another origin."""
    added, _ = proposed("osv-ubuntu")
    assert sorted(added) == ["USN-9999-1-fragnesia", "USN-9999-1-januscape"]
    assert added["USN-9999-1-fragnesia"]["affected"] == [
        {"packages": ["ubuntu:24.04/linux-hwe-6.14"], "before": "6.14.0-99.99~24.04.1"},
        {"packages": ["ubuntu:24.04/linux-nvidia-6.11"], "before": "6.11.0-1099.99"},
    ]


def test_debian_numbers_each_release_apart() -> None:
    """What has no fix in a release is a note; kernels are taken by issue, others by name."""
    added, notes = proposed("osv-debian")
    assert added["DEBIAN-CVE-2026-99990"]["affected"] == [
        {"packages": ["debian:12/runc"], "before": "1.1.5+ds1-1+deb12u9"},
        {"packages": ["debian:14/runc"], "before": "1.3.99+ds1-1"},
    ]
    assert str(added["DEBIAN-CVE-2026-99990"]["source"]).startswith("CVE-2026-99990, https://")
    assert (added["DSA-9990-1"]["component"], added["DSA-9990-1"]["scheme"]) == ("fragnesia", "debian")
    assert notes == ["DEBIAN-CVE-2026-99990: debian:13/runc has no fix yet: left out"]


def test_red_hat_and_its_rebuilds_are_origins_of_their_own() -> None:
    """Streams of extended support are not those of every machine, and a minor release is none of its own."""
    added, _ = proposed("osv-redhat")
    assert added["RHSA-2026:99990"]["affected"] == [
        {"packages": ["rhel:10/runc"], "before": "4:1.9.9-1.el10_1"},
        {"packages": ["rhel:9/runc"], "before": "4:1.9.9-1.el9_9"},
    ]
    assert added["RLSA-2026:99991"]["affected"] == [
        {"packages": ["rocky:9/kernel"], "before": "0:5.14.0-999.1.1.el9_9"}
    ]
    assert added["ALSA-2026:99992"]["affected"] == [
        {"packages": ["almalinux:9/runc"], "before": "4:1.9.9-1.el9_9.alma.1"}
    ]


@pytest.mark.parametrize(
    ("check", "value", "verdict"),
    [
        ("runc.version", "debian:12/runc 1.1.5+ds1-1+deb12u1", Verdict.FAIL),
        ("runc.version", "debian:12/runc 1.1.5+ds1-1+deb12u9", Verdict.PASS),
        ("runc.version", "debian:13/runc 1.1.15+ds1-2", Verdict.ERROR),
        ("runc.version", "rhel:9/runc 4:1.2.5-2.el9_6", Verdict.FAIL),
        ("runc.version", "rhel:10/runc 4:1.9.9-1.el10_1", Verdict.PASS),
        ("kernel_fixes.januscape", "rocky:9/kernel 5.14.0-570.12.1.el9_6", Verdict.FAIL),
        ("kernel_fixes.januscape", "rocky:9/kernel 5.14.0-999.1.1.el9_9", Verdict.PASS),
        ("kernel_fixes.fragnesia", "debian:12/linux 6.1.153-1", Verdict.FAIL),
    ],
)
def test_with_their_feeds_nodes_of_these_distributions_are_judged(
    check: str, value: str, verdict: Verdict, tmp_path: Path
) -> None:
    """Values are as facts have them; a release without any bulletin stays an error that says what to do."""
    table = tmp_path / "advisories.toml"
    table.write_text(propose(TABLE, feeds("osv-debian", "osv-redhat"))[0])
    name, _, metric = check.partition(".")
    limit = load_catalog(ROOT / "thresholds.toml", table).checks[f"audit.versions.{name}"].limits[metric]
    grade = limit.grade(value, "2027-12-03")
    assert grade.verdict is verdict
    if verdict is Verdict.ERROR:
        assert "gpuassay advisories update, with OSV's documents on debian:13" in grade.reason


def test_other_forms() -> None:
    """Ubuntu's own notices and CSAF are ranges too; several fixed versions and AMD's words are notes."""
    added, notes = proposed("usn-notice", "csaf-nvidia", "cve-amd")
    assert added["USN-9998-1"]["affected"] == [
        {"packages": ["ubuntu:24.04/runc-app"], "before": "1.4.9-0ubuntu1~24.04.1"}
    ]
    assert added["nvidia-9990"]["affected"] == [
        {"packages": ["upstream/container-toolkit"], "before": "1.99.1"}
    ]
    assert len(added) == 2
    assert notes == [
        "nvidia-9990: NVIDIA GPU Operator is fixed in 99.3.2: to be put in by hand",
        "nvidia-9991: NVIDIA CUDA Toolkit is fixed in 12.9.9, 13.9: to be put in by hand",
        "CVE-2026-99996: AMD Instinct MI355X: ROCm 9.9 unaffected: to be put in by hand",
    ]


def test_the_difference_is_what_is_new_and_comments_stay(tmp_path: Path) -> None:
    """Nothing but added lines; the new table is one that this suite reads; twice is once."""
    new, _ = propose(TABLE, feeds("osv-runc", "osv-ubuntu", "usn-notice", "csaf-nvidia"))
    lines = difference(TABLE, new).splitlines()[2:]
    assert [line for line in lines if line.startswith("-")] == []
    table = tmp_path / "advisories.toml"
    table.write_text(new)
    assert "USN-9998-1" in load_catalog(ROOT / "thresholds.toml", table).advisories
    assert propose(new, feeds("osv-runc", "osv-ubuntu", "usn-notice", "csaf-nvidia"))[0] == new


def test_a_bulletin_that_was_revised_changes_its_ranges_only() -> None:
    """Source, dates and what else a person wrote stay."""
    document = json.loads((FEEDS / "osv-runc.json").read_text())["vulns"][0]
    document["id"] = "GHSA-xjvp-4fhw-gc47"
    new = merge(TABLE, read(json.dumps(document)).bulletins)
    table = tomllib.loads(new)["advisory"]["GHSA-xjvp-4fhw-gc47"]
    assert table["affected"][0] == {"packages": ["upstream/runc"], "before": "1.4.9"}
    assert str(table["fixed"]) == "2026-06-13"


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '{"id": "x", "affected": [{}], "published": 7}', '{"a": 1}']
)
def test_what_is_no_feed_is_said(text: str) -> None:
    """It is an error of the caller's, never an empty update."""
    with pytest.raises(FeedError):
        read(text)


KEYS = st.sampled_from(["id", "affected", "document", "vulns", "published", "release_packages", "dataType"])
VALUES = st.none() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2)


@given(st.dictionaries(KEYS, VALUES | st.dictionaries(KEYS, VALUES, max_size=3), max_size=5))
@settings(deadline=None)
def test_any_json_is_read_or_refused(data: object) -> None:
    """No other exception."""
    try:
        read(json.dumps(data))
    except FeedError:
        return


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It prints what differs and writes only when told to; a feed that is not there is named."""
    shutil.copy(ROOT / "advisories.toml", tmp_path)
    monkeypatch.setattr(cli, "suite_root", lambda: tmp_path)
    words = ["advisories", "update", *feeds("osv-runc")]
    assert cli.main(words) == 0
    assert "+[advisory.GHSA-aaaa-bbbb-cccc]" in capsys.readouterr().out
    assert (tmp_path / "advisories.toml").read_text() == TABLE
    assert cli.main([*words, "--write"]) == 0
    assert "GHSA-aaaa-bbbb-cccc" in (tmp_path / "advisories.toml").read_text()
    assert cli.main(["advisories", "update", str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().err
    assert fetch(str(FEEDS / "cve-amd.json")).startswith("{")
