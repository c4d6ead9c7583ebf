"""What a store of objects answers to a trial with a few of them; healthy, and synthetic like its cluster."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpuassay.measure import SURVEYS
from recorded.items import library, made_up

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpuassay.evidence.item import Item

SIZES = {"empty": 0, "one byte": 1, "deep/er/object": 65536, "large": 1 << 20}


def services(_names: Sequence[str]) -> list[Item]:
    """Return the answers of the survey, step by step, for a bucket that was there before."""
    asked = {"survey": "s3", "method": SURVEYS["s3"].method, "args": {}}
    return [replace(library(f"survey/s3/{step}", "", told), asked=asked) for step, told in _steps()]


def _steps() -> Iterator[tuple[str, dict[str, Any]]]:
    told = {name: {"size": size, "etag": f'"{made_up(name)}"'} for name, size in SIZES.items()}
    yield "endpoint", {"scheme": "https"}
    yield "bucket", {"bucket": "acceptance", "made": False, "prefix": f"gpuassay-{made_up('prefix')}"}
    yield "put", {name: {"sent": _sum(name), **more} for name, more in told.items()}
    yield "get", {name: {"got": _sum(name), **more} for name, more in told.items()}
    yield "head", told
    yield "range", _same("part", 199_001)
    yield "list", told
    yield "overwrite", _same("other", 1000)
    yield "multipart", _same("parts", 6 << 20)
    yield "anonymous", {"read": 403, "list": 403, "write": 403}
    yield "delete", {"deleted": len(told) + 1, "still_read": [], "still_listed": []}
    yield "removed", {"left": [], "left_count": 0, "errors": []}


def _same(name: str, size: int) -> dict[str, Any]:
    return {"expected": _sum(name), "got": _sum(name), "size": size, "etag": f'"{made_up(name)}"'}


def _sum(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()
