"""Hooks of the controller: gather once before anything is judged, keep the journal, write the reports."""

from __future__ import annotations

import signal
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.earlier import stamp
from gpuassay.evidence.files import RecordingError, write_atomic
from gpuassay.evidence.run import Journal, RunFolder
from gpuassay.evidence.sums import check_sums
from gpuassay.evidence.writer import note_measured
from gpuassay.gathering import end_leftovers, gather, now, resume
from gpuassay.judge.catalog import TIERS
from gpuassay.report import pytest_html, terminal
from gpuassay.report.files import write_reports
from gpuassay.report.results import assemble, failed_outcome, graver, is_red
from gpuassay.report.words import plural, status
from gpuassay.session import SESSION, Request, Session, context, prepare
from gpuassay.stopping import interrupt_on_term
from gpuassay.suite import check_id, load_suite
from gpuassay.target.progress import Paced
from gpuassay.wiring.asked import MISTAKES, request_of
from gpuassay.wiring.judge import cause

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from gpuassay.report.results import Document
    from gpuassay.suite import Suite

# Options by which pytest tells of tests and runs none: nothing is gathered then.
_ONLY_LOOKS = ("collectonly", "setupplan", "showfixtures", "show_fixtures_per_test", "cacheshow")
_COMPLETE = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)


class Controller:
    """Owns the run: its folder, its journal and its results."""

    def __init__(self, config: pytest.Config, root: Path) -> None:
        """Only hold: nothing is touched before the session starts."""
        self._config = config
        self._root = root
        self._run: RunFolder | None = None
        self._recording: Path | None = None
        self._outcomes: dict[str, Document] = {}
        self._context: Document = {}
        self._results: Document | None = None
        self._previous: Any = None
        self._taken = ExitStack()

    def pytest_unconfigure(self) -> None:
        """Give SIGTERM and the folder back: pytest may run inside another program."""
        self._taken.close()
        if self._previous is not None:
            signal.signal(signal.SIGTERM, self._previous)

    # --- before any check ------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Read the tables, take or read the evidence, and make ready to judge; mistakes end the run here."""
        try:
            self._start(request_of(self._config, self._root))
        except MISTAKES as error:
            raise pytest.UsageError(str(error)) from error

    def _start(self, request: Request) -> None:
        if request.allow and getattr(self._config.option, "numprocesses", None):
            raise pytest.UsageError("--allow measures on machines, which cannot be shared out: leave -n away")
        suite = load_suite(request.root, request.thresholds)
        if any(getattr(self._config.option, name, False) for name in _ONLY_LOOKS):
            return
        self._previous = interrupt_on_term()
        recording = request.recording
        if recording is not None:
            prepared = prepare(request, recording, suite)
            self._run = RunFolder.create(request.run_dir, now())
        else:
            self._run = resume(request.resume) if request.resume else self._gather(request, suite)
            self._taken.enter_context(self._run.taken())
            recording = self._run.recording
            prepared = prepare(request, recording, suite, self._progress)
            if request.resume:
                end_leftovers(request, prepared.bench.site, self._run)
        self._recording = recording
        self._config.stash[SESSION] = prepared
        self._begin(prepared)

    def _gather(self, request: Request, suite: Suite) -> RunFolder:
        run = gather(request, suite, self._progress)
        self._progress("")
        return run

    def _begin(self, prepared: Session) -> None:
        effective = prepared.bench.site.effective_toml
        write_atomic(self._folder.thresholds, effective.encode())
        if prepared.request.plan:
            write_atomic(self._folder.plan, prepared.request.plan.read_bytes())
        self._context = context(prepared)
        self._journal.begin(self._context)

    @property
    def _folder(self) -> RunFolder:
        if self._run is None:
            raise RuntimeError("no run was started")
        return self._run

    @property
    def _journal(self) -> Journal:
        return Journal(self._folder.journal)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker of xdist what to judge."""
        if self._recording is not None:
            request = self._config.stash[SESSION].request
            node.workerinput["gpuassay"] = {"request": request.document(), "recording": str(self._recording)}

    def pytest_report_header(self) -> list[str]:
        """Say what is judged, and where the run is kept."""
        prepared = self._config.stash.get(SESSION, None)
        if prepared is None:
            return []
        nodes = plural(len(prepared.fleet.nodes), "node")
        where = prepared.request.site or (
            "as recorded" if prepared.bench.site.declared else "none: undeclared"
        )
        return [
            f"gpuassay: target {prepared.request.target}, {nodes}, site file {where}",
            f"gpuassay: run folder {self._folder.path}",
        ]

    def _say(self, line: str) -> None:
        reporter = self._terminal
        if reporter is not None:
            reporter.write_line(f"gpuassay: {line}")

    def _progress(self, line: str) -> None:
        """Show where gathering is: one line that renews itself, or one a minute where no person looks on."""
        reporter = self._terminal
        if reporter is None:
            return
        if reporter.isatty:
            reporter.rewrite(f"gpuassay: {line}", erase=True)
        elif line:
            self._now_and_then(line)

    @cached_property
    def _now_and_then(self) -> Paced:
        return Paced(self._say)

    @property
    def _terminal(self) -> pytest.TerminalReporter | None:
        plugin: pytest.TerminalReporter | None = self._config.pluginmanager.get_plugin("terminalreporter")
        return plugin

    # --- check by check --------------------------------------------------------------------------

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep each outcome in the journal at once: only what is written survives a kill."""
        told = getattr(report, "gpuassay", None)
        if told is not None:
            self._record(told["check"], told["outcome"])
        elif report.when not in ("setup", "call", "teardown"):  # a worker died under this check
            check = self._check_of(report.nodeid)
            if check is not None:
                self._record(check, failed_outcome("the process that judged this check died"))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Take a file that skips itself, or cannot be imported, for an error of every check in it."""
        if self._recording is None or report.passed:
            return
        file = (self._config.rootpath / report.nodeid).resolve()
        for check in self._config.stash[SESSION].suite.catalog.checks.values():
            if self._root / check.path.partition("::")[0] == file:
                self._record(check.id, failed_outcome(f"its file could not be collected: {cause(report)}"))

    def _record(self, check: str, outcome: Document) -> None:
        """Keep an outcome; of a check that was run again, which plugins can do, the graver one."""
        outcome = graver(outcome, self._outcomes.get(check, outcome))
        self._outcomes[check] = outcome
        try:
            self._journal.check(check, outcome)
        except RecordingError as error:  # to judge on and keep nothing of it would be of no use
            pytest.exit(f"gpuassay: {error}", returncode=pytest.ExitCode.INTERNAL_ERROR)

    def _check_of(self, nodeid: str) -> str | None:
        path, _, name = nodeid.partition("::")
        return check_id(self._root, (self._config.rootpath / path).resolve(), name)

    def pytest_report_teststatus(self, report: pytest.TestReport) -> Any:
        """Show a check by its verdict."""
        told = getattr(report, "gpuassay", None)
        return status(told["outcome"]["verdict"]) if told else None

    # --- at the end ------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Write the results before the other writers run (they show them), and the sums after them all."""
        if self._recording is None or self._run is None:
            return (yield)
        cut = _cut(session)
        with self._written(session):
            self._note_measurements(self._recording)
        results = self._results = assemble(self._context, self._outcomes, cut=cut)
        self._add_junit_properties(results)
        session.exitstatus = self._exit_status(session.exitstatus, results)
        with self._written(session):
            self._journal.end(cut)
            write_reports(self._run, results)
        yield
        with self._written(session):
            self._run.seal()
        return None

    @contextmanager
    def _written(self, session: pytest.Session) -> Iterator[None]:
        """Say what could not be written, and end the run with an error of its own for it."""
        try:
            yield
        except RecordingError as error:
            self._say(f"the reports could not be written: {error}")
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR

    def _note_measurements(self, recording: Path) -> None:
        """Name the recording by what it holds now, where measurements have been added to it."""
        sealed = check_sums(recording)
        if sealed.digest != self._context["recording"]["digest"]:
            if sealed.seal == "sealed" and not self._config.stash[SESSION].request.recording:
                note_measured(recording, measured := now())
                self._context["recording"]["measured"] = stamp(measured)
                sealed = check_sums(recording)
            self._context["recording"] |= {"digest": sealed.digest, "seal": sealed.seal}
            self._journal.begin(self._context)

    def _exit_status(self, status: int | pytest.ExitCode, results: Document) -> int | pytest.ExitCode:
        """Turn only a clean run red: an interrupted one, and pytest's own errors, stay what they are."""
        if status == pytest.ExitCode.OK and (is_red(results) or self._missed(results)):
            return pytest.ExitCode.TESTS_FAILED
        return status

    def _missed(self, results: Document) -> str:
        """Give the tier that was required and not won, if there is one."""
        required: str | None = self._config.option.require
        won = results["tier"]["won"]
        return required if required and (won is None or TIERS.index(won) < TIERS.index(required)) else ""

    def _add_junit_properties(self, results: Document) -> None:
        """Add to the suite's properties in pytest's own JUnit file, where one was asked for."""
        try:
            from _pytest.junitxml import xml_key  # noqa: PLC0415 - the only way to the writer, also under xdist
        except ImportError:
            return
        writer = self._config.stash.get(xml_key, None)
        if writer is not None:
            tier = results["tier"]
            for key in ("state", "won", "ceiling"):
                writer.add_global_property(f"tier.{key}", str(tier[key] or "none"))
            writer.add_global_property("recording", results["recording"]["digest"])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Close with the tier, what holds it, the findings, and where the files are."""
        if self._results is not None:
            terminal.write(terminalreporter, self._results, self._folder.path)
            if missed := self._missed(self._results):
                terminalreporter.write_line(
                    f"--require={missed}: not won, so the exit status is not 0", red=True
                )

    # --- pytest-html -----------------------------------------------------------------------------

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_summary(self, prefix: list[str]) -> None:
        """Put the medallion on top of pytest-html's page."""
        if self._results is not None:
            prefix.append(pytest_html.medallion(self._results))

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_header(self, cells: list[str]) -> None:
        """Add columns; the Result column is left alone, a changed one hides its row."""
        cells[1:1] = pytest_html.header_cells()

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_row(self, report: pytest.TestReport, cells: list[str]) -> None:
        """Fill the columns of one row."""
        properties = dict(report.user_properties)
        cells[1:1] = pytest_html.row_cells(
            str(properties.get("verdict", "")), str(properties.get("tier", ""))
        )


def _cut(session: pytest.Session) -> str:
    """Say why a run ended before its time; empty if it did not."""
    stopped = session.shouldfail or session.shouldstop
    if stopped:
        return f"the run stopped early: {stopped}"
    return "" if session.exitstatus in _COMPLETE else "the run was interrupted"
