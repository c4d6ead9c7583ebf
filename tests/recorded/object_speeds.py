"""What healthy nodes tell of objects that they moved to a store and back; made up, like their cluster."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from gpuassay.judge.catalog import load_catalog
from gpuassay.measure import NODE_SURVEYS, object_cases
from gpuassay.measure.object_nodes import NODE, REMOVED
from recorded.description import FIXTURES
from recorded.items import library, made_up

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.evidence.item import Item
    from gpuassay.judge.catalog import Measurement
    from gpuassay.judge.fact import Scalar
    from gpuassay.measure.object_cases import Case

NAME = "object_speed"
READ, WRITE = 11.4, 8.2  # GB/s of one node
OF_SMALL = 0.12  # small objects cost mostly time
MS = {"read": 6.1, "write": 14.8}
SPREAD = 0.02
TIMES = {"p50": 1.0, "p90": 1.7, "p99": 3.9, "p100": 8.2}


def services(names: Sequence[str]) -> list[Item]:
    """Return what each node told, and what became of the objects."""
    return told(NAME, {name: _document(name, names) for name in names})


def told(survey: str, documents: Mapping[str, Mapping[str, Any]], **more: Scalar) -> list[Item]:
    """Return the answers of a survey of objects: the bucket, what each node told, and that all is removed."""
    bucket = {"bucket": "acceptance", "made": False, "prefix": f"gpuassay-{made_up(survey)}"}
    items = {
        "bucket": bucket,
        **{f"{NODE}{name}": document for name, document in documents.items()},
        REMOVED: {"left": [], "left_count": 0, "errors": []},
    }
    asked = {"survey": survey, "method": NODE_SURVEYS[survey].method, "args": dict(measurement(survey).args)}
    asked |= more
    answers = (library(f"survey/{survey}/{name}", "", document) for name, document in items.items())
    return [replace(one, asked=asked) for one in answers]


@cache
def measurement(survey: str) -> Measurement:
    """Return a measurement as the catalogue has it."""
    root = FIXTURES.parents[1]
    return load_catalog(root / "thresholds.toml", root / "advisories.toml").measurements[survey]


def made_from(survey: str = NAME) -> str:
    """Return all that decides what is measured: a recording that was made of anything else is stale."""
    return repr((measurement(survey).args, NODE_SURVEYS[survey].method))


def _document(name: str, names: Sequence[str]) -> dict[str, Any]:
    args = measurement(NAME).args
    before = names[(list(names).index(name) - 1) % len(names)]
    rows = [
        _row(case, act, name, before)
        for case in object_cases.cases(args, tiny=False)
        for act in ("write", "read")
    ]
    return {"node": name, "method": NODE_SURVEYS[NAME].method, "tiny": False, "rows": rows}


def _row(case: Case, act: str, name: str, before: str) -> dict[str, Any]:
    args = measurement(NAME).args
    draw = random.Random(f"{name}/{case.size}/{act}")  # noqa: S311 - made up
    most = (READ if act == "read" else WRITE) * (OF_SMALL if case.size == args["small"] else 1.0)
    rates = [most * draw.uniform(1 - SPREAD, 1 + SPREAD) for _ in range(int(args["repeats"]))]
    ms = MS[act] * (1.0 if case.size == args["small"] else 4.4) * draw.uniform(1 - SPREAD, 1 + SPREAD)
    return {
        "case": case.name,
        "act": act,
        "status": "ok",
        "size": case.size,
        "streams": args["streams"],
        "from": before if act == "read" else "",
        "rounds": [{"seconds": round(case.bytes / rate / 1e9, 6), "bytes": case.bytes} for rate in rates],
        "ms": {name: round(ms * times, 3) for name, times in TIMES.items()},
        "requests": case.requests * int(args["repeats"]),
        "slow_downs": 0,
        "errors": 0,
        "wrong": 0,
        "lost": 0,
        "unmoved": 0,
        "said": [],
    }
