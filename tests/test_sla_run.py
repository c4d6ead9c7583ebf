"""``--sla``: a run against terms, in results.json, on the terminal and on the page; unknown stays unknown."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from gpuassay.cli import main
from gpuassay.report import html, terminal
from gpuassay.sla.run import hold, missed, promises
from gpuassay.sla.template import load
from recorded.build import build
from report_sample import results

ROOT = Path(__file__).parents[1]
SCHEMA = json.loads((ROOT / "docs" / "schemas" / "results.schema.json").read_text())
RECORDING = {
    "seal": "sealed",
    "begin": "2026-11-28T12:00:00Z",
    "end": "2026-11-28T12:20:00Z",
    "measured": None,
    "handed_over": "2026-11-28T12:00:00Z",
}
CONTEXT = {"profile": "acceptance", "recording": RECORDING}
WON = {"won": "platinum", "ceiling": "platinum"}
GOLD = promises(load("gold"))


def row(metric: str, value: object, where: str = "gpu001", **more: str) -> dict[str, Any]:
    """Write an observation."""
    return {"where": where, "metric": metric, "value": value, "reason": "", **more}


def times(seconds: float) -> list[dict[str, Any]]:
    """Write what a check saw of a fault that took so long to be noticed, isolated and replaced."""
    pairs = (("detected", "detect_s"), ("isolated", "isolate_s"), ("replaced", "replace_s"))
    return [one for whether, how_long in pairs for one in (row(whether, value=True), row(how_long, seconds))]


def held(
    rows: list[dict[str, Any]], tier: Any = WON, phase: str = "reliability", **context: Any
) -> dict[str, Any]:
    """Hold a run with one check to gold, and give its terms by name, with the outcome of all."""
    found = hold(GOLD, CONTEXT | context, tier, {"reliability.a.b": {"phase": phase, "observations": rows}})
    return {one["term"]: one["outcome"] for one in found["terms"]} | {"all": found["outcome"]}


ALL_MET = dict.fromkeys(("acceptance", "acceptance_window", "detect", "isolate", "replace", "all"), "met")


def test_a_run_that_shows_everything_meets_its_terms() -> None:
    """To the second: two minutes are met."""
    assert held(times(120)) == ALL_MET


@pytest.mark.parametrize("metric", ["detect_s", "isolate_s", "replace_s"])
def test_one_slow_fault_misses(metric: str) -> None:
    """The slowest of several faults counts, for its own term and for the whole."""
    found = held([*times(30), row(metric, 3600.5, "gpu002")])
    assert found == ALL_MET | {metric[:-2]: "missed", "all": "missed"}


def test_nothing_seen_is_unknown() -> None:
    """Without a fault, or with one that was not seen, times are unknown, and so is the whole."""
    unknown = ALL_MET | dict.fromkeys(("detect", "isolate", "replace", "all"), "unknown")
    assert held([]) == unknown
    assert held(times(30), phase="perf") == unknown
    lost = row("detect_s", None, reason="detect_s failed: watching was cut")
    assert held([*times(30), lost]) == ALL_MET | {"detect": "unknown", "all": "unknown"}
    assert held([row("detected", value=True)])["isolate"] == "unknown"


@pytest.mark.parametrize(("watched", "outcome"), [(600, "missed"), (60, "unknown")])
def test_what_never_came_is_missed_if_it_was_waited_for(watched: int, outcome: str) -> None:
    """A fault that nobody noticed in ten minutes misses two; in one minute it tells nothing."""
    said = f"detected is false, expected true — not within {watched} s"
    found = held([*times(30)[1:], row("detected", value=False, reason=said)])
    assert (found["detect"], found["all"]) == (outcome, outcome)


def judge(run: Path, *options: str) -> subprocess.CompletedProcess[bytes]:
    """Judge the one check that breaks a daemon, as a user does."""
    check = ROOT / "tests_reliability" / "test_failure_injection.py::test_frozen_scheduler_daemon"
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}", str(check))
    command = [sys.executable, *words, f"--run-dir={run}", *options]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True)


TERMS = ["acceptance", "acceptance_window", "detect", "isolate", "replace"]


@pytest.mark.parametrize(
    ("name", "status", "outcomes"),
    [
        ("slurm-b200-4", 0, ["unknown", "unknown", "met", "met", "unknown"]),
        ("fault-unnoticed", 1, ["missed", "unknown", "missed", "missed", "unknown"]),
    ],
)
def test_recorded_faults_against_gold(name: str, status: int, outcomes: list[str], tmp_path: Path) -> None:
    """A recorded run is held to gold by what was watched, and its reports say the same when rebuilt."""
    run = tmp_path / "run"
    assert judge(run, f"--target=recording:{build(name)}", "--sla=gold").returncode == status
    found = json.loads((run / "results.json").read_text())
    assert [one["term"] for one in found["sla"]["terms"]] == TERMS
    assert [one["outcome"] for one in found["sla"]["terms"]] == outcomes
    assert found["sla"]["digest"] == load("gold").digest
    told = ET.parse(run / "junit.xml").getroot().iterfind("testsuite/properties/property")  # noqa: S314 - ours
    properties = {one.get("name"): one.get("value") for one in told}
    assert properties["sla.outcome"] == found["sla"]["outcome"]
    assert [properties[f"sla.{one['term']}"] for one in found["sla"]["terms"]] == outcomes
    assert main(["report", str(run)]) == status
    assert json.loads((run / "results.json").read_text()) == found


@pytest.mark.parametrize(
    ("declared", "outcome"),
    [("2026-11-30T09:00:00+01:00", "met"), ("2026-11-30T08:00:01Z", "unknown")],
)
def test_a_replay_goes_by_the_recorded_times(declared: str, outcome: str, tmp_path: Path) -> None:
    """Handed over at the second in which a recording begins is in time, one later is not, also in JUnit."""
    recorded, run, site = build("slurm-b200-4"), tmp_path / "run", tmp_path / "site.toml"
    text = (recorded / "site.toml").read_text()
    site.write_text(text.replace("[cluster]\n", f"[cluster]\nhanded_over = {declared}\n", 1))
    assert judge(run, f"--target=recording:{recorded}", "--sla=gold", f"--site={site}").returncode == 0
    found = json.loads((run / "results.json").read_text())
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    window = found["sla"]["terms"][1]
    assert (window["term"], window["outcome"]) == ("acceptance_window", outcome)
    assert found["recording"]["handed_over"] == declared.replace("09:00:00+01:00", "08:00:00Z")
    told = ET.parse(run / "junit.xml").getroot().iterfind("testsuite/properties/property")  # noqa: S314 - ours
    assert {one.get("name"): one.get("value") for one in told}["sla.acceptance_window"] == outcome
    assert main(["report", str(run)]) == 0
    assert json.loads((run / "results.json").read_text()) == found


def test_unknown_terms_stop_before_anything_is_touched(tmp_path: Path) -> None:
    """A name that no template has is a usage error that says which there are, and no run begins."""
    ended = judge(tmp_path / "run", "--sla=goldy")
    assert ended.returncode == pytest.ExitCode.USAGE_ERROR
    assert b"there is no such template; expected bronze, silver, gold" in ended.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("tier", "outcome"),
    [
        ({"won": "gold", "ceiling": "gold"}, "met"),
        ({"won": "silver", "ceiling": "platinum"}, "unknown"),
        ({"won": None, "ceiling": "gold"}, "unknown"),
        ({"won": "silver", "ceiling": "silver"}, "missed"),
        ({"won": None, "ceiling": None}, "missed"),
    ],
)
def test_the_tier_of_the_acceptance_test(tier: dict[str, str | None], outcome: str) -> None:
    """Won is met, out of reach is missed, and between them nothing is known."""
    assert held(times(30), tier)["acceptance"] == outcome


def test_another_profile_and_a_broken_seal_show_nothing_kept() -> None:
    """The contract names the profile; and what may have been changed keeps no promise, but can break one."""
    assert held(times(30), profile="rating")["acceptance"] == "unknown"
    altered = held([*times(30), row("isolate_s", 600)], recording=RECORDING | {"seal": "altered"})
    assert set(altered.values()) == {"unknown", "missed"}
    assert (altered["isolate"], altered["detect"]) == ("missed", "unknown")


def test_without_a_hand_over_the_tier_is_met_and_the_whole_is_unknown() -> None:
    """Nothing declared takes no tier away and misses nothing, but the window is not shown to be kept."""
    unsaid = ALL_MET | {"acceptance_window": "unknown", "all": "unknown"}
    assert held(times(30), recording=RECORDING | {"handed_over": None}) == unsaid
    cut = held(times(30), recording=RECORDING | {"end": None})
    assert cut == unsaid | {"acceptance": "unknown"}


def test_a_tier_out_of_reach_stays_missed_outside_the_window() -> None:
    """A date in the site file hides no miss."""
    late = RECORDING | {"begin": "2027-01-01T00:00:00Z", "end": "2027-01-01T01:00:00Z"}
    found = held(times(30), {"won": None, "ceiling": "silver"}, recording=late)
    assert (found["acceptance"], found["acceptance_window"], found["all"]) == ("missed", "unknown", "missed")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"handed_over": None}, "no hand-over is declared ([cluster] handed_over in the site file)"),
        ({"begin": "2026-11-28T10:59:59Z"}, "begins at 2026-11-28T10:59:59Z, 01:00:01 before hand-over"),
        ({"end": "2026-12-13T12:00:01Z"}, "ends at 2026-12-13T12:00:01Z, 1 d 00:00:01 after the window"),
        ({"measured": "2026-12-13T12:00:01Z"}, "ends at 2026-12-13T12:00:01Z, 1 d 00:00:01 after the window"),
        ({"end": None}, "does not say when it began and ended"),
    ],
)
def test_why_a_window_is_unknown(said: dict[str, str | None], words: str) -> None:
    """Each reason names the times, and how far off they are."""
    window = hold(GOLD, CONTEXT | {"recording": RECORDING | said}, WON, {})["terms"][1]
    assert (window["term"], window["outcome"]) == ("acceptance_window", "unknown")
    assert words in window["why"]


def test_a_journal_of_an_older_version_has_no_window() -> None:
    """What was not promised in the journal is not judged, and the rest stands."""
    older = {key: value for key, value in GOLD.items() if key != "window_s"}
    found = hold(older, {"profile": "acceptance", "recording": {"seal": "sealed"}}, WON, {})
    assert [one["term"] for one in found["terms"]] == ["acceptance", "detect", "isolate", "replace"]
    assert found["terms"][0]["outcome"] == "met"


SLOW = {"reliability.a.b": {"phase": "reliability", "observations": times(130)[:2]}}
SLA = hold(GOLD, CONTEXT, WON, SLOW)


def test_reports_show_it() -> None:
    """Terminal and page say each term, and the schema takes it; without --sla nothing is said of it."""
    document = results(sla=SLA)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    text = "\n".join(line.text for line in terminal.lines(document, 200))
    assert "service level Gold: missed\n" in text
    assert "  detect: within 120 s: missed: gpu001: after 130 s\n" in text
    page = html.render(document)
    assert "Service level Gold: missed" in page
    assert "<code>reliability.a.b</code>" in page
    assert "service level" not in "\n".join(line.text for line in terminal.lines(results())).lower()
    assert "Service level" not in html.render(results())


def test_the_page_says_of_each_term_what_the_file_says() -> None:
    """Term, promise, outcome and reason of every line are read back from the page, in the file's order."""
    page = html.render(results(sla=SLA))
    body = page.partition('<section aria-labelledby="sla">')[2].partition("</table>")[0]
    told = [
        re.findall(r"<td[^>]*>(?:<b>)?(.*?)(?:</b>)?(?: <code>.*)?</td>", line)
        for line in body.split("</tr>")
    ]
    keys = ("term", "promised", "outcome", "why")
    assert [line for line in told if line] == [[one[key] for key in keys] for one in SLA["terms"]]


def test_a_missed_level_makes_a_run_red() -> None:
    """Missed ends with 1, unknown does not."""
    assert missed(results(sla=SLA))
    assert not missed(results(sla=SLA | {"outcome": "unknown"}))
    assert not missed(results())
