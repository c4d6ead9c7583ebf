"""The gate: every check is seen to fail, is seen to pass, and never passes where nothing can be seen.

A check whose limits only warn, whatever is observed, has to be seen to warn instead.

Usage: gate.py [JUNIT.xml]

Goes by the verdicts on all recorded clusters and prints a table. With the JUnit file of a test run, which
found that each cluster gives exactly the verdicts of its description, these are taken; without one the real
suite is run on all of them. The exit status is 1, with a line for each lack, if a check has no recorded
cluster on which it fails, none on which it passes, or passes on one that shows nothing, or if no test has
passed on a cluster.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from gpuassay.judge.catalog import load_catalog  # noqa: E402 - the path is set above
from recorded import describe, faulty, healthy  # noqa: E402
from recorded.judge import judge_all  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    Verdicts = Mapping[str, Mapping[str, str]]  # of each check, by cluster

PROOF = "test_a_cluster_gives_exactly_its_verdicts[{}]"  # of tests/test_recorded_verdicts.py
NOT_PASSED = ("failure", "error", "skipped")  # what JUnit puts into a test case that did not pass
PASSING = frozenset({"pass", "warn"})  # a warning is a pass that says more


def main(junit: str = "") -> int:
    """Take or make the verdicts, print what was seen and what lacks, and return the exit status."""
    catalog = load_catalog(ROOT / "thresholds.toml", ROOT / "advisories.toml").checks
    checks = sorted(catalog)
    mild = {name for name in checks if not any(limit.can_fail for limit in catalog[name].limits.values())}
    nothing = {name for name in faulty() if describe(name).nothing}
    names = [*healthy(), *faulty()]
    if junit:
        verdicts: Verdicts = {name: describe(name).expected for name in names}
        untested = [
            f"{name}: no passed test says that it gives these verdicts" for name in unproven(names, junit)
        ]
    else:
        verdicts, untested = {name: judged.verdicts for name, judged in judge_all(names)}, []
    lines = [*untested, *lacks(checks, verdicts, nothing, mild)]
    sys.stdout.write("\n".join([*table(checks, verdicts), "", *lines, ""]))
    return 1 if lines else 0


def unproven(names: Iterable[str], junit: str) -> list[str]:
    """Return the clusters of which no test that passed says that they give what their description says."""
    cases = ET.parse(junit).iter("testcase")  # noqa: S314 - written by the step before
    passed = {case.get("name") for case in cases if not any(case.find(bad) is not None for bad in NOT_PASSED)}
    return [name for name in names if PROOF.format(name) not in passed]


def table(checks: Iterable[str], verdicts: Verdicts) -> Iterator[str]:
    """Yield a line for each check: where it fails, and where it passes."""
    yield f"{'check':32} {'fails on':44} passes on"
    for check in checks:
        fails, passes = clusters(check, verdicts, {"fail"}), clusters(check, verdicts, {"pass"})
        yield f"{check:32} {_some(fails):44} {_some(passes)}"


def lacks(
    checks: Iterable[str], verdicts: Verdicts, nothing: Iterable[str], mild: Container[str] = ()
) -> Iterator[str]:
    """Yield what has not been seen and should be, and what has been seen and never should be."""
    blank = {name: verdicts[name] for name in nothing}
    if not blank:
        yield "no recorded cluster shows nothing"
    for check in checks:
        worst = "warn" if check in mild else "fail"
        if not clusters(check, verdicts, {worst}):
            yield f"{check}: no recorded cluster on which it {worst}s"
        if not clusters(check, verdicts, {"pass"}):
            yield f"{check}: no recorded cluster on which it passes"
        for name in clusters(check, blank, PASSING):
            yield f"{check}: passes on {name}, which shows nothing"


def clusters(check: str, verdicts: Verdicts, wanted: Container[str | None]) -> list[str]:
    """Return the clusters on which a check gave one of these verdicts."""
    return [name for name, found in verdicts.items() if found.get(check) in wanted]


def _some(names: list[str]) -> str:
    """Return one name and how many more there are."""
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return f"{names[0]}{more}" if names else "-"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
