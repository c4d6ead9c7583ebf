"""Places as people read them: the nodes of a folded expression, and no list that is longer than it helps."""

from __future__ import annotations

import re
from functools import lru_cache

from gpuassay.judge.names import expand

NAMED = 10
"""How many places a report names before it only counts them."""

_PIECE = re.compile(r"(?:[^,\[]|\[[^\]]*\]?)+")


def pieces(where: str) -> list[str]:
    """Split a folded place at the commas that are outside brackets."""
    return _PIECE.findall(where)


@lru_cache(maxsize=4096)
def nodes(where: str) -> tuple[str, ...]:
    """List the nodes of a folded place: ``gpu[1-2]/gpu[0-7]`` is on ``gpu1`` and ``gpu2``.

    Only the part before the first slash is unfolded, so that eight GPUs a node cost nothing.
    """
    heads = dict.fromkeys(piece.partition("/")[0] for piece in pieces(where))
    return tuple(dict.fromkeys(name for head in heads for name in _unfold(head)))


def each(where: str) -> tuple[str, ...]:
    """List every place of a folded one: ``gpu[1-2]/gpu[0-1]`` is four."""
    parts = [piece.partition("/") for piece in pieces(where)]
    return tuple(
        f"{name}{slash}{part}"
        for head, slash, tail in parts
        for name in _unfold(head)
        for part in _unfold(tail)
    )


def _unfold(head: str) -> tuple[str, ...]:
    if "[" not in head:
        return (head,)
    try:
        return expand(head)
    except ValueError:  # a name with brackets of its own
        return (head,)


def shorten(where: str, named: int = NAMED) -> str:
    """Cut a folded place after so many names; the count beside it says how many there are."""
    short = re.sub(r"\[([^\]]*)\]", lambda match: f"[{','.join(_cut(match[1].split(','), named))}]", where)
    return ", ".join(_cut(pieces(short), named))


def _cut(parts: list[str], named: int) -> list[str]:
    return [*parts[:named], "…"] if len(parts) > named else parts
