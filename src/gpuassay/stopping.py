"""SIGTERM ends a run as Ctrl-C does: what was started is ended, and what is known is written."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


def interrupt_on_term() -> Any:
    """Take SIGTERM for an interrupt from now on; gives what it meant before, None if that stays."""
    if threading.current_thread() is not threading.main_thread():  # there, Python refuses to
        return None
    return signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let no second Ctrl-C stop a removal, which has an end of its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
