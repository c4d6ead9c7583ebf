"""Items as JSON lines: written exactly, read tolerantly."""

from __future__ import annotations

import base64
import json
import re
import reprlib
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast, get_args

from gpuassay.evidence.item import Item, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_STATUSES = frozenset(get_args(Status))
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_CONTENT = ("out", "out_b64", "blob")


@dataclass(frozen=True, slots=True)
class Stored:
    """An item as its line holds it; ``blob`` names the content that lies in a file of its own."""

    item: Item
    blob: str = ""


def dump_json(document: Mapping[str, Any]) -> bytes:
    """Write one line of JSON, in ASCII: no terminal, editor or half a surrogate pair can spoil it."""
    return json.dumps(document, separators=(",", ":")).encode("ascii")


def load_json(data: bytes, place: str) -> tuple[list[tuple[int, dict[str, Any]]], list[str]]:
    """Read JSON objects, one a line, each with the number of its line; and say what could not be read.

    A last line without its end is what a killed writer leaves: it counts only if it is whole.
    """
    objects, problems = [], []
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            document = _decode(line.decode())
        except (ValueError, RecursionError):
            document = None
        if isinstance(document, dict):
            objects.append((number, document))
        else:
            cut = number == len(lines)
            problems.append(f"{place}:{number}: {'cut off' if cut else 'not a JSON object'}")
    return objects, problems


def _decode(text: str) -> Any:
    document = json.loads(text)
    if _SURROGATE.search(text):  # half a pair may be escaped in JSON, but no file, page or terminal takes it
        return json.loads(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace"))
    return document


def dump_item(stored: Stored) -> bytes:
    """Write an item's line; what is absent is left out. Its content is in ``blob`` if that is given."""
    item = stored.item
    document = {
        "id": item.id,
        "seq": item.seq,
        "status": item.status,
        "asked": dict(item.asked) or None,
        "exit": item.exit,
        "seconds": item.seconds,
        **({"blob": stored.blob} if stored.blob else _inline(item.out)),
        "err": item.err or None,
        "why": item.why or None,
        "truncated": item.truncated or None,
    }
    return dump_json({key: value for key, value in document.items() if value is not None})


def load_items(data: bytes, place: str) -> tuple[list[Stored], list[str]]:
    """Read a file of items, by rising ``seq``, and say what is wrong with which line."""
    objects, problems = load_json(data, place)
    stored, seen = [], set[int]()
    for number, document in objects:
        faults: list[str] = []
        if found := _load_item(document, number, faults):
            stored.append(found)
            if found.item.seq in seen:
                faults.append(f"seq {found.item.seq} is there already")
            seen.add(found.item.seq)
        problems += [f"{place}:{number}: {fault}" for fault in faults]
    return sorted(stored, key=lambda one: one.item.seq), problems


def _inline(out: bytes) -> dict[str, str]:
    if not out:
        return {}
    try:
        return {"out": out.decode()}
    except UnicodeDecodeError:
        return {"out_b64": base64.b64encode(out).decode("ascii")}


def _load_item(document: Mapping[str, Any], number: int, faults: list[str]) -> Stored | None:
    """Keep of an item what can be kept. What it answered must be beyond doubt, or it has failed."""
    name = document.get("id")
    if not isinstance(name, str) or not name or not name.isprintable():
        faults.append(f"id is {reprlib.repr(name)}: nothing can ask for this item")
        return None
    status = document.get("status")
    out, blob, doubt = _content(document)
    if not isinstance(status, str) or status not in _STATUSES:
        doubt = f"status is {reprlib.repr(status)}, not one of {', '.join(sorted(_STATUSES))}"
    rest = _known(document, number, faults)
    if doubt:
        faults.append(doubt)
        status, rest["why"] = "failed", f"the recorded line cannot be used: {doubt}"
    return Stored(Item(id=name, status=cast("Status", status), out=out, **rest), blob)


def _content(document: Mapping[str, Any]) -> tuple[bytes, str, str]:
    """Return what came back: bytes, or the name of the blob with them, or why neither can be had."""
    given = [key for key in _CONTENT if document.get(key) is not None]
    if not given:
        return b"", "", ""
    if len(given) > 1:
        return b"", "", f"{' and '.join(given)} together"
    key, value = given[0], document[given[0]]
    if not isinstance(value, str):
        return b"", "", f"{key} is not a string"
    if key == "blob":
        return b"", value, ""
    try:
        return (base64.b64decode(value, validate=True) if key == "out_b64" else value.encode()), "", ""
    except ValueError as error:
        return b"", "", f"{key}: {error}"


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_seconds(value: object) -> bool:
    return type(value) in (int, float) and 0 <= cast("float", value) <= sys.float_info.max


def _is_a(kind: type) -> Callable[[object], bool]:
    return lambda value: type(value) is kind


# What a key must be, and what stands in for it where it is not. Whether an output is whole is then unknown.
_REST: Mapping[str, tuple[Callable[[object], bool], Any]] = {
    "asked": (_is_a(dict), {}),
    "exit": (_is_a(int), None),
    "seconds": (_is_seconds, None),
    "err": (_is_a(str), ""),
    "why": (_is_a(str), ""),
    "truncated": (_is_a(bool), True),
}


def _known(document: Mapping[str, Any], number: int, faults: list[str]) -> dict[str, Any]:
    """Take the keys that say how an item came about; one of a wrong type is told and replaced."""
    seq = document.get("seq")
    kept: dict[str, Any] = {"seq": seq}
    if not _is_count(seq):
        faults.append(f"seq is {reprlib.repr(seq)}, not a whole number; taken as {number}")
        kept["seq"] = number
    for key, (holds, stand_in) in _REST.items():
        value = document.get(key)
        if value is not None:
            kept[key] = value if holds(value) else stand_in
            if kept[key] is not value:
                faults.append(f"{key} is {reprlib.repr(value)}")
    return kept
