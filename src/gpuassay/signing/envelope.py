"""A DSSE envelope as a file: read and written here, signed and verified by ``keys``.

DSSE is the Dead Simple Signing Envelope (github.com/secure-systems-lab/dsse, protocol 1.0). Reading one
needs no cryptography, so a run can carry a signed plan where the extra ``signing`` is not installed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.files import RecordingError, naming, open_regular, write_atomic

if TYPE_CHECKING:
    from pathlib import Path


class SigningError(Exception):
    """Something cannot be signed or verified; one sentence that names the place and what to do."""


def canonical(document: object) -> bytes:
    """Write JSON in one way only: keys sorted, no spaces, UTF-8; what is hashed and signed."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature: the id of the key that made it, and its bytes in base64."""

    keyid: str
    sig: str


@dataclass(frozen=True, slots=True)
class Envelope:
    """A payload, what it is, and who has signed it."""

    payload: bytes
    payload_type: str
    signatures: tuple[Signature, ...] = ()

    @property
    def digest(self) -> str:
        """The SHA-256 of the payload: what a plan is known by."""
        return hashlib.sha256(self.payload).hexdigest()

    @property
    def keyids(self) -> list[str]:
        """The ids of the keys that are said to have signed it."""
        return [signature.keyid for signature in self.signatures]

    def signed(self, signature: Signature) -> Envelope:
        """Add a signature, in place of an earlier one by the same key."""
        others = [one for one in self.signatures if one.keyid != signature.keyid]
        return replace(self, signatures=tuple(sorted([*others, signature], key=lambda one: one.keyid)))

    def document(self) -> dict[str, Any]:
        """Give it as DSSE's JSON."""
        return {
            "payload": base64.b64encode(self.payload).decode(),
            "payloadType": self.payload_type,
            "signatures": [{"keyid": one.keyid, "sig": one.sig} for one in self.signatures],
        }

    @property
    def text(self) -> bytes:
        """Its file, to the byte: there is one way only to write an envelope, so that no byte is free."""
        return canonical(self.document()) + b"\n"

    def write(self, path: Path) -> None:
        """Write its file. Raises RecordingError."""
        write_atomic(path, self.text)


def is_envelope(path: Path) -> bool:
    """Tell an envelope, whole or broken, from TOML, which never begins so. Raises SigningError."""
    try:
        with naming(path), open_regular(path) as file:
            return file.read(1) == b"{"
    except RecordingError as error:
        raise SigningError(str(error)) from error


def read_envelope(path: Path, payload_type: str) -> Envelope:
    """Read an envelope of a type. Raises SigningError that names the file and what is wrong with it."""
    try:
        with naming(path), open_regular(path) as file:
            data = file.read()
    except RecordingError as error:
        raise SigningError(str(error)) from error
    envelope = _parse(path, data)
    if envelope.payload_type != payload_type:
        raise SigningError(f"{path}: expected a payload of {payload_type}, found {envelope.payload_type!r}")
    if envelope.text != data:
        raise SigningError(f"{path}: not as an envelope is written (one line of JSON, keys sorted): altered")
    return envelope


def _parse(path: Path, data: bytes) -> Envelope:
    try:
        match json.loads(data):
            case {"payload": str(payload), "payloadType": str(kind), "signatures": list(found)}:
                signatures = tuple(Signature(str(one["keyid"]), str(one["sig"])) for one in found)
                return Envelope(base64.b64decode(payload, validate=True), kind, signatures)
    except (ValueError, TypeError, LookupError, RecursionError, binascii.Error) as error:
        raise SigningError(f"{path}: not a DSSE envelope: {error}") from error
    raise SigningError(f"{path}: not a DSSE envelope: expected payload, payloadType and signatures")
