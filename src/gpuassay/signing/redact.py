"""A redacted edition: what a run came to, with keyed hashes for names, and signed like the run."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.files import naming, open_regular, write_atomic
from gpuassay.evidence.recording import read_recording
from gpuassay.evidence.run import CERTIFICATE, REDACTED, REPLIES, SIGNED, RunFolder, read_journal
from gpuassay.report.files import write_reports
from gpuassay.report.places import nodes
from gpuassay.signing import keys, statement
from gpuassay.signing.certify import render
from gpuassay.signing.content import digests, read_redaction, read_results
from gpuassay.signing.done import done
from gpuassay.signing.envelope import SigningError, canonical, read_envelope
from gpuassay.signing.names import Redactor
from gpuassay.signing.replies import read_replies

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from gpuassay.evidence.recording import Recording

SCHEMA = 1
_USER = re.compile(r"\[([A-Za-z_][\w.-]*)@[0-9]{4}-")  # as Slurm tells who gave a reason, and when
_EVERYWHERE = frozenset(("", "root", "slurm", "ours", "tenant"))
LEAST_SECRET = 16  # bytes; shorter ones are tried out in no time
_SERIAL = re.compile(rb"serial[\w ]*\\*\"?[\s:=>]+\\*\"?([A-Za-z0-9-]{6,40})", re.IGNORECASE)


def redact(run: Path, out: Path, secret: Path, key: Path, kinds: frozenset[str]) -> Path:
    """Write a redacted edition of a signed run into a new folder; gives the path of its statement.

    The secret is made where there is none. Raises SigningError and RecordingError.
    """
    with_key = keys.signer(key)
    said = _statement(run)
    if out.exists():
        raise SigningError(f"{out}: there already; a redacted edition needs a folder of its own")
    if not secret.exists():
        _make_secret(secret)
    results, told = _redacted(run, read_secret(secret), kinds)
    edition = RunFolder(out)
    with naming(out):
        out.mkdir(mode=0o700)
    write_reports(edition, results)
    with naming(edition.thresholds):
        shutil.copyfile(RunFolder(run).thresholds, edition.thresholds)
    write_atomic(out / REDACTED, canonical(told) + b"\n")
    edition.seal()
    validity = {name: said["predicate"]["gpuassay"][name] for name in ("validFrom", "validUntil")}
    page = render(out, results, with_key.public_key.keyid, validity)
    write_atomic(out / CERTIFICATE, page.encode("utf-8", "replace"))
    keys.sign(statement.make(digests(out), results, validity), with_key).write(out / SIGNED)
    return out / SIGNED


def unlike_full(edition: Path, run: Path, secret: Path) -> Iterator[str]:
    """Redact the full run once more, and say in what the edition is not that. Raises SigningError."""
    told = read_redaction(edition)
    results, again = _redacted(run, read_secret(secret), frozenset(told["kinds"]))
    if told["full"] != again["full"]:
        yield f"{REDACTED}: of another run than {run}, or signed anew since"
    if canonical(told) != canonical(again):
        yield f"{REDACTED}: not what {run} gives with this secret"
    mine, full = read_results(edition), json.loads(json.dumps(results))
    for check in sorted({*mine["checks"], *full["checks"]}):
        if mine["checks"].get(check) != full["checks"].get(check):
            yield f"results.json: {check} is not what {run} gives with this secret"
    for part in sorted({*mine, *full} - {"checks"}):
        if mine.get(part) != full.get(part):
            yield f"results.json: {part} is not what {run} gives with this secret"


def read_secret(path: Path) -> bytes:
    """Read the secret of the keyed hashes. Raises SigningError and RecordingError, which name the file."""
    with naming(path), open_regular(path) as file:
        secret = file.read().strip()
    if len(secret) < LEAST_SECRET:
        raise SigningError(f"{path}: expected a secret of {LEAST_SECRET} bytes or more, found {len(secret)}")
    return secret


def _make_secret(path: Path) -> None:
    with naming(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32) + "\n")


def _redacted(run: Path, secret: bytes, kinds: frozenset[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give the redacted results, and what the edition's page tells beside them."""
    _statement(run)
    results = read_results(run)
    redactor = Redactor(secret, _known(run, results), kinds)
    answers = read_replies(run / REPLIES, results["checks"]) if (run / REPLIES).exists() else {}
    told = {
        "schema": SCHEMA,
        "full": read_envelope(run / SIGNED, statement.PAYLOAD_TYPE).digest,
        "kinds": sorted(kinds),
        "done": [_row(redactor, row) for row in done(RunFolder(run).recording)],
        "replies": {
            check: [reply | {part: redactor.text(reply[part]) for part in ("by", "text")} for reply in given]
            for check, given in answers.items()
        },
    }
    return redactor.document(results), told


def _row(redactor: Redactor, row: Mapping[str, str]) -> dict[str, str]:
    """Replace the names in what was run; the registry of an image is an address."""
    registry, slash, rest = row["image"].partition("/")
    image = row["image"]
    if slash and "." in registry and "addresses" in redactor.kinds:
        image = f"{redactor.hidden('addresses', registry)}/{rest}"
    return {**row, "ran": redactor.text(row["ran"]), "image": image}


def _statement(run: Path) -> dict[str, Any]:
    """Read the statement of the full run: only what is signed is redacted, for it is held against that."""
    if (run / REDACTED).exists():
        raise SigningError(f"{run}: a redacted edition itself; name the full run")
    return statement.read(read_envelope(run / SIGNED, statement.PAYLOAD_TYPE), run / SIGNED)


def _known(run: Path, results: Mapping[str, Any]) -> dict[str, str]:
    """Collect the names that the recording and the results tell, in small letters, each with its kind."""
    recording = read_recording(RunFolder(run).recording)
    serials = {serial.decode().lower() for serial in _serials(recording)}
    known = dict.fromkeys(serials - {"unknown", "number"}, "serials")
    pools = read_journal(RunFolder(run).journal).context["pools"]
    named = {
        *recording.nodes,
        *recording.meta.declared,
        *(node for pool in pools for node in pool["in_service"]),
    }
    for out in (*results["out_of_service"], *results["return_list"]):
        named.update(nodes(out["where"]))
    for leaf in (results["placement"] or {"leaves": []})["leaves"]:
        named.update(nodes(leaf["nodes"]))
        named.update(re.findall(r"[\w.-]*\d[\w.-]*", f"{leaf['leaf']} {leaf['above']}"))
    known |= dict.fromkeys(_users(results), "users")
    known |= dict.fromkeys((trial["ticket"].lower() for trial in _trials(results)), "tickets")
    known |= dict.fromkeys((name.lower() for name in named), "nodes")
    owners = {kind: results["recording"][kind] for kind in ("cluster", "provider")}
    known |= {name.lower(): kind for kind, name in owners.items() if name}
    return {name: kind for name, kind in known.items() if name}


def _users(results: Mapping[str, Any]) -> set[str]:
    """Name the accounts that are told to have taken a node out, but for those that every cluster has."""
    told = {moment["by"] for trial in _trials(results) for moment in (*trial["moments"], *trial["events"])}
    told.update(_USER.findall(json.dumps(results, ensure_ascii=False)))
    return {name.lower() for name in told - _EVERYWHERE}


def _trials(results: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for check in results["checks"].values():
        yield from check.get("trials", ())


def _serials(recording: Recording) -> Iterator[bytes]:
    for node in recording.nodes.values():
        for item in node.items:
            yield from _SERIAL.findall(item.out)
