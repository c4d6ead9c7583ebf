"""How long a job on a Slurm may take: what its partition allows, and what the user's accounts and QOSes do.

A site file that names no account or no QOS leaves the choice to Slurm, by defaults that are not read here.
So what is cut to fit has to fit the shortest of them, and what is refused has to exceed them all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuassay.facts.slurm_choice import Allowance
from gpuassay.judge.fact import Unread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuassay.facts.slurm import Partition
    from gpuassay.facts.slurm_limits import Limits
    from gpuassay.judge.reach import SlurmReach

_CHOSEN = ("account", "qos")


@dataclass(frozen=True, slots=True)
class Allowed:
    """How long a job may take: ``surely``, whatever Slurm chooses for it, and ``at_most``, by the best.

    ``beside`` says what another choice would allow, or that limits were not seen; empty: nothing to say.
    """

    surely: Allowance
    at_most: Allowance
    beside: str = ""

    @property
    def why(self) -> str:
        """Say what surely holds."""
        minutes = self.surely.length / 60
        return f"{self.surely.who} allows {minutes:g} min to a job{self.beside}"

    def minutes(self, wanted_s: float) -> tuple[int, float, str]:
        """Give a job's minutes, the same in seconds, and words if less is allowed than is wanted."""
        most_s = self.at_most.length
        if most_s >= wanted_s:
            minutes = max(1, math.ceil(wanted_s / 60))
            return minutes, minutes * 60.0, ""
        minutes = max(1, int(most_s // 60))
        return minutes, minutes * 60.0, f", which is all that {self.at_most.who} allows"


def allowed(partition: Partition, reach: SlurmReach, limits: Limits | None) -> Allowed:
    """Say how long a job may take in a partition, with the account and the QOS of the site file.

    Where the user's limits are not seen, or none is known of that choice, the partition alone counts.
    """
    own = Allowance(partition.max_time_s, f"partition {partition.name}")
    if limits is None:
        return Allowed(own, own)
    every = limits.allowances(partition.name)
    if isinstance(every, Unread):
        return Allowed(own, own, f" (what accounts and QOSes allow was not seen: {every.why})")
    mine = [one for one in every.value if _fits(one, reach)]
    if not mine:
        return Allowed(own, own)
    shortest, longest = mine[0], mine[-1]
    # That a QOS overrides the partition counts only where it is sure to be the job's.
    lifted = min(longest, own, key=lambda one: one.length)
    at_most = max(shortest, lifted, key=lambda one: one.length)
    return Allowed(shortest, at_most, _longer(shortest, every.value, reach))


def _fits(one: Allowance, reach: SlurmReach) -> bool:
    """Whether a choice is one that the site file leaves."""
    pairs = ((getattr(reach, key), getattr(one, key)) for key in _CHOSEN)
    return all(wanted == had or not wanted or not had for wanted, had in pairs)


def _longer(shortest: Allowance, every: Sequence[Allowance], reach: SlurmReach) -> str:
    """Name the account and the QOS with which a job might take longer, where there are such."""
    best = max(every, key=lambda one: (one.length, one.account == shortest.account))
    if best.length <= shortest.length:
        return ""
    many = [key for key in _CHOSEN if len({getattr(one, key) for one in every}) > 1]
    named = {key: getattr(best, key) for key in many if getattr(best, key) != getattr(reach, key)}
    if not all(named.values()):  # a choice without a QOS cannot be named
        return ""
    words = ", ".join(f'{key} = "{value}"' for key, value in named.items())
    length = "any time" if best.seconds is None else f"{best.seconds / 60:g} min"
    return f" (with [slurm] {words}: {length})"
