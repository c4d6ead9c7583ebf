"""How values are written in reasons: as short as they can be without saying anything untrue."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuassay.judge.fact import Scalar

_LONGEST = 80
_LARGEST_EXACT = 10**15


def kind_of(value: object) -> str:
    """Name the kind of a value: to us a bool is no number, and a text never is one."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a text"
    return "nothing" if value is None else f"a {type(value).__name__}"


def show(value: object) -> str:
    """Write a value on one line; numbers to four digits, and whole numbers whole."""
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if abs(value) < _LARGEST_EXACT else f"{Decimal(value):.4g}"
    if isinstance(value, float):
        return _number(value, 4)
    text = " ".join(str(value).split())
    text = "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return text or '""'


def show_bound(bound: float, *, ratio: bool = False) -> str:
    """Write a bound as the table has it; a ratio with two decimals at least: 1.00, 0.985."""
    short = f"{bound:.2f}" if ratio else show(bound)
    return short if float(short) == bound else f"{bound:.12g}"


def show_beside(value: Scalar, bound: float, *, ratio: bool = False) -> str:
    """Write a number so that it stays visibly above or below a bound: 0.8996 is not "0.90" beside 0.90."""
    if not isinstance(value, float):
        return show(value)
    short = f"{value:.2f}" if ratio else show(value)
    tries = (short, *(_number(value, digits) for digits in range(4, 17)))
    return next((text for text in tries if _side(float(text), bound) == _side(value, bound)), repr(value))


def _side(number: float, bound: float) -> int:
    return (number > bound) - (number < bound)


def _number(value: float, digits: int) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}infinity"
    whole = len(str(int(abs(value)))) if abs(value) < _LARGEST_EXACT else 0
    return f"{value:.{max(digits, whole)}g}"
