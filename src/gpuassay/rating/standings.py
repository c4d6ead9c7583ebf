"""From a results document back to how each check stands, and what that means for each tier and category."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpuassay.judge.catalog import TIERS, TierRule
from gpuassay.judge.tier import Held, Standing, held_back
from gpuassay.judge.verdict import Verdict
from gpuassay.report.words import ORDER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuassay.rating.words import Document

NOT_JUDGED = ("unseen", "error", "not_run")


def standings(results: Mapping[str, Any]) -> list[Standing]:
    """Read how each check of a results document stands."""
    return [_standing(check, found) for check, found in results["checks"].items()]


def _standing(check: str, found: Mapping[str, Any]) -> Standing:
    binding = [row for row in found["observations"] if not row.get("provisional")]
    return Standing(
        check,
        found["tier"],
        found["phase"],
        None if found["verdict"] == "not_run" else Verdict[found["verdict"].upper()],
        found["reason"],
        caps_at_gold=any(row.get("caps") for row in binding),
        warned=any(row["verdict"] == "warn" for row in binding),
    )


def tiers(results: Mapping[str, Any], rules: Mapping[str, TierRule]) -> list[Document]:
    """Say of each tier whether it was won, what was counted for it, and all that holds it back."""
    held = held_back(standings(results), rules)
    return [
        {**line, "phases": list(rules[line["tier"]].phases), "held_by": list(map(_held, held[line["tier"]]))}
        for line in results["tier"]["arithmetic"]
    ]


def _held(one: Held) -> Document:
    return {key: value for key, value in asdict(one).items() if key != "tier"}


def categories(results: Mapping[str, Any], rules: Mapping[str, TierRule]) -> list[Document]:
    """Sum the checks of each category, and name the lowest tier that it alone keeps from being won."""
    by_category: dict[str, list[str]] = defaultdict(list)
    for check, found in results["checks"].items():
        by_category[found["category"]].append(check)
    alone = {tier: TierRule(rule.warnings, ()) for tier, rule in rules.items()}
    every = {line.check: line for line in standings(results)}
    found = []
    for category, checks in sorted(by_category.items()):
        held = held_back([every[check] for check in checks], alone)
        counts = Counter(results["checks"][check]["verdict"] for check in checks)
        found.append(
            {
                "category": category,
                "checks": len(checks),
                "counts": dict(sorted(counts.items(), key=lambda pair: ORDER[pair[0]])),
                "judged": sum(counts[word] for word in ("pass", "warn", "fail")),
                "holds": next((tier for tier in TIERS if held[tier]), None),
            }
        )
    return found
