"""What all parts of a rating say alike, and how they refuse."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from gpuassay.report.words import STATEMENT, STATES, TIERS

Document: TypeAlias = dict[str, Any]

STATED: Final = STATEMENT
SCHEMA: Final = 1


class RatingError(Exception):
    """What was given cannot be rated, or compared; says where, and what to do."""


def standing_word(state: str, tier: str | None) -> str:
    """Name what came out: a tier, or the state that stands in its place."""
    return TIERS[tier] if tier else STATES[state][0]
