"""Suites: found by what pytest is asked for, and read before anything runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from gpuassay.judge.config import ConfigError
from gpuassay.suite import Doc, SuiteError, check_id, find_root, load_suite
from judging import HEAD, table

if TYPE_CHECKING:
    from pathlib import Path

CHECK = '''
def test_b(fleet, observe):
    """One is one.

    For else nothing adds up,
    and nobody knows why.

    Fix: count again,
    on paper.
    """
    for node in fleet.nodes:
        observe(node, value=1)
'''


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Write a suite with one check."""
    return write(tmp_path / "suite")


def write(folder: Path, checks: str = CHECK, tables: str = "") -> Path:
    """Write a suite; HEAD's own products speak of the check `audit.a.b`, so it is always there."""
    (folder / "tests_audit").mkdir(parents=True, exist_ok=True)
    (folder / "thresholds.toml").write_text(HEAD + (tables or table(over="node")), encoding="utf-8")
    (folder / "advisories.toml").write_text("", encoding="utf-8")
    (folder / "tests_audit" / "test_a.py").write_text(checks, encoding="utf-8")
    return folder


# --- where it is ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "argument",
    [
        "suite",
        "suite/",
        "suite/tests_audit",
        "suite/tests_audit/test_a.py",
        "suite/tests_audit/test_a.py::test_b",
        "suite/tests_audit/not_there.py",
        "suite/../suite/tests_audit",
    ],
)
def test_a_suite_is_asked_for_by_its_folder_or_anything_in_its_phases(root: Path, argument: str) -> None:
    """As people type it, from where they are."""
    assert find_root([argument], root.parent) == root
    assert find_root([str(root.parent / argument)], root) == root


@pytest.mark.parametrize(
    "argument", [".", "suite/tests", "suite/thresholds.toml", "suite/docs/tests_audit", "../x"]
)
def test_other_arguments_ask_for_no_suite(root: Path, argument: str) -> None:
    """The suite's own tests, a folder above it, or something of that name elsewhere: the plugin stays out."""
    (root / "docs" / "tests_audit").mkdir(parents=True)
    assert find_root([argument], root.parent) is None


def test_a_folder_is_no_suite_without_tables_or_phases(root: Path) -> None:
    """Other people have folders named tests_audit, and files named thresholds.toml."""
    (root / "thresholds.toml").rename(root / "limits.toml")
    assert find_root(["suite/tests_audit"], root.parent) is None


def test_what_cannot_even_be_looked_at_is_no_suite(tmp_path: Path) -> None:
    """A name that no file can have is pytest's to complain about."""
    assert find_root(["x" * 300], tmp_path) is None


def test_two_suites_in_one_run_are_a_mistake(root: Path) -> None:
    """They would need two recordings and two reports; the same one twice is one."""
    write(root.parent / "other")
    assert find_root(["suite", "suite/tests_audit"], root.parent) == root
    with pytest.raises(SuiteError, match=r"two were named: .*/other and .*/suite"):
        find_root(["suite", "other"], root.parent)


def test_the_innermost_suite_is_meant(root: Path) -> None:
    """A copy inside a suite's phase is a suite of its own."""
    inner = write(root / "tests_audit" / "copy")
    assert find_root([str(inner / "tests_audit")], root) == inner


# --- what it says --------------------------------------------------------------------------------


def test_a_check_is_read_with_its_title_reason_and_fix(root: Path) -> None:
    """Line breaks of the source are none of the report's."""
    suite = load_suite(root)

    assert list(suite.catalog.checks) == ["audit.a.b"]
    assert suite.docs["audit.a.b"] == Doc(
        "One is one.", "For else nothing adds up, and nobody knows why.", "count again, on paper."
    )


def test_other_tables_can_be_asked_for(root: Path, tmp_path: Path) -> None:
    """They must agree with the checks as well; the advisories stay the suite's own."""
    other = tmp_path / "mine.toml"
    other.write_text(HEAD + table("value = { is = 2 }", over="node"), encoding="utf-8")
    assert load_suite(root, other).catalog.checks["audit.a.b"].limits["value"].text == "is 2"

    other.write_text(
        HEAD + table("other = { is = 2 }", over="node").replace("value", "other"), encoding="utf-8"
    )
    with pytest.raises((SuiteError, ConfigError)):
        load_suite(root, other)


def renamed(name: str) -> str:
    """Write one more check under another name."""
    return CHECK.replace("test_b", name)


@pytest.mark.parametrize(
    ("checks", "says"),
    [
        (CHECK + renamed("test_c"), r"tests_audit/test_a\.py::test_c has no table \[audit\.a\.c\]"),
        ("", r"thresholds\.toml: \[audit\.a\.b\] has no check tests_audit/test_a\.py::test_b"),
        (renamed("help_b"), r"\[audit\.a\.b\] has no check"),
        (
            CHECK.replace("value=1", "value=1, other=2"),
            r"test_b observes other, and \[audit\.a\.b\] has no limit",
        ),
        (CHECK.replace("Fix: ", "Remedy: "), "test_b needs a docstring with a title, the reason"),
        (CHECK.replace("Fix: count again,\n    on paper.", "Fix:"), "test_b needs a docstring"),
        (re.sub(r"\n    For .*why\.\n", "", CHECK, flags=re.DOTALL), "test_b needs a docstring"),
        (re.sub('""".*"""', "", CHECK, flags=re.DOTALL), "test_b needs a docstring"),
        ("import pytest\n@pytest.mark.skip" + CHECK, "test_b has a decorator, and a check can have none"),
        ("import pytest\n@pytest.mark.parametrize('x', [1])" + CHECK, "test_b has a decorator"),
        (CHECK + renamed("test_b"), r"test_a\.py::test_b must be a plain function, once"),
        (
            CHECK + f"class TestB:{renamed('test_b')}".replace("\n", "\n    "),
            "::TestB must be a plain function",
        ),
        ("if True:" + CHECK.replace("\n", "\n    "), "::test_b must be a plain function"),
        (CHECK + renamed("test_c").replace("def ", "async def "), "::test_c must be a plain function"),
        ("def test_b(:\n", r"tests_audit/test_a\.py cannot be read: invalid syntax"),
        ("x = '\0'", r"tests_audit/test_a\.py cannot be read"),
    ],
)
def test_what_does_not_agree_is_named(tmp_path: Path, checks: str, says: str) -> None:
    """No table, no check, no limit, no docstring, a way to excuse itself: each by its name."""
    with pytest.raises(SuiteError, match=says):
        load_suite(write(tmp_path, checks))


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    """A line each, so that nobody has to start over for every one."""
    root = write(tmp_path, renamed("test_c").replace("Fix:", "") + renamed("test_d"))
    with pytest.raises(SuiteError) as caught:
        load_suite(root)
    assert len(str(caught.value).splitlines()) == 4


def test_a_source_that_is_no_text_is_named(root: Path) -> None:
    """Bytes that are not UTF-8 are a mistake like any other."""
    (root / "tests_audit" / "test_z.py").write_bytes(b"\xff\xfe")
    with pytest.raises(SuiteError, match=r"tests_audit/test_z\.py cannot be read"):
        load_suite(root)


def test_mistakes_in_a_table_come_first(tmp_path: Path) -> None:
    """They name the file, the table and the key."""
    with pytest.raises(ConfigError, match=r"thresholds\.toml: \[audit\.a\.b\] over"):
        load_suite(write(tmp_path, tables=table(over="rack")))


# --- ids -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "name", "check"),
    [
        ("tests_audit/test_health.py", "test_row_remaps", "audit.health.row_remaps"),
        ("tests_perf/test_gemm.py", "test_bf16", "perf.gemm.bf16"),
        ("tests_audit/sub/test_health.py", "test_row_remaps", None),
        ("tests/test_health.py", "test_row_remaps", None),
        ("../tests_audit/test_health.py", "test_row_remaps", None),
    ],
)
def test_an_id_is_the_path(tmp_path: Path, path: str, name: str, check: str | None) -> None:
    """Only a function in a file right in a phase's folder of this suite is a check."""
    assert check_id(tmp_path, (tmp_path / path).resolve(), name) == check
