"""Write docs/checks.md and docs/reference.md from the code; with --check, fail when one is stale."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import reference

from gpuassay.suite import load_suite

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuassay.suite import Suite

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CRITERIA = ROOT / "docs" / "criteria.toml"
HEAD = """# Checks

Written by `.ci/docs.py` from the checks and `thresholds.toml`; do not edit.

A check observes; `thresholds.toml` says what is good. *Tier* is the lowest tier that needs the check,
*seat* is from where it can be seen, *component* marks a broken part (the node goes on the return list)
as against a wrong design.
"""

CRITERIA_HEAD = """
## ClusterMAX's public criteria

All {all} of `docs/criteria.toml`: {graded} have a check, {seats} only a seat from which they could be seen.

| criterion | graded by |
|---|---|
"""


EXPECTATIONS_HEAD = """
### What it expects of health checks and dashboards

| expectation | graded by |
|---|---|
"""


def page(suite: Suite) -> str:
    """Render the page."""
    parts = [HEAD]
    for check in sorted(suite.catalog.checks.values(), key=lambda check: check.id):
        doc = suite.docs[check.id]
        limits = "\n".join(f"| `{metric}` | {limit.text} |" for metric, limit in check.limits.items())
        needs = ", ".join(check.needs) or "nothing"
        asked = f" · profile {', '.join(check.profiles)} only" if check.profiles else ""
        parts.append(f"""
## {check.id}

**{doc.title}** {doc.why}

*Fix:* {doc.fix}

{check.category} · tier {check.tier} · over {check.over} · needs {needs} · seat {check.seat} ·
{check.fault}{asked} · `{check.path}`

| metric | judged |
|---|---|
{limits}

Source: {check.source}
""")
    return "".join([*parts, *_criteria(suite)])


def _criteria(suite: Suite) -> Iterator[str]:
    """Render which check grades which public criterion; a check that does not exist is an error."""
    tables = tomllib.loads(CRITERIA.read_text(encoding="utf-8"))
    graded = sum("checks" in answer for answer in tables["criteria"].values())
    every = len(tables["criteria"])
    yield CRITERIA_HEAD.format(all=every, graded=graded, seats=every - graded)
    yield from _graded(suite, tables["criteria"])
    yield EXPECTATIONS_HEAD
    yield from _graded(suite, tables["expectations"])


def _graded(suite: Suite, answers: Mapping[str, Any]) -> Iterator[str]:
    for criterion, answer in answers.items():
        if "checks" in answer:
            told = ", ".join(f"`{suite.catalog.checks[check].id}`" for check in answer["checks"])
        else:
            told = f"seat {answer['seat']}: {answer['why']}"
        yield f"| {criterion} | {told} |\n"


def main() -> int:
    """Write the pages, or compare them; returns the exit status."""
    suite = load_suite(ROOT)
    pages = {"checks.md": page(suite), "reference.md": reference.page(suite)}
    if "--check" not in sys.argv[1:]:
        for name, text in pages.items():
            (DOCS / name).write_text(text, encoding="utf-8")
        return 0
    stale = [name for name, text in pages.items() if not _is(DOCS / name, text)]
    for name in pages:
        print(f"{name} is {'stale: run .ci/docs.py' if name in stale else 'fresh'}", file=sys.stderr)
    return int(bool(stale))


def _is(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
