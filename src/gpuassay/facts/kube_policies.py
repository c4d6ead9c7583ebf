"""What keeps the pods of a namespace apart from others, as far as its own policies and labels say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuassay.facts.kube_words import listed, mapping, name, records, text, texts
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from gpuassay.facts.record import Record
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

_ENFORCE: Final = "pod-security.kubernetes.io/enforce"
# Extensions that can do the same for the whole cluster, in objects of their own that are not read.
_NETWORKS: Final = {
    "cilium.io": "Cilium",
    "crd.projectcalico.org": "Calico",
    "projectcalico.org": "Calico",
    "policy.networking.k8s.io": "AdminNetworkPolicy",
    "crd.antrea.io": "Antrea",
}
_ADMISSION: Final = {
    "kyverno.io": "Kyverno",
    "templates.gatekeeper.sh": "Gatekeeper",
    "policies.kubewarden.io": "Kubewarden",
}


class Policies:
    """The policies of the namespace in which this user works."""

    node = ""
    models: tuple[str, ...] = ()

    def __init__(self, evidence: Evidence, namespace: Fact[str], groups: Fact[frozenset[str]]) -> None:
        """Take the evidence of the cluster, the namespace, and the groups of the API that are served."""
        self._evidence = evidence
        self._namespace = namespace
        self._groups = groups

    @property
    def alone(self) -> tuple[Policies]:
        """The namespace, alone."""
        return (self,)

    @property
    def where(self) -> str:
        """Its name."""
        return f"namespace {self._namespace.value}" if isinstance(self._namespace, Read) else ""

    @property
    def default_deny(self) -> Fact[bool]:
        """Whether a policy keeps every pod in it from being reached, unless another one allows that."""
        found = listed(self._evidence, "networkpolicies")
        if isinstance(found, Unread):
            return found
        if isinstance(self._namespace, Unread):
            return self._namespace
        own = [one for one in found.value if _space(one) == self._namespace.value]
        denies = [name(one) for one in own if _denies(one.record("spec"))]
        if not denies and (other := self._extension(_NETWORKS)):
            why = f"no NetworkPolicy of it denies by default, and the policies of {other} are not read"
            return Unread("denied", why, found.evidence)
        note = ", ".join(denies) or f"{len(own)} policies, and none selects all pods and lets nothing in"
        return Read(bool(denies), found.evidence, note)

    @property
    def pod_security(self) -> Fact[str]:
        """The level of Pod Security that it enforces; ``none`` without a label."""
        found = listed(self._evidence, "namespaces")
        if isinstance(found, Unread):
            return found
        if isinstance(self._namespace, Unread):
            return self._namespace
        own = next((one for one in found.value if name(one) == self._namespace.value), None)
        if own is None:
            return Unread("not_found", f"there is no namespace {self._namespace.value}", found.evidence)
        level = mapping(own.record("metadata"), "labels").get(_ENFORCE)
        if isinstance(level, str):
            return Read(level, found.evidence)
        if other := self._extension(_ADMISSION):
            why = f"it has no label of Pod Security, and the policies of {other} are not read"
            return Unread("denied", why, found.evidence)
        return Read("none", found.evidence, f"no label {_ENFORCE}")

    def _extension(self, known: dict[str, str]) -> str:
        groups = self._groups.value if isinstance(self._groups, Read) else frozenset()
        return ", ".join(sorted({known[group] for group in groups & known.keys()}))


def _space(record: Record) -> str:
    return text(record.record("metadata"), "namespace")


def _denies(spec: Record) -> bool:
    """Tell whether a policy selects all pods and lets nothing in; one without types is for ingress."""
    selector = spec.look("podSelector")
    types = texts(spec, "policyTypes") or {"Ingress"}
    selects_all = isinstance(selector, Read) and selector.value == {}
    return selects_all and "Ingress" in types and not records(spec, "ingress")
