"""Recorded clusters are rated as fixtures/recorded/ratings.toml says, by the evidence of several runs."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import jsonschema
import pytest
from markupsafe import escape

from gpuassay.rating.assessor import Assessment, Statement
from gpuassay.rating.pages import rating_page
from rating import rate
from recorded.rated import Described, described, runs

SCHEMA = json.loads((Path(__file__).parents[1] / "docs" / "schemas" / "rating.schema.json").read_text())
DAY = date(2026, 11, 30)


@pytest.mark.parametrize("one", described(), ids=lambda one: one.name)
def test_a_cluster_is_rated_as_described(one: Described, tmp_path: Path) -> None:
    """From underperforming to platinum, with one that is not rated and one that is unavailable.

    What holds the next tier back, and what would mend it, is said; the document is of the published schema.
    """
    found = rate(runs(one, tmp_path), tmp_path / "merged")
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    rated = found["rated"]
    assert (rated["tier"] or rated["state"]) == one.expected, found["tiers"]
    held = {line["tier"]: line["held_by"] for line in found["tiers"]}
    ahead = found["next"]
    assert (ahead["tier"] is None) is (one.expected == "platinum")
    if ahead["tier"]:
        settled = {check for step in ahead["steps"] for check in step["checks"]}
        assert settled == {entry["check"] for entry in held[ahead["tier"]]}
        assert bool(settled) is (one.expected != "unavailable")  # where there is no GPU, no step gives one
    assert escape(found["statement"]) in rating_page(found)


def test_every_outcome_has_a_cluster() -> None:
    """No tier and no state is only claimed to be possible."""
    outcomes = {one.expected for one in described()}
    tiers = {"ribbon", "bronze", "silver", "gold", "platinum"}
    assert outcomes == {*tiers, "underperforming", "not_rated", "unavailable"}


def test_the_order_of_runs_does_not_matter(tmp_path: Path) -> None:
    """Which run is the newest is read from the recordings, so the document is the same to the byte."""
    one = next(one for one in described() if one.name == "gold")
    named = runs(one, tmp_path)
    there = rate(named, tmp_path / "a")
    back = rate([*reversed(named), named[0]], tmp_path / "b")
    assert json.dumps(there) == json.dumps(back)
    assert len(there["runs"]) == 2


def test_an_assessors_file_lowers_and_is_shown_apart(tmp_path: Path) -> None:
    """The computed tier stands beside what is left of it, and what was said, by whom, on what evidence."""
    one = next(one for one in described() if one.name == "bronze")
    said = Statement("support", "Nobody answers.", "customer", DAY, ("ticket 1",), "at_most_ribbon")
    praise = Statement("pricing", "Cheap.", "customer", DAY, ("invoice",), "holds")
    assessed = Assessment("slurm-b200-4", "0" * 64, (praise, said))
    found = rate(runs(one, tmp_path), tmp_path / "merged", assessment=assessed)
    assert found["rated"] == {"state": "won", "tier": "ribbon", "lowered": True}
    assert found["computed"]["won"] == "bronze"
    page = rating_page(found)
    assert "Nobody answers." in page
    assert "UNSIGNED" in page
