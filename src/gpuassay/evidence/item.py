"""One piece of raw evidence, as it came."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

Status: TypeAlias = Literal["ok", "not_found", "denied", "timed_out", "failed", "unsupported"]


@dataclass(frozen=True, slots=True)
class Item:
    """One thing asked of a node, and what came back.

    ``id`` is stable over versions (``nvml``, ``pci``, ``kmsg``); ``seq`` numbers the items of a node.
    ``out`` holds the raw bytes, also of what failed: a tool may print good data and then exit with 255.
    ``status`` other than ``ok`` says how it is absent, ``why`` in words. ``seconds`` is how long it took.
    """

    id: str
    seq: int
    status: Status = "ok"
    asked: Mapping[str, Any] = field(default_factory=dict)
    exit: int | None = None
    seconds: float | None = None
    out: bytes = b""
    err: str = ""
    why: str = ""
    truncated: bool = False
