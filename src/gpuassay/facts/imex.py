"""IMEX, the daemon by which the machines of a rack share GPU memory: what ``nvidia-imex-ctl -N`` prints.

The form grew over the years: versions and host names came later, and ``* ADDRESS *`` marks the node that was
asked. The table of connections below it is read by the numbers of its rows.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from gpuassay.facts.source import take
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

ITEM: Final = "imex"
_MOST_NODES: Final = 1024
_NODE: Final = re.compile(
    r"^Node #(?P<number>\d{1,4})[ \t]+[-*][ \t]+(?P<address>[^\s*]{1,64})(?:[ \t]+\*)?"
    r"[ \t]+-[ \t]+(?P<state>[A-Z_]{1,24})"
    r"(?:[ \t]+-[ \t]+Version:[ \t]*(?P<version>[0-9.]*))?"
    r"(?:[ \t]+-[ \t]+Hostname:[ \t]*(?P<host>\S{0,253}))?[ \t]*$",
    re.MULTILINE | re.ASCII,
)
_ROW: Final = re.compile(r"^[ \t]+(\d{1,4})((?:[ \t]+(?:[A-Z]|![VMA]!))+)[ \t]*$", re.MULTILINE | re.ASCII)
_DOMAIN: Final = re.compile(r"^Domain State:[ \t]*([A-Z_]{1,24})[ \t]*$", re.MULTILINE | re.ASCII)
_READY: Final = "READY"
_CONNECTED: Final = "C"
_WORDS: Final[Mapping[str, str]] = {
    "I": "not reachable",
    "N": "never connected",
    "R": "recovering",
    "D": "disconnected",
    "A": "authenticating",
    "!V!": "versions differ",
    "!M!": "node lists differ",
    "!A!": "authentication failed",
}
_NAMED: Final = 4


@dataclass(frozen=True, slots=True)
class Member:
    """A node as the daemon lists it."""

    number: int
    name: str
    state: str
    version: str


@dataclass(frozen=True, slots=True)
class Table:
    """What the tool printed: the domain's state, its members, and who is connected with whom."""

    domain: str
    members: tuple[Member, ...]
    links: Mapping[tuple[int, int], str]


@dataclass(frozen=True, slots=True)
class Imex:
    """The IMEX domain as one node sees it."""

    told: Fact[Table]

    @property
    def running(self) -> Fact[bool]:
        """Whether a daemon answers on this node; the note says why not."""
        told = self.told
        if isinstance(told, Read):
            return Read(value=True, evidence=told.evidence)
        if told.kind in ("not_found", "failed"):
            return Read(value=False, evidence=told.evidence, note=told.why)
        return told

    @property
    def domain(self) -> Fact[str]:
        """The state of the domain: ``up``, ``degraded`` or ``down``."""
        told = self.told
        return told if isinstance(told, Unread) else Read(told.value.domain, told.evidence)

    @property
    def members(self) -> Fact[int]:
        """How many nodes the domain has, ready or not."""
        told = self.told
        return told if isinstance(told, Unread) else Read(len(told.value.members), told.evidence)

    @property
    def unready(self) -> Fact[int]:
        """How many of its nodes are not ready; the note names them."""
        told = self.told
        if isinstance(told, Unread):
            return told
        unready = [f"{one.name} is {one.state}" for one in told.value.members if one.state != _READY]
        return Read(len(unready), told.evidence, _some(unready))

    @property
    def unconnected(self) -> Fact[int]:
        """How many connections between ready nodes are not there; the note says why, in the tool's words."""
        told = self.told
        if isinstance(told, Unread):
            return told
        ready = {one.number: one.name for one in told.value.members if one.state == _READY}
        broken = [
            f"{ready[one]} to {ready[other]}: {_WORDS.get(letter, letter)}"
            for (one, other), letter in told.value.links.items()
            if one in ready and other in ready and letter != _CONNECTED
        ]
        return Read(len(broken), told.evidence, _some(broken))

    @property
    def other_versions(self) -> Fact[int]:
        """How many nodes run another version than most; releases that print none say so in their table."""
        told = self.told
        if isinstance(told, Unread):
            return told
        versions = Counter(one.version for one in told.value.members if one.version)
        most = versions.most_common(1)[0][0] if versions else ""
        others = [
            f"{one.name} has {one.version}" for one in told.value.members if one.version not in ("", most)
        ]
        return Read(len(others), told.evidence, f"{_some(others)}; most have {most}" if others else "")


def read(evidence: Evidence) -> Imex:
    """Read what the node's own daemon told."""
    item = take(evidence, ITEM)
    if isinstance(item, Unread):
        asked = evidence.item(ITEM)
        said = brief(asked.err) if asked else ""
        return Imex(replace(item, why=f"{item.why}: {said}") if said and said not in item.why else item)
    text = item.value.out.decode(errors="replace")
    domain, members = _DOMAIN.search(text), tuple(_members(text))
    links = dict(_links(text))
    count = len(members)
    if (
        domain is None
        or not 0 < count <= _MOST_NODES
        or [one.number for one in members] != list(range(count))
    ):
        said = brief(text) or "nothing"
        return Imex(
            Unread("garbled", f"nvidia-imex-ctl printed no domain and its nodes: {said}", item.evidence)
        )
    if len(links) != count * count:
        why = f"nvidia-imex-ctl lists {count} nodes and {len(links)} connections, not {count * count}"
        return Imex(Unread("garbled", why, item.evidence))
    return Imex(Read(Table(domain[1].lower(), members, links), item.evidence))


def _members(text: str) -> Iterator[Member]:
    for match in _NODE.finditer(text):
        name = match["host"] or match["address"]
        yield Member(int(match["number"]), brief(name), match["state"], match["version"] or "")


def _links(text: str) -> Iterator[tuple[tuple[int, int], str]]:
    for match in _ROW.finditer(text):
        for column, letter in enumerate(match[2].split()):
            yield (int(match[1]), column), letter


def _some(texts: list[str]) -> str:
    more = f" and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
    return ", ".join(texts[:_NAMED]) + more
