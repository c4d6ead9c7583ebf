"""Healthy nodes in service against the contract: one verdict over all checks, at the end of a run.

A check excuses the nodes that it finds sick as long as the contract is kept without them; here they add up.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

from gpuassay.judge.catalog import TIERS
from gpuassay.judge.verdict import Verdict
from gpuassay.report.fold import fold

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

Document: TypeAlias = dict[str, Any]

CONTRACTED = "fleet.contracted"
NOT_RUN = "not_run"
ORDER = ("fail", "error", "unseen", NOT_RUN, "warn", "pass", "skip")

_LOWEST = TIERS.index("bronze")
_CHECK: Document = {
    "category": "reliability",
    "phase": "audit",
    "title": "As many healthy nodes as contracted are in service.",
    "why": "A broken part in one node is the provider's to replace; too few healthy nodes is a breach.",
    "fix": "Replace or repair the nodes on the return list.",
    "source": "the site file: pool.contracted",
    "seat": "tenant",
    "fault": "design",
    "over": "cluster",
    "limits": {"healthy_nodes": "at least pool.contracted"},
}


def contracted(
    pools: Sequence[Mapping[str, Any]], described: Mapping[str, Any], found: Mapping[str, Document]
) -> tuple[Document, Document]:
    """Judge the union over all checks, and say what check this is: that of the lowest tier that it speaks of.

    A tier answers for what its own checks and those below find: nodes that only a check of silver finds
    sick break no promise of bronze. What even a ribbon asks breaks the ribbon.
    """
    component = [
        (TIERS.index(described[check]["tier"]), own)
        for check, own in found.items()
        if described[check]["fault"] == "component"
    ]
    union = _union(pools, [own for _, own in component])
    levels = [_union(pools, [own for tier, own in component if tier <= level]) for level in range(len(TIERS))]
    said = union["verdict"]
    level = next(level for level, own in enumerate(levels) if own["verdict"] == said)
    sick = any(own.get("sick") for tier, own in component if tier == 0)
    if said != Verdict.FAIL.word or not sick:
        level = max(level, _LOWEST)
    return {**_CHECK, "tier": TIERS[_LOWEST if said == Verdict.PASS.word else level]}, union


def _union(pools: Iterable[Mapping[str, Any]], component: Collection[Document]) -> Document:
    sick = {node for own in component for node in own.get("sick", ())}
    doubts = [doubt for own in component for doubt in own.get("doubtful", {}).items()]
    # What did not come as far as single nodes (it was not run, or its process died) leaves all of them open.
    lost = [own["verdict"] for own in component if not own.get("doubtful")]
    rest = next((word for word in ("error", NOT_RUN) if word in lost), Verdict.PASS.word)
    rows = [_row(pool, sick, doubts, rest) for pool in pools if pool["contracted"] is not None]
    rows.sort(key=lambda row: ORDER.index(row["verdict"]))
    return {
        "verdict": rows[0]["verdict"],
        "reason": "; ".join(row["reason"] for row in rows if row["verdict"] == rows[0]["verdict"]),
        "counts": dict(Counter(row["verdict"] for row in rows)),
        "observations": rows,
        "applicable": True,
        "cells": [len(rows), sum(row["verdict"] in ("pass", "fail") for row in rows)],
    }


def _row(pool: Mapping[str, Any], sick: set[str], doubts: Sequence[tuple[str, str]], rest: str) -> Document:
    in_service, sold = set(pool["in_service"]), pool["contracted"]
    proven = in_service - sick
    verdict = Verdict.FAIL.word if len(proven) < sold else ""
    # A silent node is in doubt, also where it was declared to have nothing that a check looks at.
    doubts = [*doubts, *((node, "error") for node in pool["silent"])]
    for word in ("error", "unseen", NOT_RUN):
        proven -= {node for node, doubt in doubts if doubt == word}
        verdict = verdict or (word if len(proven) < sold else "")
    verdict = verdict or rest
    reason = f"pool {pool['name']}: {len(proven)} of {len(in_service)} nodes in service are healthy"
    reason += f", {sold} contracted"
    if unsure := len(in_service - sick - proven):
        reason += f"; {unsure} were not fully judged"
    if verdict in (NOT_RUN, "error") and verdict == rest:
        reason += "; not every check of a component was run"
    return {
        "where": fold(pool["in_service"]),
        "count": 1,
        "at": {},
        "metric": "healthy_nodes",
        "value": len(proven),
        "reference": sold,
        "verdict": verdict,
        "reason": reason,
        "evidence": "",
    }
