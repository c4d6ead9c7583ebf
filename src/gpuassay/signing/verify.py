"""Verify, offline, what was signed: name every file, check and date that does not match."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from gpuassay import __version__
from gpuassay.evidence.files import RecordingError, naming
from gpuassay.evidence.run import CERTIFICATE, LATER, REDACTED, SIGNED, RunFolder
from gpuassay.evidence.sums import check_sums, hash_file
from gpuassay.judge.config import ConfigError
from gpuassay.signing import keys, statement
from gpuassay.signing.assessment import beside, read_beside
from gpuassay.signing.certify import render
from gpuassay.signing.content import digests, read_results, unlike_journal
from gpuassay.signing.envelope import SigningError, canonical, is_envelope, read_envelope
from gpuassay.signing.plan import PAYLOAD_TYPE, read_plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import date
    from pathlib import Path

    from securesystemslib.signer import SSlibKey

    from gpuassay.signing.envelope import Envelope


@dataclass(frozen=True, slots=True)
class Asked:
    """By whose keys, on which day, and to which plan something is to be held."""

    keys: tuple[SSlibKey, ...]
    on: date
    plan: Path | None = None


def verify(place: Path, asked: Asked) -> list[str]:
    """Say what of a run, a file of it, a plan or an assessor's file does not match; nothing is good news.

    Raises SigningError where there is nothing to verify.
    """
    if place.is_dir():
        found = verify_run(place, asked)
    elif not place.is_file():
        raise SigningError(f"{place}: no such file or folder")
    elif (run := _run_of(place)) is not None:
        found = _one_file(run, place, asked)
    elif is_envelope(place):
        found = verify_plan(place, asked)
    else:
        found = verify_assessment(place, asked)
    return list(dict.fromkeys(found))


def verify_plan(path: Path, asked: Asked) -> Iterator[str]:
    """Say which keys have not signed a plan."""
    read_plan(path)
    yield from _signatures(path, read_envelope(path, PAYLOAD_TYPE), asked.keys)


def verify_assessment(path: Path, asked: Asked) -> Iterator[str]:
    """Say which keys have not signed an assessor's file, or that its text is another one now."""
    envelope = read_beside(path, hash_file(path))
    if envelope is None:
        yield f"{path.name}: nobody has signed it: there is no {beside(path).name}"
    else:
        yield from _signatures(beside(path), envelope, asked.keys)


def verify_run(run: Path, asked: Asked) -> Iterator[str]:
    """Say what of a run is not as it was signed, or not what its own evidence gives."""
    signed = run / SIGNED
    try:
        envelope = read_envelope(signed, statement.PAYLOAD_TYPE)
        said = statement.read(envelope, signed)
    except SigningError as error:
        yield str(error)
        yield from _seal(run)
        return
    yield from _signatures(signed, envelope, asked.keys)
    yield from _validity(said, asked.on)
    yield from _broken(_files(run, said))
    try:
        results = read_results(run)
    except SigningError as error:
        yield str(error)
        return
    if not (run / REDACTED).is_file():  # an edition has no journal, and is held against the full run instead
        yield from _broken(unlike_journal(run, results))
    yield from _broken(_unlike_statement(run, results, said))
    yield from _broken(_unlike_certificate(run, results, said, envelope))
    yield from _broken(_another_plan(run, results, asked.plan))


def _broken(found: Iterator[str]) -> Iterator[str]:
    """Pass on what is found, and tell of a file that is not as it should be as of one finding more."""
    try:
        yield from found
    except (SigningError, RecordingError, ConfigError) as error:
        yield str(error)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, TemplateError) as error:
        yield f"results.json: not as a run wrote it: {error!r}"


def _run_of(place: Path) -> Path | None:
    """Find the folder of the signed run that a file is in."""
    return next((folder for folder in place.absolute().parents if (folder / SIGNED).is_file()), None)


def _one_file(run: Path, place: Path, asked: Asked) -> Iterator[str]:
    signed = run / SIGNED
    envelope = read_envelope(signed, statement.PAYLOAD_TYPE)
    said = statement.read(envelope, signed)
    yield from _signatures(signed, envelope, asked.keys)
    yield from _validity(said, asked.on)
    name = place.absolute().relative_to(run).as_posix()
    if name != SIGNED:
        digest = _subjects(said).get(name)
        if digest is None:
            yield f"{name}: {SIGNED} does not name it"
        elif digest != hash_file(place):
            yield f"{name}: not as it was signed"


def _signatures(path: Path, envelope: Envelope, wanted: Sequence[SSlibKey]) -> Iterator[str]:
    if not wanted:
        claimed = ", ".join(envelope.keyids) or "nobody"
        ask = "give --key=PUB, as its owner gave it to you"
        yield f"{path.name}: no key to check it by: {ask} (it names {claimed})"
    for keyid in keys.unsigned_by(envelope, wanted):
        yield f"{path.name}: not signed by the key {keyid}"


def _seal(run: Path) -> Iterator[str]:
    with naming(run):
        sealed = check_sums(run, LATER)
    if sealed.seal != "sealed":
        yield sealed.why or "SHA256SUMS: no such file, so nothing says what the run left"


def _files(run: Path, said: Mapping[str, Any]) -> Iterator[str]:
    there, signed = digests(run, but=(SIGNED,)), _subjects(said)
    for name in sorted({*there, *signed}):
        if name not in signed:
            yield f"{name}: was added after the signature"
        elif name not in there:
            yield f"{name}: is missing"
        elif there[name] != signed[name]:
            yield f"{name}: not as it was signed"
    yield from _seal(run)


def _subjects(said: Mapping[str, Any]) -> dict[str, str]:
    return {subject["name"]: subject["digest"]["sha256"] for subject in said["subject"]}


def _validity(said: Mapping[str, Any], on: date) -> Iterator[str]:
    own = said["predicate"]["gpuassay"]
    if on.isoformat() > own["validUntil"]:
        yield f"{SIGNED}: expired: it was valid until {own['validUntil']}, and this is {on.isoformat()}"


def _unlike_statement(run: Path, results: Mapping[str, Any], said: Mapping[str, Any]) -> Iterator[str]:
    """Say in what the signed words differ from the results; whoever has the key could sign any words."""
    own = said["predicate"]["gpuassay"]
    validity = {key: own.get(key) for key in ("validFrom", "validUntil")}
    told = statement.predicate(digests(run, but=(SIGNED,)), results, validity)
    for part in sorted({*told, *said["predicate"]}):
        if canonical(told.get(part)) != canonical(said["predicate"].get(part)):
            yield f"{SIGNED}: {part} is not what results.json gives"


def _unlike_certificate(
    run: Path, results: Mapping[str, Any], said: Mapping[str, Any], envelope: Envelope
) -> Iterator[str]:
    """Render the page once more; another version of GPUassay may do that otherwise, and is not asked to."""
    if results["suite"]["version"] != __version__:
        return
    path = run / CERTIFICATE
    pages = (
        render(run, results, keyid, said["predicate"]["gpuassay"]).encode("utf-8", "replace")
        for keyid in envelope.keyids
    )
    with naming(path):
        page = path.read_bytes()
    if page not in pages:
        yield f"{CERTIFICATE}: not the page that results.json gives"


def _another_plan(run: Path, results: Mapping[str, Any], plan: Path | None) -> Iterator[str]:
    held = results.get("plan", {}).get("sha256")
    copy = RunFolder(run).plan
    if held is not None and not (run / REDACTED).is_file() and read_plan(copy).digest != held:
        yield f"{copy.name}: not the plan that results.json names"
    if plan is not None and (wanted := read_plan(plan).digest) != held:
        was = f"to the plan {held}" if held else "to no plan"
        yield f"another plan: {plan} is {wanted}, and the run was held {was}"
