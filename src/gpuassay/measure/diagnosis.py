"""What a diagnostic tool said of a node, in the form that all of them are read into: test by test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuassay.judge.fact import Unread

if TYPE_CHECKING:
    from gpuassay.evidence.item import Item
    from gpuassay.judge.fact import Fact

_NO_WARNINGS = Unread("unsupported", "this tool has no word for a warning")


@dataclass(frozen=True, slots=True)
class Test:
    """One test of a report on one node."""

    node: str
    name: str
    failed: Fact[bool]
    warned: Fact[bool] = _NO_WARNINGS
    models: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """Its place: the test on its node."""
        return f"{self.node}/{self.name}"


@dataclass(frozen=True, slots=True)
class Report:
    """What the diagnostic said of a node, test by test."""

    node: str
    tests: tuple[Test, ...]


def no_report(item: Item, ref: str, tool: str, said: str = "") -> Unread:
    """Say why there is no report at all: that a tool could not be started says nothing of the hardware."""
    if item.status in ("not_found", "denied"):
        return Unread(item.status, f"the tool did not run: {item.why or tool}", ref)
    if item.status == "timed_out":
        return Unread(item.status, item.why or f"{tool} gave no report", ref)
    return Unread("failed", said or item.why or f"{tool} gave no report", ref)
