"""Whether a checkpoint is whole, by the names and sizes of its files: what a resuming job would find."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuassay.measure.work.checkpoint import INDEX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SHARD = re.compile(r"__(\d+)_\d+\.distcp")
_NAMED = 4


@dataclass(frozen=True)
class Listing:
    """One checkpoint: sizes by name, and what its index needs of each file; None where that is unreadable."""

    step: str
    sizes: Mapping[str, int]
    needed: Mapping[str, int] | None = None
    ranks: int = 0

    @property
    def lacks(self) -> list[str]:
        """Name what is missing from it, in words."""
        found = [] if self.sizes.get(INDEX) else [f"{'an empty' if INDEX in self.sizes else 'no'} {INDEX}"]
        found += [
            f"{name} is empty (0 bytes)" for name, size in self.sizes.items() if not size and name != INDEX
        ]
        if not found and self.needed is None:
            found.append(f"its {INDEX} cannot be read")
        for name, least in (self.needed or {}).items():
            if 0 < self.sizes.get(name, 0) < least:
                found.append(f"{name} has {self.sizes[name]} of {least} bytes")
            elif name not in self.sizes:
                found.append(f"no {name}")
        written = {int(part[1]) for name in self.sizes if (part := _SHARD.fullmatch(name))}
        silent = sorted({*range(self.ranks)} - written) if self.needed is None else []
        return [*found, *(f"nothing of rank {rank}" for rank in silent)]


def told(listings: Sequence[Listing]) -> tuple[int, str]:
    """Count what is missing over all checkpoints, and say of the newest bad one what, and where to resume."""
    bad = [one for one in listings if one.lacks]
    if not bad:
        return 0, ""
    good = [one.step for one in listings if not one.lacks]
    lacks = bad[-1].lacks
    more = f" and {len(lacks) - _NAMED} more" if len(lacks) > _NAMED else ""
    resume = f"the last whole one is {good[-1]}" if good else "none is whole"
    words = f"{bad[-1].step} is incomplete: {', '.join(lacks[:_NAMED])}{more}; {resume}"
    return sum(len(one.lacks) for one in bad), words
