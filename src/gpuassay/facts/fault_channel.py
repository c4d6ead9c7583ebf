"""Faults that are only told of, through a channel that a provider's tooling reads or does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay.facts.fault_trial import FaultTrial, trials
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from gpuassay.evidence.item import Item
    from gpuassay.facts.fault_sights import Sight
    from gpuassay.judge.fact import Fact

CHANNELS: Mapping[str, str] = {"kernel_log": "kmsg", "dcgm": "dcgm"}
"""The channel of each fault that is told of and not real, by the words of ``[remediation] channels``."""


class UndeclaredTrial(FaultTrial):
    """A trial through a channel of which nobody has said that the provider's tooling reads it.

    What the tooling did proves that it does. That it did nothing proves nothing, neither that it missed a
    fault nor that it spares a node.
    """

    def _whether(self, is_it: Callable[[Sight, Sight | None], bool]) -> Fact[bool]:
        found = super()._whether(is_it)
        return self._unheard(found.evidence) if isinstance(found, Read) and not found.value else found

    def _seconds(self, is_it: Callable[[Sight, Sight | None], bool], never: str) -> Fact[float]:
        found = super()._seconds(is_it, never)
        missed = isinstance(found, Unread) and isinstance(self.delivered, Read)
        return self._unheard(found.evidence) if missed else found

    def _unheard(self, evidence: str) -> Unread:
        channel = CHANNELS[self.fault]
        why = f"nothing came of it, and [remediation] channels does not say that anybody reads {channel}"
        return Unread("denied", why, evidence)


def heard(items: Sequence[tuple[Item, str]], channels: Collection[str]) -> Iterator[FaultTrial]:
    """Read the trials of a measurement, by what the provider has said that its tooling reads."""
    for trial in trials(items):
        channel = CHANNELS.get(trial.fault)
        yield trial if channel is None or channel in channels else UndeclaredTrial(trial.items)
