"""Results documents for the tests of the reports: built by hand, in the shape of results.json."""

from __future__ import annotations

from collections import Counter
from typing import Any

Document = dict[str, Any]

ORDER = ("skip", "pass", "warn", "unseen", "error", "fail")


def row(where: str, verdict: str = "pass", count: int = 1, **more: Any) -> Document:
    """Make one folded observation."""
    fields = {"at": {}, "metric": "pending", "value": False, "reference": None, "reason": "", "evidence": ""}
    return {"where": where, "count": count, "verdict": verdict, **fields, **more}


def check(*rows: Document, **more: Any) -> Document:
    """Make one check; its verdict and counts follow from its rows unless they are given."""
    counts: Counter[str] = Counter()
    for each in rows:
        counts[each["verdict"]] += each["count"]
    fields = {
        "verdict": max((each["verdict"] for each in rows), key=ORDER.index, default="not_run"),
        "category": "reliability",
        "tier": "bronze",
        "phase": "audit",
        "title": "No GPU waits for a reset to repair its memory, and none is beyond repair.",
        "why": "A pending remap takes effect only at a reset, a failed one never.",
        "fix": "drain the node and reset the GPU; return it if a remap has failed.",
        "source": "NVIDIA, GPU memory error management",
        "seat": "tenant",
        "fault": "component",
        "over": "gpu",
        "reason": "",
        "limits": {"pending": "is false"},
    }
    return {**fields, "counts": dict(counts), "observations": list(rows), **more}


def tier(state: str = "not_rated", **more: Any) -> Document:
    """Make the tier part; the arithmetic is of a made-up cluster, not of the checks beside it."""
    arithmetic = [
        _sum("ribbon", 3, won=True, passed=2, skipped=1),
        _sum("bronze", 8, won=False, possible=True, passed=5, warn=1, unseen=1, skipped=1),
        _sum("silver", 9, won=False, possible=True, passed=6, warn=1, unseen=1, skipped=1),
        _sum("gold", 10, won=False, possible=False, passed=6, warn=1, fail=1, unseen=1, skipped=1),
        _sum(
            "platinum",
            10,
            won=False,
            possible=False,
            allowed=0,
            passed=6,
            warn=1,
            fail=1,
            unseen=1,
            skipped=1,
        ),
    ]
    return {
        "state": state,
        "won": None,
        "ceiling": "silver",
        "why": "1 check that bronze needs was not judged.",
        "held_by": {
            "won": [held("bronze", "audit.health.xid", "unseen", "no kernel log in this container")],
            "ceiling": [held("gold", "audit.health.row_remaps", "fail", "1 GPU waits for a reset")],
        },
        "arithmetic": arithmetic,
        **more,
    }


def held(level: str, check_id: str, verdict: str, reason: str) -> Document:
    """Make one line of what holds a tier."""
    return {"tier": level, "check": check_id, "verdict": verdict, "reason": reason}


def _sum(
    level: str, checks: int, *, won: bool, possible: bool = True, allowed: int = 3, **counts: int
) -> Document:
    names = {"passed": "pass", "skipped": "skip"}
    zero = dict.fromkeys(("pass", "warn", "fail", "error", "unseen", "skip", "not_run"), 0)
    counted = {**zero, **{names.get(key, key): n for key, n in counts.items()}}
    return {
        "tier": level,
        "checks": checks,
        "counts": counted,
        "warnings_allowed": allowed,
        "won": won,
        "possible": possible,
    }


def results(checks: Document | None = None, **more: Any) -> Document:
    """Make a whole document; without checks, one of each verdict."""
    found = one_of_each() if checks is None else checks
    fields = {
        "schema": 1,
        "suite": {"version": "2026.11.0", "thresholds": "ab" * 32, "relaxed": [], "tightened": []},
        "recording": {
            "digest": "cd" * 32,
            "seal": "sealed",
            "begin": "2026-11-30T09:00:00Z",
            "end": "2026-11-30T09:00:42Z",
            "synthetic": False,
            "cluster": "atlas",
            "provider": "Example Cloud",
        },
        "earlier": None,
        "placement": placement(),
        "target": "local",
        "profile": "acceptance",
        "stamps": [],
        "tier": tier(),
        "coverage": {
            "nodes": {"declared": 4, "answered": 4, "out": 0},
            "checks": {"expected": 7, "applicable": 6, "judged": 4, "not_run": 1},
            "cells": {"expected": 320, "judged": 287},
        },
        "out_of_service": [],
        "return_list": [],
        "waivers": [],
        "problems": [],
        "checks": found,
    }
    return {**fields, **more}


def one_of_each() -> Document:
    """Make seven checks, one of each verdict and one that was not run."""
    return {
        "audit.health.row_remaps": check(
            row("gpu[001-002,004]/gpu[0-7],gpu003/gpu[0-4,6-7]", count=31),
            row("gpu003/gpu5", "fail", value=True, reason="a remap is pending", evidence="nodes/gpu003#12"),
            reason="1 GPU waits for a reset",
        ),
        "audit.network.gid": check(
            row("gpu[001-003]/mlx5_0/1", count=3, metric="routable", value=True),
            row("gpu004/mlx5_0/1", "error", metric="routable", value=None, reason="timed out after 10 s"),
            category="networking",
            over="port",
            reason="1 port was not judged",
            limits={},
        ),
        "audit.host.memlock": check(
            row("gpu[001-004]", "warn", 4, metric="soft_gib", value=8.0, reason="below 64 GiB"),
            over="node",
            limits={"soft_gib": "warns below 64 GiB"},
            reason="4 nodes",
        ),
        "audit.health.xid": check(
            row("gpu[001-004]", "unseen", 4, metric="serious", value=None, reason="no kernel log"),
            over="node",
            seat="host",
            reason="no kernel log in this container",
        ),
        "perf.gemm.bf16": check(phase="perf", category="compute", reason="needs --allow=load"),
        "audit.health.ecc": check(row("gpu[001-004]/gpu[0-7]", count=32, metric="current", value=True)),
        "audit.access.ib": check(
            row("gpu[001-004]", "skip", 4, metric="state", value=None, reason="no InfiniBand"),
            category="networking",
            over="node",
            reason="no node has infiniband",
        ),
    }


def earlier(**more: Any) -> Document:
    """Make what results say of an earlier recording."""
    fields = {
        "digest": "ef" * 32,
        "seal": "sealed",
        "begin": "2026-11-01T09:00:00Z",
        "end": "2026-11-01T09:00:40Z",
        "synthetic": False,
        "new": [],
        "gone": [],
    }
    return {**fields, **more}


def placement(**more: Any) -> Document:
    """Make what results say of where the nodes are: below one leaf, unless told otherwise."""
    leaf = {"leaf": "leaf0", "above": "spine", "nodes": "gpu[001-004]", "count": 4}
    fields = {
        "by": "Slurm's topology",
        "says": "4 nodes are below one leaf, by Slurm's topology: spine not tested",
        "limits": "spine not tested",
        "leaves": [leaf],
    }
    return {**fields, **more}
