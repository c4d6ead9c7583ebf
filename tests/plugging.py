"""Small suites of a check or two, judged by the plugin on a recorded cluster."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.wiring import controller  # noqa: F401 - loaded once: pytester forgets what each run imports
from judging import HEAD, table
from recorded import build

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pytest

ROOT = Path(__file__).parents[1]
FLEET = build("undeclared")
"""Four nodes of eight GPUs in good health, without a site file: a small suite knows fewer words."""
OBSERVE = "for node in fleet.nodes:\n    observe(node, value=1)"
DOC = "It holds.\n\nFor a reason.\n\nFix: mend it."
QUICK = ("-p", "no:hypothesispytest")
"""Hypothesis would be imported and rewritten anew by each run, which takes longer than all the rest."""
INI = """
[tool.pytest.ini_options]
addopts = ["-p", "gpuassay.plugin", "-p", "no:cacheprovider", "--import-mode=importlib", "--strict-markers"]
junit_family = "xunit1"
xfail_strict = true
"""

Results = dict[str, Any]


def check(body: str = OBSERVE, name: str = "b", arguments: str = "fleet, observe") -> str:
    """Write a check with this body."""
    doc = textwrap.indent(f'"""{DOC}\n"""\n{body}', "    ")
    return f"\n\ndef test_{name}({arguments}):\n{doc}\n"


def write_suite(root: Path, files: Mapping[str, str], tables: str = "") -> None:
    """Write a suite; ``a`` becomes ``tests_audit/test_a.py``. The table of ``audit.a.b`` is always there."""
    (root / "tests_audit").mkdir(parents=True, exist_ok=True)
    tables = HEAD + table(over="node", tier="ribbon") + tables
    (root / "thresholds.toml").write_text(tables, encoding="utf-8")
    (root / "advisories.toml").write_text("", encoding="utf-8")
    (root / "pyproject.toml").write_text(INI, encoding="utf-8")
    for name, text in files.items():
        (root / "tests_audit" / f"test_{name}.py").write_text(text, encoding="utf-8")


def more(*names: str) -> str:
    """Write tables of more checks of ``tests_audit/test_a.py``."""
    return "".join(table(name=f"audit.a.{name}", over="node") for name in names)


class Run:
    """A run of pytest: its exit status, what it printed, and what it left in its folder."""

    def __init__(self, status: int, output: str, folder: Path) -> None:
        """Keep what there is; results are read when they are asked for."""
        self.status = status
        self.output = output
        self.folder = folder

    @property
    def results(self) -> Results:
        """The verdicts; an error if there are none."""
        return read_results(self.folder)

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of each check."""
        return {name: found["verdict"] for name, found in self.results["checks"].items()}

    def reason(self, name: str = "audit.a.b") -> str:
        """Give the reason of a check's verdict."""
        reason: str = self.results["checks"][name]["reason"]
        return reason


def read_results(folder: Path) -> Results:
    """Read the results that a run has left."""
    found: Results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return found


def audit(pytester: pytest.Pytester, *options: str, recording: Path = FLEET) -> Run:
    """Judge the suite in pytester's folder in this process. The run's folder is ``run``."""
    where = [f"--target=recording:{recording}", "--run-dir=run", *QUICK]
    done = pytester.runpytest_inprocess(*where, *options, "tests_audit", no_reraise_ctrlc=True)
    output = f"{done.stdout.str()}\n{done.stderr.str()}"
    return Run(int(done.ret), output, pytester.path / "run")


def one_check(pytester: pytest.Pytester, body: str, *options: str, before: str = "", tables: str = "") -> Run:
    """Judge a suite of one check with this body."""
    write_suite(pytester.path, {"a": before + check(body)}, tables)
    return audit(pytester, *options)


def pytest_process(
    folder: Path, *words: str, python: Sequence[str] = (sys.executable,), run_dir: bool = True
) -> Run:
    """Run pytest in a process of its own, with the run's folder ``run`` in this folder."""
    where = [f"--run-dir={folder / 'run'}"] if run_dir else []
    done = subprocess.run(
        [*python, "-m", "pytest", *QUICK, *where, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
        check=False,
    )
    return Run(done.returncode, done.stdout + done.stderr, folder / "run")
