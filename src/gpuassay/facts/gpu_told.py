"""What a driver tells of a GPU, and what it cannot tell: of an older driver, or of a GPU that is divided."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact

T = TypeVar("T")
_ON = 1  # NVML_DEVICE_MIG_ENABLE


class Told:
    """A driver's entry of one GPU. What an older probe did not ask for says so."""

    def __init__(self, entry: Record) -> None:
        """Read from the driver's entry of a GPU."""
        self._entry = replace(entry, missing="not_asked")

    def _seen(self, fact: Fact[T]) -> Fact[T]:
        """Tell what cannot be seen from what went wrong: it is no fault, and it earns nothing."""
        if isinstance(fact, Unread) and fact.kind == "not_found" and self._entry.unread is None:
            return Unread("denied", f"this driver does not tell it: {fact.why}", fact.evidence)
        return undivided(self._entry, fact)


def undivided(entry: Record, fact: Fact[T]) -> Fact[T]:
    """Explain the N/A of a GPU that is divided into instances: of such a one NVML tells less."""
    if isinstance(fact, Unread) and fact.kind == "unsupported":
        mig = entry.count("mig", most=_ON)
        if isinstance(mig, Read) and mig.value == _ON:
            why = f"MIG is on, and the driver tells none of this then: {fact.why}"
            return Unread("denied", why, fact.evidence)
    return fact
