"""Results assembled once more from a run's journal: after a crash, and to hold them against the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay.evidence.files import RecordingError
from gpuassay.evidence.run import read_journal
from gpuassay.report.results import SCHEMA, assemble

if TYPE_CHECKING:
    from pathlib import Path

    from gpuassay.report.results import Document


def rebuild(path: Path) -> tuple[Document, tuple[str, ...]]:
    """Give the results that a journal leads to, and what of it could not be read. Raises RecordingError."""
    journal = read_journal(path)
    if journal.context.get("schema") != SCHEMA:
        raise RecordingError(f"{path}: expected a journal of schema {SCHEMA}, that is, of this version")
    try:
        return assemble(journal.context, journal.checks, cut=journal.cut), journal.problems
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise RecordingError(f"{path}: not as a run wrote it: {error!r}") from error
