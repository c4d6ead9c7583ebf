"""Wait for what another process brings about."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_TICK_S = 0.05


def wait_until(
    true: Callable[[], object], or_else: str = "it did not come about", patience_s: float = 60.0
) -> None:
    """Wait until something is so; past so many seconds it is an AssertionError that says what was not."""
    until = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < until, or_else
        time.sleep(_TICK_S)
