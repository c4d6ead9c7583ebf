"""Certify a run: hold it against itself, write its certificate, and sign what it came to."""

from __future__ import annotations

import shutil
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.files import naming, write_atomic
from gpuassay.evidence.run import CERTIFICATE, LATER, REDACTED, REPLIES, SIGNED, RunFolder
from gpuassay.evidence.sums import check_sums
from gpuassay.report import certificate
from gpuassay.signing import keys, statement
from gpuassay.signing.content import digests, read_redaction, read_results, unlike_journal
from gpuassay.signing.done import done
from gpuassay.signing.envelope import SigningError
from gpuassay.signing.replies import read_replies

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def certify(run: Path, key: Path, valid_for: timedelta, replies: Path | None = None) -> Path:
    """Write ``certificate.html`` and its signed statement into a run's folder; gives the statement's path.

    Raises SigningError for a run that is not as it was sealed, or whose results its journal does not give:
    nobody should sign what has been changed.
    """
    with_key = keys.signer(key)
    results = read_results(run)
    with naming(run):
        sealed = check_sums(run, LATER)
    if sealed.seal != "sealed":
        raise SigningError(f"{run}: not signed: {sealed.why or 'it has no SHA256SUMS'}")
    if (run / REDACTED).exists():
        raise SigningError(f"{run}: a redacted edition, which is signed as it is made")
    for problem in unlike_journal(run, results):
        raise SigningError(f"{run}: not signed: {problem}")
    if replies is not None:
        read_replies(replies, results["checks"])
        with naming(replies):
            shutil.copyfile(replies, run / REPLIES)
    validity = _validity(results, valid_for, run)
    page = render(run, results, with_key.public_key.keyid, validity)
    write_atomic(run / CERTIFICATE, page.encode("utf-8", "replace"))
    signed = keys.sign(statement.make(digests(run, but=(SIGNED,)), results, validity), with_key)
    signed.write(run / SIGNED)
    return run / SIGNED


def render(run: Path, results: Mapping[str, Any], keyid: str, validity: Mapping[str, str]) -> str:
    """Write the certificate of a run as its folder is now. Raises RecordingError and ConfigError."""
    files = digests(run, but=(CERTIFICATE, SIGNED))
    since, until = validity["validFrom"], validity["validUntil"]
    if REDACTED in files:
        own = read_redaction(run)
        told = certificate.Told(keyid, since, until, files, own["replies"], own["done"], _redaction(own))
    else:
        replies = read_replies(run / REPLIES, results["checks"]) if REPLIES in files else {}
        told = certificate.Told(keyid, since, until, files, replies, done(RunFolder(run).recording))
    return certificate.render(results, told)


def _redaction(own: Mapping[str, Any]) -> str:
    return (
        f"keyed hashes stand for the names of {', '.join(own['kinds'])}; whoever has the full run, whose "
        f"statement has the SHA-256 {own['full']}, and the secret can hold this edition against it"
    )


def _validity(results: Mapping[str, Any], valid_for: timedelta, run: Path) -> dict[str, str]:
    """Count from the end of the evidence, whenever it is signed: what was seen grows old."""
    end = results["recording"]["end"]
    if end is None:
        raise SigningError(f"{run}: not signed: its recording has no end, so nobody can say how old it is")
    try:
        last = datetime.fromisoformat(end).date() + valid_for
    except OverflowError:
        last = date.max
    return {"validFrom": end[:10], "validUntil": last.isoformat()}
