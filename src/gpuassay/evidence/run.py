"""The folder of one run, and the journal that outlives whatever happens to the run."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.files import RecordingError, append_line, naming, open_regular
from gpuassay.evidence.lines import dump_json, load_json
from gpuassay.evidence.sums import write_sums

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

KILLED = "the run was killed"
CERTIFICATE, SIGNED, REPLIES = "certificate.html", "certificate.dsse.json", "replies.toml"
REDACTED = "redaction.json"
"""What a redacted edition of a run tells of itself; its presence makes a folder one."""

LATER = (CERTIFICATE, SIGNED, REPLIES)
"""What is laid into a run's folder after its seal, and signed with all the rest."""


class Journal:
    """Appends to a journal; each line is on the disk when its method returns. Raises ``RecordingError``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, context: Mapping[str, Any]) -> None:
        """Note what the run is: all that its reports need to know beside what the checks came to."""
        self._add({"kind": "begin", "context": context})

    def check(self, check_id: str, result: Mapping[str, Any]) -> None:
        """Note what a check came to."""
        self._add({"kind": "check", "id": check_id, "result": result})

    def end(self, cut: str = "") -> None:
        """Note that the run is over, and why before its time if it was ``cut``."""
        self._add({"kind": "end", "cut": cut})

    def _add(self, line: Mapping[str, Any]) -> None:
        append_line(self.path, dump_json(line), durable=True)


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """What a journal says: what the run was, the last word on each check, why it ended early if it did."""

    context: Mapping[str, Any]
    checks: Mapping[str, dict[str, Any]]
    cut: str
    problems: tuple[str, ...]


def read_journal(path: Path) -> JournalRecord:
    """Read a journal, also of a run that was killed while it wrote a line.

    Raises ``RecordingError`` if there is none, or none that says what the run was.
    """
    with naming(path), open_regular(path) as file:
        lines, problems = load_json(file.read(), path.name)
    context, checks, cut = None, dict[str, dict[str, Any]](), KILLED
    for number, line in lines:
        match line:
            case {"kind": "begin", "context": dict(noted)}:
                context = noted
            case {"kind": "check", "id": str(check_id), "result": dict(result)}:
                checks[check_id] = result
            case {"kind": "end", "cut": str(reason)}:
                cut = reason
            case _:
                problems.append(f"{path.name}:{number}: not a line of a journal")
    if context is None:
        raise RecordingError(f"{path}: not a journal: no line says what the run was")
    return JournalRecord(context, checks, cut, tuple(problems))


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where a run keeps everything it leaves behind; private to its user."""

    path: Path

    @classmethod
    def create(cls, path: Path | None, now: datetime) -> RunFolder:
        """Make the folder of a new run, by default one below ``gpuassay-runs`` that is named after the time.

        Raises ``RecordingError`` rather than write into a folder that holds anything.
        """
        if path is None:
            return cls(_fresh(Path("gpuassay-runs").absolute(), f"{now:%Y%m%dT%H%M%SZ}"))
        path = path.absolute()
        with naming(path):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise RecordingError(f"{path}: not empty; a run needs a folder of its own")
        return cls(path)

    @property
    def recording(self) -> Path:
        """The evidence."""
        return self.path / "recording"

    @property
    def journal(self) -> Path:
        """One line per outcome."""
        return self.path / "journal.jsonl"

    @property
    def progress(self) -> Path:
        """One line per node that has ended, while evidence is taken."""
        return self.path / "progress.jsonl"

    @property
    def began(self) -> tuple[str, ...]:
        """The names under which something was started for it on the cluster. Raises ``RecordingError``."""
        try:
            with naming(self.progress), open_regular(self.progress) as file:
                lines, _ = load_json(file.read(), self.progress.name)
        except RecordingError as error:
            if isinstance(error.__cause__, FileNotFoundError):  # it was killed before it started anything
                return ()
            raise
        return tuple(dict.fromkeys(str(line["began"]) for _, line in lines if "began" in line))

    @property
    def heard(self) -> Path:
        """What ranks said that still run, until it is recorded: there while a load runs, or after a kill."""
        return self.path / "heard"

    @property
    def live(self) -> Path:
        """How far the run is, for people; it renews itself."""
        return self.path / "live.html"

    @property
    def results(self) -> Path:
        """The verdicts, for machines."""
        return self.path / "results.json"

    @property
    def junit(self) -> Path:
        """The verdicts, for a CI."""
        return self.path / "junit.xml"

    @property
    def html(self) -> Path:
        """The verdicts, for people."""
        return self.path / "report.html"

    @property
    def thresholds(self) -> Path:
        """What the checks were held to."""
        return self.path / "thresholds.effective.toml"

    @property
    def plan(self) -> Path:
        """What both parties agreed on before, where they did."""
        return self.path / "plan.json"

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take it for this process, until the block or the process ends.

        Raises ``RecordingError`` where another process has it. A file system may know of no locks.
        """
        with naming(self.progress):
            descriptor = os.open(self.progress, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            with suppress(OSError):
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError as error:
                    why = "another process is at work in it: let that end, or stop it"
                    raise RecordingError(f"{self.path}: {why}") from error
            yield
        finally:
            os.close(descriptor)

    def seal(self) -> None:
        """Write the sums of all that the run left; after every report. Raises ``RecordingError``."""
        write_sums(self.path, LATER)


def _fresh(parent: Path, name: str) -> Path:
    """Make a folder that was not there; two runs may begin in the same second."""
    with naming(parent):
        parent.mkdir(mode=0o700, exist_ok=True)
        attempt, path = 1, parent / name
        while True:
            try:
                path.mkdir(mode=0o700)
            except FileExistsError:
                attempt += 1
                path = parent / f"{name}-{attempt}"
            else:
                return path
