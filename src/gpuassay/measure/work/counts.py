"""How much work a case is: floating-point operations and bytes, by formula.

They are counted from the real sizes. What a kernel pads, it wastes; and a framework's own counter gives
nothing for a grouped product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def gemm_flops(m: int, n: int, k: int) -> int:
    """Count the operations of an (m, k) by (k, n) product: a multiplication and an addition each."""
    return 2 * m * n * k


def gemm_bytes(m: int, n: int, k: int, operand: float, result: float) -> int:
    """Count what it must move at least: both operands are read once, the result is written once."""
    return round((m * k + k * n) * operand + m * n * result)


def grouped_flops(rows: Sequence[int], n: int, k: int) -> int:
    """Count the operations of one product for each group, with the rows that each group really has."""
    return gemm_flops(sum(rows), n, k)


def grouped_bytes(rows: Sequence[int], n: int, k: int, operand: float, result: float) -> int:
    """Count what it must move at least; the weights of a group without rows are not read."""
    weights = sum(1 for count in rows if count) * n * k
    return round((sum(rows) * k + weights) * operand + sum(rows) * n * result)


STREAMS = {"copy": 2, "read": 1, "triad": 3}
"""How often each memory kernel touches an array of its size: ``b = a``, ``sum(a)``, ``c = a + s * b``."""


def stream_bytes(kernel: str, elements: int, element: int) -> int:
    """Count what a memory kernel moves; what a cache fetches to write it is not counted."""
    return STREAMS[kernel] * elements * element
