"""README and changes tell of what there is: targets, options, consents, commands, phases, criteria."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import pytest

from gpuassay import cli
from gpuassay.judge.catalog import LEVELS, SEATS
from gpuassay.suite import load_suite
from gpuassay.target import TARGETS
from plugging import QUICK, ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
FIRST_CELLS = re.findall(r"^\| (`[^|]*) \|", README, re.MULTILINE)


def test_it_counts_the_criteria() -> None:
    """How many of ClusterMAX's criteria have a check, and how many a seat only, is what the table says."""
    text = (ROOT / "docs" / "criteria.toml").read_text(encoding="utf-8")
    criteria = tomllib.loads(text)["criteria"]
    graded = [name for name, answer in criteria.items() if answer.get("checks")]
    seats = [name for name, answer in criteria.items() if answer.get("seat") in SEATS and answer.get("why")]
    assert sorted(graded + seats) == sorted(criteria), "one of both, never both"
    told = re.search(r"Of the (\d+) public\s+criteria\D* (\d+) have a check here; (\d+) have only", README)
    assert told is not None
    assert [int(number) for number in told.groups()] == [len(criteria), len(graded), len(seats)]


def test_it_names_every_option() -> None:
    """The table has each option that ``pytest --help`` lists for the suite, and no other."""
    words = [sys.executable, "-m", "pytest", *QUICK, "--help"]
    shown = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    own = shown.partition("(GPUassay):\n")[2].partition("\n\n")[0]
    there = set(re.findall(r"^  (--[a-z-]+)", own, re.MULTILINE))
    told = {match[1] for cell in FIRST_CELLS if (match := re.match(r"`(--[a-z-]+)", cell))}
    assert there == told


def test_it_names_targets_and_consents() -> None:
    """Each target has its row; so has each level of consent, but for reading, which needs none."""
    rows = "\n".join(FIRST_CELLS)
    assert [target for target in (*TARGETS, "recording:DIR") if f"`--target={target}`" not in rows] == []
    assert [level for level in LEVELS if level != "read" and f"`{level}`" not in rows] == []


def test_it_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """The commands of ``gpuassay`` are those in the table."""
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    there = set(re.findall(r"^    ([a-z]+)\b", capsys.readouterr().out, re.MULTILINE))
    assert there == set(re.findall(r"^\| `gpuassay ([a-z]+)", README, re.MULTILINE))


def test_it_names_the_phases() -> None:
    """A phase that has checks has its row; one that has none is said to be missing."""
    there = {check.id.partition(".")[0] for check in load_suite(ROOT).catalog.checks.values()}
    assert there == {phase for phase in ("audit", "perf", "reliability") if f"\n| `{phase}` | " in README}
    assert ("\n| reliability | *not there yet*" in README) is ("reliability" not in there)


def test_each_check_is_new_once() -> None:
    """Where two add to the changes at once, whole paragraphs may come twice: no check is added twice."""
    told = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("## Unreleased")[2]
    added = told.partition("### Tightened")[0]
    names = re.findall(r"`((?:audit|perf)\.[\w.*]+)`", added)
    assert names
    assert sorted(set(names)) == sorted(names)
