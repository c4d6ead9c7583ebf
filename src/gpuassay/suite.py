"""The suite that pytest was asked for: where it lies, its tables, and what its checks say of themselves."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuassay.judge.catalog import load_catalog

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gpuassay.judge.catalog import Catalog

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
    docs, mistakes = {}, []
    for check, place, function in _checks(root):
        if check not in catalog.checks:
            mistakes.append(f"{place} has no table [{check}] in {THRESHOLDS}")
            continue
        unknown = sorted(_observed(function) - set(catalog.checks[check].limits))
        mistakes += [f"{place} observes {metric}, and [{check}] has no limit for it" for metric in unknown]
        doc = _doc(ast.get_docstring(function) or "")
        if doc is None:
            mistakes.append(
                f"{place}: its docstring needs a title, the reason behind it, and a part 'Fix: …'"
            )
        else:
            docs[check] = doc
    known = {check for check, _, _ in _checks(root)}
    mistakes += [
        f"{THRESHOLDS}: [{check.id}] has no check {check.path}"
        for check in catalog.checks.values()
        if check.id not in known
    ]
    if mistakes:
        raise SuiteError("\n".join(mistakes))
    return Suite(root, catalog, docs)


def check_id(root: Path, path: Path, function: str) -> str | None:
    """Give the id of the check that a test function is; None for a test that is no check of this suite."""
    if not path.is_relative_to(root):
        return None
    folder, *rest = path.relative_to(root).parts
    if folder not in PHASES or len(rest) != 1:
        return None
    area = Path(rest[0]).stem.removeprefix("test_")
    return f"{PHASES[folder]}.{area}.{function.removeprefix('test_')}"


def _is_root(folder: Path) -> bool:
    return (folder / THRESHOLDS).is_file() and any((folder / phase).is_dir() for phase in PHASES)


def _checks(root: Path) -> Iterator[tuple[str, str, ast.FunctionDef]]:
    """Find the checks in the sources: under xdist the controller collects nothing, and needs them too."""
    for phase in PHASES:
        for source in sorted((root / phase).glob("test_*.py")):
            for node in ast.parse(source.read_text(encoding="utf-8"), str(source)).body:
                if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                    check = check_id(root, source, node.name)
                    if check is not None:
                        yield check, f"{phase}/{source.name}::{node.name}", node


def _observed(function: ast.FunctionDef) -> set[str]:
    """Name the metrics of the ``observe(…)`` calls in a check."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    observes = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "observe"]
    return {word.arg for call in observes for word in call.keywords if word.arg} - {"at"}


def _doc(text: str) -> Doc | None:
    said, _, fix = text.partition("\nFix:")
    title, _, why = said.strip().partition("\n")
    if not (title and why.strip() and fix.strip()):
        return None
    return Doc(title.strip(), _one_line(why), _one_line(fix))


def _one_line(text: str) -> str:
    return " ".join(text.split())
