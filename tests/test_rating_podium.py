"""The podium: who stands where, who moved and why; and the assessor's file that may lower a place."""

from __future__ import annotations

import copy
import json
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from markupsafe import escape

from gpuassay.judge.config import ConfigError
from gpuassay.rating.assessor import ABOUT, load_assessment
from gpuassay.rating.document import rating
from gpuassay.rating.merge import plan
from gpuassay.rating.pages import podium_page
from gpuassay.rating.podium import podium
from gpuassay.rating.source import read_source
from gpuassay.rating.words import STATED, RatingError
from rating import catalog
from recorded import build
from recorded.judge import ROOT, judge

if TYPE_CHECKING:
    from pathlib import Path

DAY = date(2026, 11, 30)
SCHEMA = json.loads((ROOT / "docs" / "schemas" / "podium.schema.json").read_text(encoding="utf-8"))


@cache
def rated_document() -> dict[str, Any]:
    """Rate a cluster once."""
    place = build("h200-measured")
    results = judge(place).results
    return rating(plan([read_source(place, catalog())]), [results], results, catalog().tiers)


def entry(cluster: str, tier: str | None, **changed: str) -> dict[str, Any]:
    """Make the rating of another cluster; ``changed`` maps checks, with _ for ., to verdicts."""
    document = copy.deepcopy(rated_document())
    document["cluster"] = cluster
    state = "won" if tier in ("ribbon", "bronze", "silver", "gold", "platinum") else tier
    document["rated"] = {"state": state, "tier": tier if state == "won" else None, "lowered": False}
    for check, verdict in changed.items():
        document["checks"][check.replace("__", ".")]["verdict"] = verdict
    return document


def test_a_podium_has_the_published_shape() -> None:
    """With and without an earlier edition, whatever moved; a key that the schema does not know is refused."""
    validator = jsonschema.Draft202012Validator(SCHEMA)
    earlier = podium([entry("a", "gold"), entry("b", "silver"), entry("gone", "unavailable")])
    worse = entry("a", "underperforming", audit__hardware__gpu_count="fail")
    now = podium([worse, entry("b", "silver"), entry("new", "not_rated")], earlier)
    for document in (earlier, now):
        validator.validate(document)
        assert not validator.is_valid(document | {"surprise": 1})
    for cluster in now["clusters"]:
        assert not validator.is_valid(now | {"clusters": [cluster | {"surprise": 1}]})
        for key in cluster:
            fewer = {name: value for name, value in cluster.items() if name != key}
            assert not validator.is_valid(now | {"clusters": [fewer]}), key


def test_the_best_come_first() -> None:
    """By tier, then by name; what has no rank comes last, below what underperforms."""
    ratings = [
        entry("d", "unavailable"),
        entry("c", "underperforming"),
        entry("b", "ribbon"),
        entry("a", "platinum"),
        entry("aa", "platinum"),
    ]
    found = podium(ratings)
    assert [one["cluster"] for one in found["clusters"]] == ["a", "aa", "b", "c", "d"]
    assert found == podium(ratings[::-1])
    assert all(one["moved"] is None for one in found["clusters"])


def test_who_rose_and_fell_and_why() -> None:
    """By the checks that came out differently; entering or leaving the ranks is neither a rise nor a fall."""
    check = "audit__hardware__gpu_count"
    earlier = podium(
        [entry("up", "bronze"), entry("down", "gold"), entry("out", "gold"), entry("same", "silver"),
         entry("gone", "gold")]
    )  # fmt: skip
    now = podium(
        [
            entry("up", "gold"),
            entry("down", "underperforming", **{check: "fail"}),
            entry("out", "unavailable"),
            entry("same", "silver"),
            entry("new", "ribbon"),
        ],
        earlier,
    )
    moved = {one["cluster"]: one["moved"] for one in now["clusters"]}
    ways = {name: move["way"] for name, move in moved.items()}
    assert ways == {"up": "rose", "down": "fell", "out": "changed", "same": "stayed", "new": "new"}
    assert moved["down"]["why"] == ["fail, which it was not: audit.hardware.gpu_count"]
    assert now["gone"] == [{"cluster": "gone", "was": "gold"}]
    page = podium_page(now)
    assert "fell from Gold" in page
    assert "fail, which it was not: audit.hardware.gpu_count" in page
    assert page.count(str(escape(STATED))) == 2


def test_other_numbers_are_marked() -> None:
    """Clusters that were judged by different thresholds stand under a stamp, and in what moved them."""
    other = entry("b", "gold") | {"thresholds": "f" * 64}
    assert "DIFFERENT THRESHOLDS" in podium_page(podium([entry("a", "gold"), other]))
    assert "DIFFERENT THRESHOLDS" not in podium_page(podium([entry("a", "gold")]))
    moved = podium([other], podium([entry("b", "silver")]))["clusters"][0]["moved"]
    assert moved["why"][0] == "the two editions were judged by other thresholds"


def test_a_cluster_has_one_place() -> None:
    """Two ratings of one cluster, or one of no cluster, are refused."""
    with pytest.raises(RatingError, match="a has two ratings"):
        podium([entry("a", "gold"), entry("a", "silver")])
    with pytest.raises(RatingError, match="names no cluster"):
        podium([entry("", "gold")])


STATEMENT = """
[[statement]]
about = "support"
says = "Nobody answers at night."
role = "tenant"
date = 2026-11-28
evidence = ["ticket 4711"]
verdict = "at_most_silver"
"""


def test_an_assessors_file_is_read(tmp_path: Path) -> None:
    """With what it is silent on; nobody has verified its signature."""
    path = tmp_path / "assessor.toml"
    path.write_text(f'cluster = "c"\n{STATEMENT}')
    document = load_assessment(path, "c").document()
    assert document["signature"] == "unsigned"
    assert document["silent_on"] == [about for about in ABOUT if about != "support"]
    assert document["statements"][0]["date"] == "2026-11-28"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f'cluster = "d"\n{STATEMENT}', "is about d, and the runs are of c"),
        ('cluster = "c"\n', "holds no"),
        (f'cluster = "c"\n{STATEMENT}'.replace("at_most_silver", "at_least_gold"), "verdict"),
        (f'cluster = "c"\n{STATEMENT}'.replace('["ticket 4711"]', "[]"), "evidence"),
        (f'cluster = "c"\n{STATEMENT}'.replace("role", "name"), "role: is missing"),
        ("cluster = ", "is not TOML"),
    ],
)
def test_a_mistake_in_it_is_named(tmp_path: Path, text: str, why: str) -> None:
    """Also a verdict that would raise: there is no such word."""
    path = tmp_path / "assessor.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=why):
        load_assessment(path, "c")
