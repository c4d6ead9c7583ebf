"""``rating.json``: what several runs come to. Everything on the page is in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuassay import __version__
from gpuassay.earlier import stamp
from gpuassay.rating.assessor import lowered
from gpuassay.rating.standings import categories, tiers
from gpuassay.rating.steps import steps
from gpuassay.rating.superseded import superseded
from gpuassay.rating.words import SCHEMA, STATED
from gpuassay.report.results import is_red

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.judge.catalog import TierRule
    from gpuassay.rating.assessor import Assessment
    from gpuassay.rating.merge import Plan
    from gpuassay.rating.words import Document


def rating(
    plan: Plan,
    runs: Sequence[Mapping[str, Any]],
    merged: Mapping[str, Any],
    rules: Mapping[str, TierRule],
    assessment: Assessment | None = None,
) -> Document:
    """Write down a rating; ``runs`` are the results of the plan's sources, in its order.

    The order in which runs were named, and where they lie, leaves no trace.
    """
    each = tiers(merged, rules)
    statements = assessment.statements if assessment else ()
    state, won = merged["tier"]["state"], merged["tier"]["won"]
    rated = lowered(won, statements)
    if won and not rated:
        state = "underperforming"
    return {
        "schema": SCHEMA,
        "statement": STATED,
        "gpuassay": __version__,
        "cluster": merged["recording"]["cluster"],
        "provider": merged["recording"]["provider"],
        "profile": merged["profile"],
        "thresholds": merged["suite"]["thresholds"],
        "rated": {"state": state, "tier": rated, "lowered": rated != won},
        "computed": {key: merged["tier"][key] for key in ("state", "won", "ceiling", "why")},
        "window": _window(plan),
        "runs": [_run(source, own) for source, own in zip(plan.sources, runs, strict=True)],
        "evidence": _evidence(plan, merged),
        "replaced": [record.document() for record in plan.replaced],
        "superseded": superseded(runs, merged),
        "tiers": each,
        "categories": categories(merged, rules),
        "next": steps(merged, each),
        "return_list": merged["return_list"],
        "coverage": merged["coverage"],
        "stamps": merged["stamps"],
        "waivers": merged["waivers"],
        "relaxed": merged["suite"]["relaxed"],
        "assessor": assessment.document() if assessment else None,
        "checks": {check: _check(found) for check, found in merged["checks"].items()},
    }


def _window(plan: Plan) -> Document:
    begins = [source.begin or source.clock for source in plan.sources]
    return {"begin": stamp(min(begins)), "end": stamp(plan.base.clock)}


def _run(source: Any, results: Mapping[str, Any]) -> Document:
    return {
        "recording": source.digest,
        "seal": source.seal,
        "begin": stamp(source.begin),
        "end": stamp(source.clock),
        "target": source.target,
        "synthetic": source.synthetic,
        "state": results["tier"]["state"],
        "won": results["tier"]["won"],
        "red": is_red(results),
    }


def _evidence(plan: Plan, merged: Mapping[str, Any]) -> Document:
    return {
        "recording": merged["recording"]["digest"],
        "gather": plan.base.digest,
        "measurements": [
            {
                "measurement": take.measurement,
                "recording": take.source.digest,
                "end": stamp(take.source.clock),
                "nodes": len(take.nodes),
                "left_out": [{"where": node, "reason": why} for node, why in take.left_out.items()],
            }
            for take in plan.takes
        ],
        "refused": [
            {"measurement": name, "recording": source.digest, "reason": why}
            for name, source, why in plan.refused
        ],
    }


def _check(found: Mapping[str, Any]) -> Document:
    kept = ("title", "category", "tier", "phase", "verdict", "reason")
    return {key: found[key] for key in kept}
