"""From the words of ``--target`` to the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuassay.target import TARGETS, TargetError
from gpuassay.target.local import Local

if TYPE_CHECKING:
    from gpuassay.judge.reach import Reach
    from gpuassay.target import Target


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a target is to do: ``nodes`` (none: all it has), each within ``deadline_s``, got by ``reach``."""

    nodes: tuple[str, ...]
    deadline_s: float
    reach: Reach


def choose(words: str, wanted: Wanted) -> Target:
    """Make the target of this name. Raises TargetError."""
    match words.split(","):
        case ["local"]:
            return Local(deadline_s=wanted.deadline_s)
        case _:
            raise TargetError(f"--target={words}: expected one of {', '.join(TARGETS)}")
