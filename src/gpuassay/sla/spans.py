"""Sets of moments, as sorted spans that neither overlap nor touch: ``((begin, end), …)`` in whole seconds.

A moment is in a span from its begin up to, and not including, its end. So a second is in a set or not, and
however a time was cut in pieces before, the set is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

Span: TypeAlias = tuple[int, int]
Spans: TypeAlias = tuple[Span, ...]

NOTHING: Spans = ()
ALWAYS: Span = (-(2**62), 2**62)


def union(*sets: Iterable[Span]) -> Spans:
    """Join spans, in whatever order and however they overlap; empty ones vanish."""
    joined: list[Span] = []
    for begin, end in sorted(span for spans in sets for span in spans):
        if begin >= end:
            continue
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return tuple(joined)


def both(one: Spans, other: Spans) -> Spans:
    """Give what is in both sets."""
    found: list[Span] = []
    left = right = 0
    while left < len(one) and right < len(other):
        begin, end = max(one[left][0], other[right][0]), min(one[left][1], other[right][1])
        if begin < end:
            found.append((begin, end))
        if one[left][1] <= other[right][1]:
            left += 1
        else:
            right += 1
    return tuple(found)


def minus(one: Spans, other: Spans) -> Spans:
    """Give what is in the first set and not in the other."""
    if not one:
        return NOTHING
    edges = [one[0][0], *(edge for span in other for edge in span), one[-1][1]]
    gaps = union((begin, end) for begin, end in zip(edges[::2], edges[1::2], strict=True))
    return both(one, gaps)


def closed(spans: Spans, gap_s: int) -> Spans:
    """Close the gaps that are shorter than ``gap_s``."""
    found: list[Span] = []
    for begin, end in spans:
        if found and begin - found[-1][1] < gap_s:
            found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return tuple(found)


def lasting(spans: Spans, least_s: int) -> Spans:
    """Keep the spans that last at least ``least_s``."""
    return tuple((begin, end) for begin, end in spans if end - begin >= least_s)


def seconds(spans: Spans) -> int:
    """Say how long all of it is."""
    return sum(end - begin for begin, end in spans)
