"""A cluster as seen from two seats, Slurm's and Kubernetes's: which of their nodes are the same machine.

Where Slurm runs on Kubernetes, each of its nodes is a pod: the pod's host name is the name in Slurm, and
the Node that it runs on is the machine. Where both run beside each other, the names are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuassay.facts.kubernetes import Kubernetes
from gpuassay.facts.kubernetes import out_of_service as cordoned
from gpuassay.facts.slurm import Slurm
from gpuassay.facts.slurm import out_of_service as drained
from gpuassay.facts.slurm_state import Standing
from gpuassay.facts.source import document
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuassay.facts.kubernetes import KubeNode
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

_UNUSABLE = (Standing.OUT, Standing.GONE)


@dataclass(frozen=True, slots=True)
class Agreement:
    """Whether Slurm and Kubernetes say the same of a node: that work may go there, or that it may not."""

    where: str
    agree: Fact[bool]
    node: str = ""  # it is said of the node also where that is out of service
    models: tuple[str, ...] = ()


class Seats:
    """What was asked of schedulers, and their words for the same machines."""

    def __init__(self, evidence: Evidence, target: str = "") -> None:
        """Take the evidence of the cluster as a whole, and the target that it was asked through.

        What was asked and is not there was lost: it is no sign that there is none.
        """
        self.evidence = evidence
        self.slurm = Slurm(evidence)
        self.kubernetes = Kubernetes(evidence)
        asked = target.split(",")
        self.by_slurm = "slurm" in asked or evidence.item("slurm/nodes") is not None
        self._by_kubernetes = "kubernetes" in asked or self.kubernetes.asked
        self._ssh = document(evidence, "ssh/hosts")

    def has(self, name: str) -> dict[str, Fact[bool]]:
        """Tell, for each scheduler, whether a node is one of its own."""
        slurm: Fact[bool] = Read(value=False, note="the cluster was not asked through Slurm")
        kubernetes: Fact[bool] = Read(value=False, note="the cluster was not asked through Kubernetes")
        if self.by_slurm:
            nodes = self.slurm.nodes
            known = self.slurm.find(name) is not None
            slurm = (
                nodes if isinstance(nodes, Unread) else Read(known, nodes.evidence, "" if known else _OTHER)
            )
        if self._by_kubernetes:
            host = self.host(name)
            absent = isinstance(host, Unread) and host.kind == "not_found"
            evidence, note = host.evidence, _OTHER if absent else ""
            kubernetes = host if isinstance(host, Unread) and not absent else Read(not absent, evidence, note)
        alone = not (self.by_slurm or self._by_kubernetes)
        note = "" if alone else "the cluster was asked through its scheduler"
        return {"slurm": slurm, "kubernetes": kubernetes, "standalone": Read(alone, note=note)}

    def has_ssh_peers(self, name: str) -> Fact[bool]:
        """Tell whether a node is one of several to which users get by a shell."""
        slurm = self.has(name)["slurm"]
        dialled = self._ssh.values if isinstance(self._ssh.values, dict) else {}
        nodes = self.slurm.nodes
        count = len(nodes.value) if isinstance(nodes, Read) else 0
        if name in dialled:
            return Read(len(dialled) > 1, self._ssh.evidence, f"{len(dialled)} nodes were asked by ssh")
        if isinstance(slurm, Unread) or not slurm.value:
            return slurm
        return Read(count > 1, slurm.evidence, f"Slurm has {count} nodes")

    def dialled(self, name: str) -> str:
        """Give the host that the user's ssh takes a name for; empty where ssh was not asked."""
        host = self._ssh.text(name)
        return host.value if isinstance(host, Read) else ""

    def host(self, name: str) -> Fact[KubeNode]:
        """Find the Node that is, or carries, a node of this name."""
        nodes = self.kubernetes.nodes
        if isinstance(nodes, Unread):
            return nodes
        if name in nodes.value:
            return Read(nodes.value[name], nodes.evidence)
        places = self.kubernetes.places
        if isinstance(places, Unread):
            return places
        carriers = places.value.get(name, frozenset()) & nodes.value.keys()
        if len(carriers) == 1:
            return Read(nodes.value[next(iter(carriers))], places.evidence)
        many = f"{len(carriers)} Nodes have a pod" if carriers else "no Node is, and no pod on one is"
        return Unread("not_found", f"{many} called {name}", places.evidence)

    def agreements(self, names: Iterable[str]) -> tuple[Agreement, ...]:
        """Compare the words of both for each of these nodes that Slurm has."""
        return tuple(Agreement(name, self._agree(name)) for name in names if self.slurm.find(name))

    def _agree(self, name: str) -> Fact[bool]:
        host, known = self.host(name), self.slurm.find(name)
        if isinstance(host, Unread) or known is None:
            return host if isinstance(host, Unread) else Unread("not_found", f"Slurm has no {name}")
        agree = (known.state.standing in _UNUSABLE) == bool(host.value.shut)
        return Read(agree, host.evidence, f"{known.says}; of {host.value.name} {host.value.says}")

    def out_of_service(self, names: frozenset[str]) -> dict[str, tuple[str, str]]:
        """Give those of these nodes that are held out of service, each with who does it and with what words.

        Where a node is one of Slurm's, Slurm gives out its work: there, a cordon alone holds nothing out.
        """
        others = frozenset(name for name in names if self.slurm.find(name) is None)
        found = {name: ("Kubernetes", words) for name, words in cordoned(self.kubernetes, others).items()}
        for name, words in drained(self.slurm, names).items():
            host = self.host(name)
            too = f"; {host.value.says}" if isinstance(host, Read) and host.value.cordoned else ""
            found[name] = ("Slurm", words + too)
        return found


_OTHER = "it is none of its nodes"
