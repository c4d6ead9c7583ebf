"""The in-toto statement of a run: which files it is about, and what came out.

The predicate is in-toto's test result, version 0.1 (github.com/in-toto/attestation, spec/predicates),
with a part of ours in it that readers of in-toto pass over, as that specification lets them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
from in_toto_attestation.v1.statement import Statement
from in_toto_attestation.v1.statement_pb2 import Statement as Message

from gpuassay.signing.envelope import Envelope, SigningError, canonical

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PAYLOAD_TYPE = "application/vnd.in-toto+json"
PREDICATE_TYPE = "https://in-toto.io/attestation/test-result/v0.1"
CONFIGURATION = ("thresholds.effective.toml", "recording/site.toml", "plan.json")


def make(files: Mapping[str, str], results: Mapping[str, Any], validity: Mapping[str, str]) -> Envelope:
    """State what a run came to, about files that are given with their SHA-256; unsigned yet."""
    subjects = [_descriptor(name, digest) for name, digest in files.items()]
    statement = Statement(subjects, PREDICATE_TYPE, predicate(files, results, validity))
    statement.validate()
    return Envelope(canonical(MessageToDict(statement.pb)), PAYLOAD_TYPE)


def predicate(
    files: Mapping[str, str], results: Mapping[str, Any], validity: Mapping[str, str]
) -> dict[str, Any]:
    """Say it in in-toto's words; an error counts as failed, for it earns nothing and turns a run red."""
    checks = results["checks"]
    return {
        "result": verdict(results),
        "configuration": [
            {"name": name, "digest": {"sha256": files[name]}} for name in CONFIGURATION if name in files
        ],
        "passedTests": _named(checks, "pass"),
        "warnedTests": _named(checks, "warn"),
        "failedTests": _named(checks, "fail", "error"),
        "gpuassay": {
            "version": results["suite"]["version"],
            "profile": results["profile"],
            "recording": results["recording"]["digest"],
            "tier": {key: results["tier"][key] for key in ("state", "won", "ceiling")},
            "notJudged": _named(checks, "unseen", "not_run"),
            "notApplicable": _named(checks, "skip"),
            **validity,
        },
    }


def verdict(results: Mapping[str, Any]) -> str:
    """Give in-toto's word for all of it; what was not judged is told beside it, in ``gpuassay``."""
    found = {check["verdict"] for check in results["checks"].values()}
    return "FAILED" if found & {"fail", "error"} else "WARNED" if "warn" in found else "PASSED"


def read(envelope: Envelope, path: Path) -> dict[str, Any]:
    """Give the statement in an envelope. Raises SigningError for one that in-toto would not take."""
    try:
        document: dict[str, Any] = json.loads(envelope.payload)
        Statement.copy_from_pb(ParseDict(document, Message())).validate()
        digests = [subject["digest"]["sha256"] for subject in document["subject"]]
        until = document["predicate"]["gpuassay"]["validUntil"]
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, ParseError) as error:
        raise SigningError(f"{path}: not a statement of in-toto about a run: {error}") from error
    texts = [until, *digests, *(subject.get("name") for subject in document["subject"])]
    if document["predicateType"] != PREDICATE_TYPE or not all(isinstance(text, str) for text in texts):
        raise SigningError(f"{path}: expected a statement with a predicate {PREDICATE_TYPE}")
    return document


def _descriptor(name: str, digest: str) -> Any:
    return ResourceDescriptor(name=name, digest={"sha256": digest}).pb


def _named(checks: Mapping[str, Any], *verdicts: str) -> list[str]:
    return sorted(check for check, found in checks.items() if found["verdict"] in verdicts)
