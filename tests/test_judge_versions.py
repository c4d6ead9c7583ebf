"""Versions: each scheme orders as those do who invented it, and refuses what it cannot order."""

from __future__ import annotations

import shutil
import subprocess
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuassay.judge.versions import SCHEMES, branch, line_of

# Each list is in rising order; versions on one line of it are equal.
RISING: dict[str, list[tuple[str, ...]]] = {
    "dotted": [
        ("0", "0.0"),
        ("9.9.9",),
        ("13.1", "13.1.0"),
        ("535.288.01",),
        ("580.95.05",),
        ("580.126.9", "580.126.09"),
    ],
    "pep440": [
        ("1.4.0-rc.3", "1.4rc3"),
        ("1.4.0", "v1.4"),
        ("1.4.0.post1",),
        ("1.10",),
        ("2.9.0.dev1",),
        ("2.9.0+cu128",),
    ],
    # deb-version(7): "~" before the end of a part, letters before other characters, no revision is 0
    "debian": [
        ("1.0~~",),
        ("1.0~~a",),
        ("1.0~rc1-1",),
        ("1.0", "1.0-0", "0:1.0"),
        ("1.0-1~bpo12+1",),
        ("1.0-1", "1.00-01"),
        ("1.0a",),
        ("1.0+dfsg",),
        ("1.0.1",),
        ("1.9",),
        ("1.10-2ubuntu3",),
        ("1:0.1",),
    ],
    # rpm-version(7): "~" before the end of a part, "^" right after it, letters before numbers
    "rpm": [
        ("1.0~rc1",),
        ("1.0", "1_0", "01.0", "0:1.0"),
        ("1.0-1.el9",),
        ("1.0-10.el9",),
        ("1.0^20260101git",),
        ("1.0a",),
        ("1.0.1",),
        ("1.10",),
        ("2:0.5-1",),
    ],
}
REFUSED = {
    "dotted": ["", "580.", ".580", "580.95.05-1", "v580", "580.x", " 580", "580\n", "٥٨٠"],
    "pep440": ["", "one", "1.0-0ubuntu1", "1..0"],
    "debian": ["", "a1.0", "1.0-", "1.0 1", "x:1.0", "1.0_1", "1.0\n"],
    "rpm": ["", "abc", "1.0-1-1", "1.0 1", "1.0-", "1.0\n"],
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_rising(scheme: str) -> None:
    """Every version of a line is older than every one of the next, and equal to those beside it."""
    order: Any = SCHEMES[scheme]
    for older, newer in pairwise(RISING[scheme]):
        assert all(order(one) < order(other) for one in older for other in newer), (older, newer)
    for equal in RISING[scheme]:
        assert all(order(one) == order(equal[0]) for one in equal), equal


@pytest.mark.parametrize(
    ("scheme", "text"), [(scheme, text) for scheme, texts in REFUSED.items() for text in texts]
)
def test_refused(scheme: str, text: str) -> None:
    """A version that a scheme has no rule for is a ValueError, not a guess."""
    with pytest.raises(ValueError, match=r"is not|Invalid version"):
        SCHEMES[scheme](text)


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(deadline=None)  # a busy machine is no defect
@given(text=st.one_of(st.text(), st.text("019.~^-+:abv")), other=st.text("019.~^-+:abv"))
def test_total(scheme: str, text: str, other: str) -> None:
    """Any text is either refused or ordered; what is ordered is comparable with all that is ordered."""
    order: Any = SCHEMES[scheme]
    try:
        mine, yours = order(text), order(other)
    except ValueError:
        return
    assert (mine < yours) + (yours < mine) + (mine == yours) == 1


def test_dpkg_agrees() -> None:
    """The real dpkg has the same opinion of every pair in the list above."""
    if not shutil.which("dpkg"):
        pytest.skip("needs dpkg: apt-get install dpkg")
    texts = [text for equal in RISING["debian"] for text in equal]
    order: Any = SCHEMES["debian"]
    for one, other in pairwise(texts):
        relation = "lt" if order(one) < order(other) else "eq"
        assert (
            subprocess.run(["dpkg", "--compare-versions", one, relation, other], check=False).returncode == 0
        )


def test_line_of() -> None:
    """A version belongs to the longest line that its components begin with, however either is written."""
    lines = ["580", "58", "1.5", "1", "1:8.2"]
    assert line_of("580.159.03", lines) == "580"
    assert line_of("58.1", lines) == "58"
    assert line_of("5.80", lines) is None
    assert line_of("v1.5.0-rc.3", lines) == "1.5"
    assert line_of("1.50", lines) == "1"
    assert line_of("1:8.2.2+ds-0ubuntu1", lines) == "1:8.2"
    assert line_of("580", lines) == "580"
    assert line_of("", lines) is None


def test_branch() -> None:
    """A version is cut to the length of a line, so that a report can name the branch."""
    assert branch("550.54.15", "580") == "550"
    assert branch("1.0.3", "1.5") == "1.0"
    assert branch("550", "580.1") == "550"
    assert branch("…", "580") == "…"
