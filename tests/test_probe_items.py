"""The questions as data, and the modules that travel: what a security team and an old Python rely on."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from gpuassay.probe import children, items
from gpuassay.target import DEADLINE_S

ALLOWED = {*sys.stdlib_module_names, "pynvml"}  # pynvml travels along
MODULES = sorted(Path(items.__file__).parent.glob("*.py"))


def test_each_question_is_named_once_and_refers_back() -> None:
    """Ids are unique, and a question that depends on another comes after it."""
    seen: list[str] = []
    for question in items.QUESTIONS:
        assert question.id not in seen
        earlier = question.unless.partition(" ")[0]
        assert not earlier or set(earlier.split("/")) <= set(seen)
        seen.append(question.id)


def test_the_whole_probe_has_time_for_all_deadlines() -> None:
    """Even if every question hangs and has to be killed, the local target waits long enough."""
    grace = children.TERM_GRACE_S + children.KILL_GRACE_S
    assert sum(question.deadline_s + grace for question in items.QUESTIONS) < DEADLINE_S


def test_the_listing_says_all_that_is_asked() -> None:
    """Every command, file and library is on the page that is signed, with its limits and its privilege."""
    page = items.listing()
    for question, row in zip(items.QUESTIONS, items.describe(), strict=True):
        assert f"{question.id}: {question.how} {' '.join(question.what)}\n    {question.purpose}\n" in page
        assert f"privilege: {question.privilege}; deadline {question.deadline_s:g} s; cap" in page
        assert row["purpose"].endswith(".")
    assert "only where nvml gave no answer" in page
    assert "only where packages/rpm lists no containerd or containerd.io" in page


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_of_the_probe_is_old_python_and_alone(path: Path) -> None:
    """Its syntax is that of Python 3.9, and it imports the standard library and what travels, no more."""
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    for node in ast.walk(tree):
        assert not isinstance(node, ast.Match)
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            assert name.startswith("gpuassay.probe") or name.partition(".")[0] in ALLOWED
