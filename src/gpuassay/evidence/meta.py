"""``recording.toml``: what a recording says of itself. Read strictly, for everything else hangs on it."""

from __future__ import annotations

import json
import re
import reprlib
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

SCHEMA = 1

_YEAR_SECONDS = 366 * 86400  # a clock further off is no reading of a clock

# Host, Slurm and Kubernetes names; nothing in it can lead out of a folder or open a node-set range.
_NODE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,247}")


def is_node_name(text: object) -> bool:
    """Tell whether this can name a node, and so its file."""
    return isinstance(text, str) and _NODE_NAME.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """Where, when and by what a recording was made.

    Times are aware. ``end`` is None for a run that was cut; what was measured afterwards was there by
    ``measured``. ``clock_offset_seconds`` is a node's clock minus that of the machine that recorded.
    ``synthetic`` marks a cluster that does not exist.
    """

    target: str = ""
    probe: str = ""
    cluster: str = ""
    begin: datetime | None = None
    end: datetime | None = None
    measured: datetime | None = None
    declared: tuple[str, ...] = ()
    synthetic: bool = False
    clock_offset_seconds: Mapping[str, float] = field(default_factory=dict)
    schema: int = SCHEMA

    @property
    def clock(self) -> datetime | None:
        """The time that judging goes by: the end, or the beginning of a run that was cut."""
        return self.end or self.begin


def parse_meta(text: bytes) -> Meta:
    """Read ``recording.toml``; unknown keys are ignored. Raises ValueError, which names the key."""
    try:
        document = tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:  # bad UTF-8, bad TOML, or nested without end
        raise ValueError(f"not TOML: {error}") from error
    return Meta(
        schema=_take(document, "schema", f"{SCHEMA} (a higher one needs a newer GPUassay)", _is_schema),
        target=_take(document, "target", "a string", _is_text, ""),
        probe=_take(document, "probe", "a string", _is_text, ""),
        cluster=_take(document, "cluster", "a string", _is_text, ""),
        begin=_time(document, "begin"),
        end=_time(document, "end"),
        measured=_time(document, "measured"),
        declared=tuple(_take(document, "declared", "a list of node names, each in full", _is_names, [])),
        synthetic=_take(document, "synthetic", "true or false", _is_truth, default=False),
        clock_offset_seconds=_take(document, "clock_offset_seconds", "seconds by node", _is_offsets, {}),
    )


def dump_meta(meta: Meta) -> bytes:
    """Write ``recording.toml``; what is not known is left out."""
    values = {
        "schema": str(meta.schema),
        "probe": meta.probe and _quote(meta.probe),
        "target": meta.target and _quote(meta.target),
        "cluster": meta.cluster and _quote(meta.cluster),
        "begin": meta.begin and _quote(_stamp(meta.begin)),
        "end": meta.end and _quote(_stamp(meta.end)),
        "measured": meta.measured and _quote(_stamp(meta.measured)),
        "declared": f"[{', '.join(map(_quote, meta.declared))}]",
        "synthetic": "true" if meta.synthetic else "",
    }
    lines = [f"{key} = {value}" for key, value in values.items() if value]
    if meta.clock_offset_seconds:
        lines += ["", "[clock_offset_seconds]"]
        lines += [f"{_quote(node)} = {float(offset)!r}" for node, offset in meta.clock_offset_seconds.items()]
    return "\n".join([*lines, ""]).encode()


def _quote(text: str) -> str:
    """Write a TOML string: JSON's escapes are TOML's, but for DEL; what UTF-8 cannot hold becomes ``?``."""
    plain = text.encode("utf-8", "replace").decode()
    return json.dumps(plain, ensure_ascii=False).replace("\x7f", "\\u007f")


def _stamp(time: datetime) -> str:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _take(
    document: Mapping[str, Any], key: str, expected: str, holds: Callable[[Any], bool], default: Any = None
) -> Any:
    value = document.get(key, default)
    if not holds(value):
        found = reprlib.repr(value) if key in document else "nothing"
        raise ValueError(f"{key}: expected {expected}, found {found}")
    return value


def _time(document: Mapping[str, Any], key: str) -> datetime | None:
    """Read a time as TOML has it, or as a string of ISO 8601; one without a zone is no moment."""
    value = document.get(key)
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        if moment is None:
            return None
        if isinstance(moment, datetime) and moment.tzinfo is not None:
            return moment.astimezone(UTC)
    raise ValueError(f'{key}: expected a time like "2026-11-02T09:30:00Z", found {reprlib.repr(value)}')


def _is_schema(value: object) -> bool:
    return type(value) is int and value == SCHEMA


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_truth(value: object) -> bool:
    return isinstance(value, bool)


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(map(is_node_name, value))


def _is_offsets(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        type(offset) in (int, float) and abs(offset) < _YEAR_SECONDS for offset in value.values()
    )
