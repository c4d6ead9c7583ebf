"""An assessor's file and the envelope beside it, which holds the same text and who has signed it.

``assessor.toml`` stays what people write and read; ``assessor.toml.dsse.json`` goes with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from gpuassay.evidence.files import naming, open_regular
from gpuassay.signing.envelope import Envelope, SigningError, read_envelope

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PAYLOAD_TYPE: Final = "application/vnd.gpuassay.assessment+toml"
_SUFFIX: Final = ".dsse.json"

Word: TypeAlias = Literal["signed", "unsigned", "unverified", "wrong key"]


@dataclass(frozen=True, slots=True)
class Standing:
    """Who stands behind a file: ``by`` are the keys that were verified, ``why`` is what is missing."""

    word: Word
    by: tuple[str, ...] = ()
    why: str = ""


UNSIGNED: Final = Standing("unsigned", why="nobody has signed the assessor's file")


def beside(path: Path) -> Path:
    """Name the envelope that goes with a file."""
    return path.with_name(path.name + _SUFFIX)


def read_beside(path: Path, digest: str) -> Envelope | None:
    """Read the envelope of a file of this SHA-256; None where there is none.

    Raises SigningError for one that holds another text: the file was changed after it was signed.
    """
    if not beside(path).exists():
        return None
    envelope = read_envelope(beside(path), PAYLOAD_TYPE)
    if envelope.digest != digest:
        raise SigningError(
            f"{path}: not as it was signed: {beside(path).name} holds another text; "
            "get the signed one, or have it signed anew with gpuassay sign"
        )
    return envelope


def sign(path: Path, key: Path) -> tuple[Path, list[str]]:
    """Sign a file's text as it is now; gives its envelope's path, and the ids of all who have signed it.

    Signatures under another text end with it. Raises SigningError and RecordingError.
    """
    from gpuassay.signing import keys  # noqa: PLC0415 - a rating without --key needs no cryptography

    with naming(path), open_regular(path) as file:
        envelope = Envelope(file.read(), PAYLOAD_TYPE)
    if beside(path).exists():
        earlier = read_envelope(beside(path), PAYLOAD_TYPE)
        envelope = earlier if earlier.payload == envelope.payload else envelope
    envelope = keys.sign(envelope, keys.signer(key))
    envelope.write(beside(path))
    return beside(path), envelope.keyids


def standing(path: Path, digest: str, public: Sequence[Path]) -> Standing:
    """Tell how the file of this SHA-256 is signed, by all of these keys.

    Raises SigningError for what was altered: a text that is not the signed one, or a signature that is not of
    its text though its key is named. That is no weaker file, it is another one.
    """
    envelope = read_beside(path, digest)
    if envelope is None:
        return UNSIGNED
    claimed = ", ".join(envelope.keyids) or "nobody"
    if not public:
        why = f"no key was given to check the signature of the assessor's file by: it names {claimed}"
        return Standing("unverified", why=why)
    return _verified(path, envelope, public, claimed)


def _verified(path: Path, envelope: Envelope, public: Sequence[Path], claimed: str) -> Standing:
    try:
        from gpuassay.signing import keys  # noqa: PLC0415 - as above
    except ImportError as error:
        raise SigningError(f"--key: {error}: pip install 'gpuassay[signing]'") from error

    wanted = [keys.public_key(one) for one in public]
    missing = keys.unsigned_by(envelope, wanted)
    for keyid in missing:
        if keyid in envelope.keyids:
            raise SigningError(
                f"{beside(path)}: the signature of the key {keyid} is not of this text: altered"
            )
    if missing:
        why = f"the assessor's file is not signed by the key {', '.join(missing)}: it names {claimed}"
        return Standing("wrong key", why=why)
    return Standing("signed", tuple(dict.fromkeys(key.keyid for key in wanted)))
