"""The suite that pytest was asked for: where it lies, its tables, and what its checks say of themselves."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from gpuassay.fault.node.main import FAULTS
from gpuassay.judge.catalog import load_catalog
from gpuassay.measure import MOUNT_TOOLS, NODE_SURVEYS, SURVEYS, TOOLS
from gpuassay.measure.burn_in import BURN_IN
from gpuassay.measure.endured import ENDURED
from gpuassay.measure.workloads import WORKLOADS
from gpuassay.rebooted import REBOOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gpuassay.judge.catalog import Catalog, Check

PHASES = {"tests_audit": "audit", "tests_perf": "perf", "tests_reliability": "reliability"}
THRESHOLDS = "thresholds.toml"


class SuiteError(Exception):
    """The suite's checks and tables do not agree; the message lists every mistake, a line each."""


@dataclass(frozen=True, slots=True)
class Doc:
    """What a check says of itself in its docstring: one line, the reason behind it, and the remedy."""

    title: str
    why: str
    fix: str


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite: its folder, its tables, and its checks' own words by check id."""

    root: Path
    catalog: Catalog
    docs: Mapping[str, Doc]


def find_root(arguments: Iterable[str], folder: Path) -> Path | None:
    """Find the suite that pytest's positional arguments ask for; None if they ask for something else.

    A suite is a folder with ``thresholds.toml`` and at least one of ``tests_audit``, ``tests_perf``
    and ``tests_reliability``; an argument asks for it when it names it, or something in one of these.

    Raises SuiteError if the arguments name two suites.
    """
    roots = set()
    for argument in arguments:
        path = (folder / argument.split("::")[0]).resolve()
        for candidate, inside in [(path, True), *((up, False) for up in path.parents)]:
            part = "" if inside else path.relative_to(candidate).parts[0]
            if (inside or part in PHASES) and _is_root(candidate):
                roots.add(candidate)
                break
    if len(roots) > 1:
        named = " and ".join(str(root) for root in sorted(roots))
        raise SuiteError(f"one run judges with one suite, and two were named: {named}")
    return roots.pop() if roots else None


def load_suite(root: Path, thresholds: Path | None = None) -> Suite:
    """Read a suite's tables and its checks' sources, and hold them against each other.

    Raises ConfigError for a mistake in a table and SuiteError where checks and tables disagree.
    """
    catalog = load_catalog(thresholds or root / THRESHOLDS, root / "advisories.toml")
    docs: dict[str, Doc] = {}
    mistakes = list(_unmeasurable(catalog))
    for source in _sources(root):
        for function in _checks(source, mistakes):
            check = check_id(root, source, function.name) or ""
            wrong = _mistakes(function, check, catalog.checks.get(check))
            mistakes += [f"{_place(source, function)} {words}" for words in wrong]
            docs[check] = _doc(function) or Doc("", "", "")
    mistakes += [
        f"{THRESHOLDS}: [{check.id}] has no check {check.path}"
        for check in catalog.checks.values()
        if check.id not in docs
    ]
    if mistakes:
        raise SuiteError("\n".join(mistakes))
    return Suite(root, catalog, docs)


def _unmeasurable(catalog: Catalog) -> Iterator[str]:
    """Name each measurement whose tool, workload or fault does not exist."""
    there = {
        "tool": (*TOOLS, *MOUNT_TOOLS, *NODE_SURVEYS, *SURVEYS, REBOOT),
        "workload": (*WORKLOADS, BURN_IN.name, *ENDURED),
        "fault": tuple(FAULTS),
    }
    for one in catalog.measurements.values():
        kind, name = next((word, name) for word in there if (name := getattr(one, word)))
        known = there[kind]
        if name not in known:
            place = f"{THRESHOLDS}: [measure.{one.name}] {kind}"
            yield f"{place}: there is no {name}; expected one of {', '.join(known)}"


def check_id(root: Path, path: Path, function: str) -> str | None:
    """Give the id of the check that a test function is; None for a test that is no check of this suite."""
    if not path.is_relative_to(root):
        return None
    folder, *rest = path.relative_to(root).parts
    if folder not in PHASES or len(rest) != 1:
        return None
    area = Path(rest[0]).stem.removeprefix("test_")
    return f"{PHASES[folder]}.{area}.{function.removeprefix('test_')}"


def is_phase(folder: Path) -> bool:
    """Tell whether a folder holds the checks of a phase of some suite."""
    return folder.name in PHASES and _is_root(folder.parent)


def _is_root(folder: Path) -> bool:
    try:
        return (folder / THRESHOLDS).is_file() and any((folder / phase).is_dir() for phase in PHASES)
    except OSError:  # a folder that may not be searched, or a name too long: pytest says what is wrong
        return False


def _sources(root: Path) -> list[Path]:
    return [source for phase in PHASES for source in sorted((root / phase).glob("test_*.py"))]


def _checks(source: Path, mistakes: list[str]) -> list[ast.FunctionDef]:
    """Find the checks in a source, and note what pytest would run as a test and is no check.

    They are read, not imported: under xdist the controller collects nothing, and needs them too.
    """
    try:
        module = ast.parse(source.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError) as error:  # ValueError: no UTF-8, or a null byte
        mistakes.append(f"{source.parent.name}/{source.name} cannot be read: {error}")
        return []
    tests = [node for node in ast.walk(module) if _is_test(node)]
    checks = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef) and node in tests}
    mistakes += [
        f"{_place(source, node)} must be a plain function, once, and at the top of its file"
        for node in tests
        if node not in checks.values()
    ]
    return list(checks.values())


def _is_test(node: ast.AST) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    if isinstance(node, ast.ClassDef):
        return node.name.startswith("Test")
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")


def _place(source: Path, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    return f"{source.parent.name}/{source.name}::{node.name}"


def _mistakes(function: ast.FunctionDef, check: str, table: Check | None) -> Iterator[str]:
    """Say what is wrong with a check, alone and beside its table."""
    if table is None:
        yield f"has no table [{check}] in {THRESHOLDS}"
    else:
        for metric in sorted(_observed(function) - set(table.limits)):
            yield f"observes {metric}, and [{check}] has no limit for it"
    if function.decorator_list:  # parametrize would change ids, skip and xfail would let it excuse itself
        yield "has a decorator, and a check can have none"
    if _doc(function) is None:
        yield "needs a docstring with a title, the reason behind it, and a part 'Fix: …'"


def _observed(function: ast.FunctionDef) -> set[str]:
    """Name the metrics of the ``observe(…)`` calls in a check."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    observes = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "observe"]
    return {word.arg for call in observes for word in call.keywords if word.arg} - {"at"}


def _doc(function: ast.FunctionDef) -> Doc | None:
    said, _, fix = (ast.get_docstring(function) or "").partition("\nFix:")
    title, _, why = said.strip().partition("\n")
    if not (title and why.strip() and fix.strip()):
        return None
    return Doc(title.strip(), _one_line(why), _one_line(fix))


def _one_line(text: str) -> str:
    return " ".join(text.split())
