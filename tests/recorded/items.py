"""How the generator writes down what a probe would have brought home."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NO_FILE = "No such file or directory"
SECONDS = 0.004  # how long each item "took": one made-up figure, so that nobody reads meaning into it


def file(item_id: str, path: str, content: str) -> Item:
    """Return an item as read from a file."""
    return Item(item_id, 0, asked={"file": path}, seconds=SECONDS, out=content.encode())


def command(item_id: str, argv: Sequence[str], output: str, status: int = 0) -> Item:
    """Return an item as printed by a command that ended with this exit status."""
    return Item(item_id, 0, asked={"command": list(argv)}, exit=status, seconds=SECONDS, out=output.encode())


def library(item_id: str, name: str, content: object) -> Item:
    """Return an item as answered by a library: a JSON document."""
    return Item(item_id, 0, asked={"library": name}, seconds=SECONDS, out=encode(content))


def tree(item_id: str, path: str, content: object) -> Item:
    """Return an item as read from a tree of small files: a JSON document."""
    return Item(item_id, 0, asked={"tree": path}, seconds=SECONDS, out=encode(content))


def absent(item_id: str, asked: Mapping[str, Any], why: str = "") -> Item:
    """Return an item that was asked for and is not there; ``why`` may be left to a file's path."""
    why = why or f"{asked['file']}: {NO_FILE}"
    return Item(item_id, 0, status="not_found", asked=asked, seconds=SECONDS, why=why)


def encode(content: object) -> bytes:
    """Return a JSON document as the probe writes it: one line, in the order given."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def made_up(*words: object) -> str:
    """Return 32 hexadecimal digits that depend on the words alone: of these, identifiers are made here.

    They belong to no machine; only the form that callers give them is real.
    """
    return hashlib.sha256("/".join(map(str, words)).encode()).hexdigest()[:32]


def dashed(digits: str) -> str:
    """Return 32 hexadecimal digits in the form of a UUID."""
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
