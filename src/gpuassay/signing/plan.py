"""The plan: what both parties agree on before a run, and in what a run differs from it."""

from __future__ import annotations

import json
import tomllib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gpuassay import __version__
from gpuassay.report.words import plural
from gpuassay.signing.envelope import Envelope, SigningError, canonical, read_envelope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from gpuassay.judge.site import Site

PAYLOAD_TYPE = "application/vnd.gpuassay.plan+json"
SCHEMA = 1
_NAMED = 20
"""So many differences of one file are named; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What decides a verdict beside the evidence.

    ``site`` is the site file's text (None for none), ``thresholds`` what the checks are held to once the
    site file has had its say, ``tables`` the digest of thresholds.toml and advisories.toml as they are.
    """

    version: str
    profile: str
    site: str | None
    thresholds: str
    tables: str

    @classmethod
    def of(cls, site: Site, text: str | None, profile: str) -> Terms:
        """Give what decides where a site file of this ``text`` holds."""
        return cls(__version__, profile, text, site.effective_toml, site.catalog.digest)

    def envelope(self) -> Envelope:
        """Put it into an envelope that nobody has signed yet."""
        return Envelope(canonical({"schema": SCHEMA, **asdict(self)}), PAYLOAD_TYPE)


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan as it was read: its terms, its hash, and the keys that are said to have signed it."""

    terms: Terms
    digest: str
    keyids: tuple[str, ...]

    def document(self, used: Terms) -> dict[str, Any]:
        """Say to what plan a run was held, and in what it differs; part of results.json."""
        return {
            "sha256": self.digest,
            "signed_by": list(self.keyids),
            "differs": list(differences(self.terms, used)),
        }


def read_plan(path: Path) -> Plan:
    """Read a plan. Raises SigningError that names the file and what is wrong with it."""
    envelope = read_envelope(path, PAYLOAD_TYPE)
    try:
        document = json.loads(envelope.payload)
        schema = document.pop("schema")
        terms = Terms(**document)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise SigningError(f"{path}: not a plan: {error}") from error
    texts = {**asdict(terms), "site": terms.site or ""}
    if schema != SCHEMA or not all(isinstance(value, str) for value in texts.values()):
        raise SigningError(f"{path}: not a plan of schema {SCHEMA}; write it with gpuassay plan")
    return Plan(terms, envelope.digest, tuple(envelope.keyids))


def off_plan(agreed: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Give the stamp of a run that is not what was agreed on."""
    differs = agreed["differs"]
    if differs:
        more = f"; and {len(differs) - 1} more" if len(differs) > 1 else ""
        yield "off plan", f"it differs from the plan that was agreed on: {differs[0]}{more}"


def differences(agreed: Terms, used: Terms) -> Iterator[str]:
    """Say in what terms differ: version, profile, and each key of the site file and the thresholds."""
    for what, old, new in (
        ("version", agreed.version, used.version),
        ("profile", agreed.profile, used.profile),
    ):
        if old != new:
            yield f"{what}: {old} was agreed, {new} was used"
    if agreed.site is None and used.site is not None:
        yield "site: no site file was agreed, and one was used"
    elif used.site is None and agreed.site is not None:
        yield "site: a site file was agreed, and none was used"
    elif agreed.site != used.site:
        yield from _of_file("site", agreed.site or "", used.site or "")
    if agreed.thresholds != used.thresholds:
        yield from _of_file("thresholds", agreed.thresholds, used.thresholds)
    elif agreed.tables != used.tables:
        yield "tables: thresholds.toml or advisories.toml is not as agreed"


def _of_file(what: str, agreed: str, used: str) -> Iterator[str]:
    try:
        old, new = dict(_leaves(tomllib.loads(agreed))), dict(_leaves(tomllib.loads(used)))
    except ValueError:  # neither run nor plan takes what is no TOML; a plan written by hand might hold it
        yield f"{what}: not as agreed, and one of the two is not TOML"
        return
    keys = [key for key in (*old, *(key for key in new if key not in old)) if old.get(key) != new.get(key)]
    for key in keys[:_NAMED]:
        yield f"{what}: {key}: {_shown(old, key)} was agreed, {_shown(new, key)} was used"
    if len(keys) > _NAMED:
        yield f"{what}: and {plural(len(keys) - _NAMED, 'value')} more"
    if not keys:
        yield f"{what}: the same values, in other words (comments, spaces or order)"


def _shown(values: dict[str, str], key: str) -> str:
    return values.get(key, "nothing")


def _leaves(node: object, path: str = "") -> Iterator[tuple[str, str]]:
    """List the values of a TOML document by their path: ``pool.0.contracted``."""
    parts: list[tuple[object, object]] = []
    if isinstance(node, dict):
        parts = list(node.items())
    elif isinstance(node, list):
        parts = list(enumerate(node))
    if not parts:
        yield path, json.dumps(node, ensure_ascii=False, default=str)
    for key, value in parts:
        yield from _leaves(value, f"{path}.{key}" if path else str(key))
