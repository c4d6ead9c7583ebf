"""The words in which GPUassay judges, and how they join."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Verdict(IntEnum):
    """What was found, in rising order: verdicts are joined with ``max``, so a fail is never masked.

    ``SKIP`` is not applicable; ``UNSEEN`` cannot be seen from this seat; ``ERROR`` could have been
    seen and was not. "Not run" is a state beside these, not one of them.
    """

    SKIP = 0
    PASS = 1
    WARN = 2
    UNSEEN = 3
    ERROR = 4
    FAIL = 5

    @property
    def word(self) -> str:
        """The verdict as it is written in files and reports."""
        return self.name.lower()


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Join verdicts; nothing at all is an error, never a pass."""
    return max(verdicts, default=Verdict.ERROR)
