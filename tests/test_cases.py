"""The public cases: what operators reported, in our recorded form, with the verdict of a competent operator.

A description names the cases that it shows (``cases = { pcie-width-x8 = "audit.hardware.pcie_width" }``). The
cases themselves lie outside this repository; where they are present, each is held to what it expects.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from recorded import describe, faulty
from recorded.judge import Judged, judge_all

CASES = Path(os.environ.get("GPUASSAY_SAMPLES", Path(__file__).parents[2] / "shared")) / "cases"
SHOWN = [(case, name, check) for name in faulty() for case, check in describe(name).cases.items()]


@pytest.fixture(scope="module")
def judged() -> dict[str, Judged]:
    """Return what the suite finds in every cluster that shows a case."""
    return dict(judge_all(dict.fromkeys(name for _, name, _ in SHOWN)))


@pytest.mark.parametrize(("case", "name", "check"), SHOWN)
def test_a_public_case_gets_the_verdict_of_a_competent_operator(
    case: str, name: str, check: str, judged: dict[str, Judged]
) -> None:
    """The verdict is one that the case accepts, and the report has every fact that it asks for."""
    expected = _expected(case)
    verdict = judged[name].verdicts[check]
    accepted = {expected["verdict"], *expected["also_acceptable"]}
    # In the cases, a skip that means "was not measured" is our error or unseen.
    if "skip" in accepted:
        accepted |= {"unseen", "error", "skip"} - set(expected["never"])
    assert verdict in accepted
    assert verdict not in expected["never"]
    found = judged[name].results["checks"][check]
    rows = "\n".join(f"{row['where']}: {row['metric']} {row['value']}" for row in found["observations"])
    said = _as_operators_write(f"{judged[name].message(check)}\n{rows}\n{found['title']} {found['fix']}")
    assert [fact for fact in expected["message_facts"] if not re.search(fact, said, re.IGNORECASE)] == [], (
        said
    )


def _expected(case: str) -> dict[str, Any]:
    file = CASES / case / "case.toml"
    if not file.is_file():
        pytest.skip(f"the samples are not here: {case}")
    document: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))["expected"]
    return document


def _as_operators_write(text: str) -> str:
    """Add the ways in which the cases write a GPU: ours is ``gpu3``, theirs ``GPU 3``."""
    theirs = re.sub("gpu([0-9]+)", r"GPU \1", text)
    return f"{text}\n{theirs}"
