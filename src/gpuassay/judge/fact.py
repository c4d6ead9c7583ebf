"""What a check may observe: a value that was read, or the reason why it was not; and whose it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

T_co = TypeVar("T_co", covariant=True)

Scalar: TypeAlias = bool | int | float | str

Absence: TypeAlias = Literal[
    "not_asked",  # an older probe did not ask: not run
    "not_found",  # the file, tool or object is not there
    "denied",  # not from this seat (also: a kernel channel that this container does not have): unseen
    "timed_out",
    "failed",  # it was asked and answered with an error
    "garbled",  # it answered, and no reader could make sense of it
    "unsupported",  # the tool itself says N/A: skip only where the accelerator's table agrees
]


@dataclass(frozen=True, slots=True)
class Read(Generic[T_co]):
    """A value and the evidence it was read from (``nodes/gpu017#12``); ``note`` says more in a report.

    ``spread`` is how far the repeats of a measured value lie apart, as a share of it; None: it has none.
    """

    value: T_co
    evidence: str = ""
    note: str = ""
    spread: float | None = None


@dataclass(frozen=True, slots=True)
class Unread:
    """A value that is not known, and why; ``evidence`` refers to what was looked at, if anything."""

    kind: Absence
    why: str
    evidence: str = ""


Fact: TypeAlias = Read[T_co] | Unread


class Subject(Protocol):
    """What is observed: a node, a GPU, a port and so on."""

    @property
    def where(self) -> str:
        """Its place in natural order, e.g. ``gpu017/gpu3``."""

    @property
    def node(self) -> str:
        """The node it belongs to; empty for the cluster as a whole."""

    @property
    def models(self) -> tuple[str, ...]:
        """Product name and PCI id (``10de:2901``) as far as read; empty where there is no product."""


class NodeSight(Protocol):
    """A node as judging sees it: whether it answered, what it shows, and how much of it."""

    @property
    def name(self) -> str:
        """The node's name."""

    @property
    def silence(self) -> Unread | None:
        """Why nothing at all came from this node; None for a node that answered."""

    def shows(self, need: str) -> Fact[bool]:
        """Tell whether the node itself shows that it has what ``needs`` calls by this name."""

    def sightings(self, domain: str, needs: tuple[str, ...]) -> Mapping[str, Fact[int]]:
        """Count the subjects of a domain, by witness, e.g. ``{"bus": Read(8), "driver": Read(7)}``.

        ``needs`` narrows it: the ports of a check that needs ``roce`` are the RoCE ports.
        """
