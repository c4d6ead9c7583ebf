"""Whether a product is right, before anybody asks how fast it came.

A block of rows and columns is computed again on the processor in double precision, from the very operands.
An element is wrong if it is off by more than its arithmetic explains: the rounding of the result, and the
rounding inside, which grows with the root of the sum of squares of its terms, as errors in either direction
do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

BLOCK = 32
"""So many rows and columns are computed again: 1,024 elements, spread over the whole result."""


class Tolerance(NamedTuple):
    """What may be off: ``result`` of the value itself, and ``inside`` of the root of its squared terms."""

    result: float
    inside: float


LONGEST = 1 << 14
"""The longest sum of any shape that is multiplied."""
SUM_BITS = 14
"""Of a sum in FP8, on the chip that keeps fewest (Hopper: arXiv 2412.19437, 3.3.2)."""
STEPS = {"float8_e4m3": 32, "mxfp8": 32, "nvfp4": 64}
"""So many terms a matrix instruction adds at once: 32 bytes of each operand."""


def _cut_off(name: str) -> float:
    """Give what cutting off the sum after each step comes to, of the root of the sum of squares of its terms.

    That is about as large as the sum itself, and a step loses no more than a unit in its last place.
    """
    return LONGEST / STEPS[name] * 2.0 ** (1 - SUM_BITS)


TOLERANCES: Mapping[str, Tolerance] = {
    # Units of rounding: 2^-24 for float32, 2^-11 for float16 and TF32, 2^-8 for bfloat16. Some room inside,
    # where a library may join partial sums in the type of the result. Products of a scale and of 8 and 4 bits
    # are exact in float32.
    "float32": Tolerance(2**-22, 2**-14),
    "tf32": Tolerance(2**-22, 2**-8),
    "bfloat16": Tolerance(2**-7, 2**-6),
    "float16": Tolerance(2**-10, 2**-8),
    "float8_e4m3": Tolerance(2**-7, _cut_off("float8_e4m3")),
    "mxfp8": Tolerance(2**-7, _cut_off("mxfp8")),
    "nvfp4": Tolerance(2**-7, _cut_off("nvfp4")),
}


class Check(NamedTuple):
    """How many elements were computed again, how many are wrong, and the largest error over its scale."""

    checked: int
    wrong: int
    worst: float


def spread_over(size: int) -> list[int]:
    """Choose indices over the whole of a side: both ends, and evenly between."""
    count = min(size, BLOCK)
    return [index * (size - 1) // max(1, count - 1) for index in range(count)]


def compare(left: Any, right: Any, result: Any, tolerance: Tolerance) -> Check:
    """Compare ``result`` with ``left @ right.T``, all in double precision on the processor."""
    reference = left @ right.T
    scale = (left.square() @ right.T.square()).sqrt()
    error = (result - reference).abs()
    allowed = tolerance.result * reference.abs() + tolerance.inside * scale
    # Written so that NaN, which is no smaller than anything, is wrong.
    wrong = int((~(error <= allowed)).sum())
    worst = float((error / scale.clamp_min(1e-300)).nan_to_num(nan=float("inf")).max())
    return Check(result.numel(), wrong, worst)


def changed(before: Any, after: Any, tolerance: Tolerance, k: int) -> int:
    """Count the elements of a whole result that are not what the same operands gave before, or no number.

    The same kernel mostly gives the same bits; where it does not, its rounding explains the difference.
    """
    allowed = 2 * (tolerance.result * before.abs().float() + tolerance.inside * k**0.5)
    return int((~((after.float() - before.float()).abs() <= allowed)).sum())
