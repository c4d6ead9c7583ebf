"""TOML documents as wholes: read, written and hashed."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

from gpuassay.judge.config import ConfigError, Mistake, Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


def read(path: Path) -> str:
    """Read a file's text; raises ConfigError if that cannot be done."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError([Mistake(Place(str(path)), f"cannot be read: {why}")]) from error


def parse(text: str, file: str) -> dict[str, Any]:
    """Parse TOML; raises ConfigError with the line for what is none."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also a number too long, tables too deep
        raise ConfigError([Mistake(Place(file), f"is not TOML: {error}")]) from error


def digest(*documents: Mapping[str, Any]) -> str:
    """Hash what TOML documents say (SHA-256, hex): comments, spaces and the order of keys do not count."""
    canonical = json.dumps(documents, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()


def write(document: Mapping[str, Any]) -> str:
    """Write a document as TOML. A table beside plain values is written inline, as limits and figures are."""
    return "\n".join(_lines((), document)).lstrip("\n") + "\n"


def _lines(path: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[str]:
    if table and all(isinstance(value, dict) for value in table.values()):
        for key, value in table.items():
            yield from _lines((*path, key), value)
    else:
        if path:
            yield f"\n[{'.'.join(map(_key, path))}]"
        for key, value in table.items():
            yield f"{_key(key)} = {_value(value)}"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _value(value: object) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_key(key)} = {_value(item)}' for key, item in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for one character that JSON leaves as it is.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    return str(value).lower() if isinstance(value, (bool, float)) else str(value)
