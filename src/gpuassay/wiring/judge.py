"""Hooks of every process that executes checks (the only one, or each worker of xdist)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuassay.judge.observe import Observe
from gpuassay.report.results import failed_outcome
from gpuassay.session import CHECK, OBSERVE, SESSION, Request, prepare
from gpuassay.suite import check_id

if TYPE_CHECKING:
    from collections.abc import Generator

    from gpuassay.report.results import Document

OUTCOME = pytest.StashKey["Document"]()


class Judge:
    """Settles each check in a wrapper of its call, and lets the outcome travel on its report."""

    def __init__(self, config: pytest.Config, root: Path) -> None:
        """Only hold: the session is prepared by the controller, or from its words in a worker."""
        self._config = config
        self._root = root

    def pytest_sessionstart(self) -> None:
        """In a worker, read again what the controller has gathered: workers judge, they never gather."""
        told = getattr(self._config, "workerinput", {}).get("gpuassay")
        if told:
            request = Request.from_document(told["request"])
            self._config.stash[SESSION] = prepare(request, Path(told["recording"]))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Mark checks with their phase. First of all: `-m` picks by marks in the same hook."""
        for item in items:
            check = self._check_of(item)
            if check is not None:
                item.stash[CHECK] = check
                item.add_marker(check.split(".")[0])

    def _check_of(self, item: pytest.Item) -> str | None:
        """Name the check that an item is, by its function: a plugin that runs it again renames the item."""
        if not (isinstance(item, pytest.Function) and isinstance(item.parent, pytest.Module)):
            return None
        check = check_id(self._root, item.path.resolve(), item.originalname)  # it may be a link to the suite
        session = self._config.stash.get(SESSION, None)  # there is none where checks are only collected
        return check if session is None or check in session.suite.catalog.checks else None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Run a check, settle it, and say the verdict in pytest's own three words."""
        check = item.stash.get(CHECK, None)
        if check is None:
            return (yield)
        failure: BaseException | None = None
        try:
            yield
        except (KeyboardInterrupt, pytest.exit.Exception):
            raise
        except BaseException as error:  # noqa: BLE001 - pytest.skip and pytest.fail are no Exceptions
            failure = error
        outcome = self._config.stash[SESSION].judge(check, item.stash.get(OBSERVE, Observe()), failure)
        item.stash[OUTCOME] = outcome = _portable(outcome)
        self._label(item, outcome)
        _conclude(outcome)
        return None

    def _label(self, item: pytest.Item, outcome: Document) -> None:
        """Say a check's verdict, category and tier where JUnit and pytest-html look for them."""
        table = self._config.stash[SESSION].suite.catalog.checks[item.stash[CHECK]]
        labels = {"verdict": outcome["verdict"], "category": table.category, "tier": table.tier}
        item.user_properties += labels.items()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put the outcome on the report, which crosses from a worker to the controller.

        First, so that this wrapper is the outermost: no mark (skip, xfail) has the last word on a check.
        """
        report = yield
        check = item.stash.get(CHECK, None)
        if check is None or call.when == "teardown":
            return report
        outcome = item.stash.get(OUTCOME, None)
        if outcome is None and (call.when == "call" or not report.passed):
            outcome = _portable(failed_outcome(f"the check could not be run: {cause(report)}"))
            self._label(item, outcome)
            report.user_properties = list(item.user_properties)
        if outcome is not None:
            vars(report)["gpuassay"] = {"check": check, "outcome": outcome}
            if outcome["verdict"] in ("fail", "error") and report.outcome != "failed":
                report.outcome = "failed"
                report.longrepr = outcome["reason"]
                vars(report).pop("wasxfail", None)
        return report


def cause(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Say in one line why something could not be run."""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2]
    lines = report.longreprtext.strip().splitlines()
    return lines[-1] if lines else "no reason was given"


def _portable(outcome: Document) -> Document:
    """Reduce an outcome to what JSON and UTF-8 can hold: the way from a worker carries nothing else."""
    portable: Document = json.loads(json.dumps(outcome, ensure_ascii=False).encode("utf-8", "replace"))
    return portable


def _conclude(outcome: Document) -> None:
    verdict, reason = outcome["verdict"], outcome["reason"]
    if verdict in ("fail", "error"):
        pytest.fail(f"{verdict}: {reason}", pytrace=False)
    if verdict in ("skip", "unseen", "not_run"):
        raise pytest.skip.Exception(f"{verdict.replace('_', ' ')}: {reason}", _use_item_location=True)
