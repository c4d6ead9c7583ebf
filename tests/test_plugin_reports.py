"""The real suite on a recorded cluster: each run gives the same bytes, and every report is valid."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime
from html import unescape
from typing import TYPE_CHECKING

import jsonschema
import pytest
import xmlschema

from gpuassay import gathering
from gpuassay.wiring import controller
from plugging import ROOT, Run, pytest_process

if TYPE_CHECKING:
    from pathlib import Path

    from plugging import Results

pytest_plugins = ["pytester"]

HGX = ROOT / "fixtures" / "recorded" / "hgx-b200-4"
SUITE = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", "no:cacheprovider"]
CHECKS = [str(ROOT / phase) for phase in ("tests_audit", "tests_perf", "tests_reliability")]
SCHEMAS = ROOT / "docs" / "schemas"


def here(pytester: pytest.Pytester, target: str, *words: str) -> Run:
    """Run the real suite in this process, from pytester's folder, into the folder ``run`` unless told."""
    words = (*SUITE, "-p", "no:hypothesispytest", f"--target={target}", "--run-dir=run", *words, *CHECKS)
    done = pytester.runpytest_inprocess(*words)
    return Run(int(done.ret), done.stdout.str(), pytester.path / "run")


@pytest.fixture(scope="module")
def parallel(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Judge with two workers, from another folder, with both of the report plugins."""
    folder = tmp_path_factory.mktemp("parallel")
    reports = ["--junitxml=junit.xml", "--html=page.html", "--self-contained-html"]
    return pytest_process(folder, *SUITE, f"--target=recording:{HGX}", "-n2", *reports, *CHECKS)


def test_two_workers_and_another_folder_change_no_byte(pytester: pytest.Pytester, parallel: Run) -> None:
    """One process here and two elsewhere write the same results, junit.xml and page."""
    single = here(pytester, f"recording:{HGX}")

    assert (single.status, parallel.status) == (0, 0)
    for name in ("results.json", "junit.xml", "report.html", "thresholds.effective.toml"):
        assert (single.folder / name).read_bytes() == (parallel.folder / name).read_bytes(), name


def test_another_day_changes_no_byte(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of judging is the recording's own; on the day of the replay waivers may long have expired."""
    first = here(pytester, f"recording:{HGX}").folder / "results.json"
    for module in (gathering, controller):
        monkeypatch.setattr(module, "now", lambda: datetime(2199, 1, 1, tzinfo=UTC))
    again = here(pytester, f"recording:{HGX}", "--run-dir=again").folder.with_name("again") / "results.json"

    assert first.read_bytes() == again.read_bytes()


def test_results_hold_to_their_schema_and_name_no_place(pytester: pytest.Pytester, parallel: Run) -> None:
    """No path and no host of the judging machine is in them."""
    text = (parallel.folder / "results.json").read_text(encoding="utf-8")
    schema = json.loads((SCHEMAS / "results.schema.json").read_text(encoding="utf-8"))

    jsonschema.Draft202012Validator(schema).validate(json.loads(text))
    assert str(ROOT) not in text
    assert str(pytester.path.parent) not in text


def test_both_junit_files_are_valid(parallel: Run) -> None:
    """Ours, and pytest's own with our properties: a CI reads verdict and tier from it, and the run's tier."""
    schema = xmlschema.XMLSchema(SCHEMAS / "junit-xunit1.xsd")
    theirs = parallel.folder.parent / "junit.xml"
    for path in (theirs, parallel.folder / "junit.xml"):
        schema.validate(path)

    text, tier = theirs.read_text(encoding="utf-8"), parallel.results["tier"]
    for verdict, count in Counter(parallel.verdicts.values()).items():
        assert text.count(f'<property name="verdict" value="{verdict}"') == count
    for key in ("state", "won", "ceiling"):
        assert f'<property name="tier.{key}" value="{tier[key]}"' in text


def test_the_page_of_pytest_html_has_the_medallion_and_our_columns(parallel: Run) -> None:
    """Above its table, and in every row; its own Result column is left alone."""
    page = (parallel.folder.parent / "page.html").read_text(encoding="utf-8")
    blob = re.search(r'data-jsonblob="([^"]*)"', page)
    assert blob is not None
    rows = [row for rows in json.loads(unescape(blob[1]))["tests"].values() for row in rows]

    assert '<div class="gpuassay"' in page
    assert 'class="sortable col-verdict"' in page
    checks = json.loads((parallel.folder / "results.json").read_text(encoding="utf-8"))["checks"]
    assert len(rows) == len(checks)
    shown = {found["verdict"] for found in checks.values()}
    assert "pass" in shown
    for row in rows:
        cells = "".join(row["resultsTableRow"])
        assert '<td class="col-verdict">' in cells
        assert re.search('<td class="col-result">(Passed|Skipped)</td>', cells)


def test_what_this_machine_answered_is_judged_again_to_the_same_bytes(pytester: pytest.Pytester) -> None:
    """A live run judges what it has just recorded, so that its replay can find nothing else."""
    phases = (
        "-m",
        "not reliability",
    )  # what was not consented to is worded otherwise than what is not recorded
    live = here(pytester, "local", *phases)
    replayed = here(pytester, "recording:run", "--run-dir=again", *phases)

    assert live.status == replayed.status
    assert (pytester.path / "again" / "results.json").read_bytes() == (
        live.folder / "results.json"
    ).read_bytes()
    assert live.results["recording"]["seal"] == "sealed"
    assert live.results["target"] == "local"


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "not a recording: expected a folder with a recording.toml"),
        ({"results.json": "{}"}, "this run judged a recording and holds none: name that one"),
        ({"recording.toml": ""}, "recording.toml: schema: expected 1"),
        ({"recording.toml": "schema = "}, "recording.toml: not TOML"),
        ({"recording.toml": "schema = 99"}, "recording.toml: schema: expected 1 (a higher one needs a newer"),
    ],
)
def test_what_is_no_recording_is_not_judged(
    pytester: pytest.Pytester, files: dict[str, str], says: str
) -> None:
    """An empty folder, a file cut short, a schema of the future: usage errors that name the place."""
    folder = pytester.mkdir("recorded")
    for name, text in files.items():
        (folder / name).write_text(text)
    words = (*SUITE, "--target=recording:recorded", "--run-dir=run", *CHECKS)
    done = pytester.runpytest_inprocess(*words, "-p", "no:hypothesispytest")

    assert done.ret == 4
    assert says in done.stderr.str()
    assert not (pytester.path / "run").exists()


@pytest.mark.parametrize(
    "files",
    [
        {"recording.toml": "schema = 1"},
        {"recording.toml": 'schema = 1\ndeclared = ["gpu001"]'},
        {"recording.toml": "schema = 1", "nodes/gpu001.jsonl": "{"},
        {
            "recording.toml": "schema = 1",
            "nodes/gpu001.jsonl": '{"id":"pci","seq":1,"status":"ok","out":"{}"}\n',
        },
        {
            "recording.toml": "schema = 1\nbegin = 2026-11-30T09:00:00Z",
            "site.toml": '[cluster]\nname = "x"\n[[pool]]\nnodes = "n[1-3]"\ncontracted = 3',
        },
    ],
)
def test_a_recording_with_next_to_nothing_in_it_passes_nothing(
    pytester: pytest.Pytester, files: dict[str, str]
) -> None:
    """No node, a silent one, half a line, an empty document: not one check passes and no tier is won."""
    (pytester.mkdir("recorded") / "nodes").mkdir()
    for name, text in files.items():
        (pytester.path / "recorded" / name).write_text(text)
    run = here(pytester, "recording:recorded")

    assert not {"pass", "warn"} & set(run.verdicts.values())
    assert run.results["tier"]["won"] is None
    assert run.results["tier"]["state"] == "unavailable"
    validate(run.results)


def validate(results: Results) -> None:
    """Hold results to their schema."""
    schema = json.loads((SCHEMAS / "results.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(results)


def test_everything_at_once_still_holds_to_the_schema(pytester: pytest.Pytester, tmp_path: Path) -> None:
    """Waivers, nodes out of service, changed limits, spares: a site file that says all it can."""
    site = (HGX / "site.toml").read_text(encoding="utf-8")
    more = """
[[out]]
nodes = "gpu004"
until = 2026-12-31
reason = "power supply"

[[out]]
nodes = "gpu003"
until = 2026-01-31
reason = "long since mended"

[[waiver]]
check = "audit.hardware.gpu_count"
where = "gpu001"
until = 2026-12-31
reason = "agreed"

[[waiver]]
check = "audit.hardware.gpu_count"
where = "*"
until = 2026-01-31
reason = "agreed"

[limits."audit.health.xid_history"]
window_hours = { fail_below = 24 }
application_xids = { fail_above = 0 }
"""
    site = re.sub(r"(?m)^contracted.*\n|^spares.*\n", "", site).replace(
        "gpus        = 8", "gpus = 9\ncontracted = 3"
    )
    (tmp_path / "site.toml").write_text(site + more, encoding="utf-8")
    run = here(pytester, f"recording:{HGX}", f"--site={tmp_path / 'site.toml'}")

    validate(run.results)
    assert run.status == 1
    assert run.verdicts["fleet.contracted"] == "fail"
    assert run.results["coverage"]["nodes"] == {"declared": 4, "answered": 3, "out": 1}
    assert [waiver["state"] for waiver in run.results["waivers"]] == ["used", "expired"]
    assert {stamp["stamp"] for stamp in run.results["stamps"]} >= {"synthetic", "re-declared", "relaxed"}
