"""Large outputs: each a file of its own, compressed, named by the SHA-256 of what it holds."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import zstandard

from gpuassay.evidence.files import naming, open_regular, write_atomic

if TYPE_CHECKING:
    from pathlib import Path

INLINE_BYTES = 64 * 1024  # an output up to this size stays in its line
MAX_BYTES = 64 * 1024 * 1024  # what one output may come to; a small file can claim to unpack to terabytes

_CHUNK_BYTES = 1024 * 1024
_SHA256 = re.compile(r"[0-9a-f]{64}")


class BlobError(Exception):
    """A blob is missing, damaged or too large."""


class Blobs:
    """The ``blobs/`` of a recording."""

    def __init__(self, recording: Path) -> None:
        self._folder = recording / "blobs"

    def store(self, content: bytes) -> str:
        """Keep content, once however often it comes, and return its name. Raises ``RecordingError``."""
        name = hashlib.sha256(content).hexdigest()
        path = self._path(name)
        if not path.exists():
            with naming(self._folder):
                self._folder.mkdir(mode=0o700, exist_ok=True)
            write_atomic(path, zstandard.compress(content), durable=False)
        return name

    def load(self, name: str) -> bytes:
        """Return the content that goes by this name. Raises ``BlobError`` if it is not what the name says."""
        if not _SHA256.fullmatch(name):
            raise BlobError("blob is not the SHA-256 of an output")
        try:
            content = self._unpack(self._path(name))
        except (OSError, zstandard.ZstdError) as error:
            raise BlobError(f"blobs/{name}.zst: {getattr(error, 'strerror', None) or error}") from error
        if hashlib.sha256(content).hexdigest() != name:
            raise BlobError(f"blobs/{name}.zst does not hold what its name says")
        return content

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.zst"

    @staticmethod
    def _unpack(path: Path) -> bytes:
        content = bytearray()
        with open_regular(path) as file, zstandard.ZstdDecompressor().stream_reader(file) as reader:
            while chunk := reader.read(_CHUNK_BYTES):
                content += chunk
                if len(content) > MAX_BYTES:
                    raise BlobError(f"{path.parent.name}/{path.name} unpacks to more than {MAX_BYTES} bytes")
        return bytes(content)
