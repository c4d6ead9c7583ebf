"""A workload through the launcher, for real: its text travels, its ranks meet, and each prints a document."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.measure import errand
from gpuassay.target import Job
from gpuassay.target.jobs import IMAGE
from gpuassay.target.local import Local
from gpuassay.target.progress import Tally

if TYPE_CHECKING:
    from gpuassay.target import Results

ORDER: dict[str, Any] = {"workload": "gemm", "method": 1, "seconds": 1, "warm": True}
CASE = {"format": "float32", "m": 64, "n": 64, "k": 64}


def run(argv: tuple[str, ...], ranks: int, **order: object) -> Results:
    """Run an order on this machine."""
    here = Local()
    feed = errand.pack({**ORDER, **order})
    job = Job("gemm", argv, here.declared(), ranks, {IMAGE: "torch@sha256:01"}, deadline_s=300.0, feed=feed)
    return here.run(job, Tally(1, lambda _line: None))


def test_two_ranks_of_a_workload_meet_and_report() -> None:
    """The packed text runs in a Python that need not know this package, and both ranks work at once."""
    pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
    found = run(errand.ARGV, 2, cases=[CASE, CASE])

    documents = [json.loads(item.out) for _, item in sorted(found.items())]
    assert [document["rank"] for document in documents] == [0, 1]
    assert [[row["together"] for row in document["rows"]] for document in documents] == [[2, 2], [2, 2]]
    assert all(row["status"] == "ok" for document in documents for row in document["rows"])
    assert documents[0]["versions"]["torch"]
    assert documents[0]["image"] == "torch@sha256:01"  # as a target says it that starts images


def test_a_python_without_torch_says_so() -> None:
    """In the document, for a report to show: not as a rank that died."""
    python, *rest = errand.ARGV

    (item,) = run((python, "-S", *rest), 1, cases=[]).values()
    assert json.loads(item.out)["failed"] == "ModuleNotFoundError: No module named 'torch'"
