"""Whether a node is in service, and why nothing came from it: by its evidence and its scheduler's word."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Protocol

from gpuassay.facts.seats import Seats
from gpuassay.facts.source import Evidence, Silence
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Unread
from gpuassay.judge.names import folded, natural
from gpuassay.judge.site import Out

if TYPE_CHECKING:
    from gpuassay.evidence.recording import Recording
    from gpuassay.judge.site import Site


class Answered(Evidence, Protocol):
    """Evidence of a node that knows whether there is any."""

    @property
    def answered(self) -> bool:
        """Whether anything at all came from it, were it only the word that something failed."""

    @property
    def came(self) -> bool:
        """Whether at least one item came as it was asked for."""


def scheduled_out(recording: Recording, site: Site) -> tuple[Out, ...]:
    """Give the nodes in service by the site file that the scheduler holds out of it, alike ones together."""
    names = frozenset({*site.nodes, *recording.meta.declared, *recording.nodes} - site.out_nodes)
    alike = defaultdict(list)
    for name, said in Seats(recording.cluster).out_of_service(names).items():
        alike[said].append(name)
    return tuple(
        Out(folded(sorted(nodes, key=natural)), frozenset(nodes), None, reason, source=source)
        for (source, reason), nodes in sorted(alike.items())
    )


def heard(evidence: Answered | None) -> Evidence | None:
    """Give what a node answered; where it answered nothing, why, if whoever asked wrote that down."""
    if evidence is None or not evidence.answered:
        return None
    probe = evidence.item("probe")
    if probe is None or probe.status == "ok" or evidence.came:
        return evidence
    why = brief(probe.why or probe.err) or "its probe sent nothing"
    return Silence(Unread(probe.status, why, evidence.ref(probe)))
