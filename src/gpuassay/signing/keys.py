"""Ed25519 keys as PEM files, and what they sign; the only module that needs the extra ``signing``."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from securesystemslib.dsse import Envelope as Dsse
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import CryptoSigner, SSlibKey

from gpuassay.evidence.files import RecordingError, naming, open_regular
from gpuassay.signing.envelope import Signature, SigningError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from gpuassay.signing.envelope import Envelope

_ANOTHER = "expected a key of ed25519, which is what gpuassay keygen makes"


def generate(path: Path) -> tuple[Path, str]:
    """Write a new key pair: the private key to ``path``, the public one beside it as ``.pub``; gives its id.

    Raises SigningError rather than write over anything.
    """
    private = Ed25519PrivateKey.generate()
    public = path.with_name(f"{path.name}.pub")
    pem = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    _create(public, pem, 0o644)
    try:
        _create(path, CryptoSigner(private).private_bytes, 0o600)
    except SigningError:
        public.unlink()
        raise
    return public, _keyid(private.public_key())


def _create(path: Path, data: bytes, mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except OSError as error:
        raise SigningError(f"{path}: {error.strerror}; a new key needs a name of its own") from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def signer(path: Path) -> CryptoSigner:
    """Read a private key. Raises SigningError that names the file."""
    key = _read(path, lambda pem: load_pem_private_key(pem, None), "a private key")
    if not isinstance(key, Ed25519PrivateKey):
        raise SigningError(f"{path}: {_ANOTHER}")
    return CryptoSigner(key)


def public_key(path: Path) -> SSlibKey:
    """Read a public key. Raises SigningError that names the file."""
    key = _read(path, load_pem_public_key, "a public key")
    if not isinstance(key, Ed25519PublicKey):
        raise SigningError(f"{path}: {_ANOTHER}")
    return SSlibKey.from_crypto(key)


def _read(path: Path, load: Callable[[bytes], object], what: str) -> object:
    try:
        with naming(path), open_regular(path) as file:
            return load(file.read())
    except RecordingError as error:
        raise SigningError(f"{error}: {what} is needed there; gpuassay keygen FILE makes a pair") from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:  # TypeError: it has a password
        raise SigningError(f"{path}: expected {what} in PEM, without a password: {error}") from error


def _keyid(key: Ed25519PublicKey) -> str:
    return SSlibKey.from_crypto(key).keyid


def sign(envelope: Envelope, with_key: CryptoSigner) -> Envelope:
    """Add a signature."""
    made = Dsse(envelope.payload, envelope.payload_type, {}).sign(with_key)
    return envelope.signed(Signature(made.keyid, base64.b64encode(bytes.fromhex(made.signature)).decode()))


def unsigned_by(envelope: Envelope, keys: Sequence[SSlibKey]) -> list[str]:
    """Give the ids of those of these keys that have not signed it."""
    missing = []
    for key in keys:
        try:
            Dsse.from_dict(envelope.document()).verify([key], 1)
        except (VerificationError, ValueError, KeyError):
            missing.append(key.keyid)
    return missing
