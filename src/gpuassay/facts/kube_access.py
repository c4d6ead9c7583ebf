"""What the API server says that this user may do, and what roles grant to everybody."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from gpuassay.facts import source
from gpuassay.facts.kube_words import listed, name, number, place, records, text, texts
from gpuassay.facts.record import Record
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

_ITEM: Final = "kubernetes/access"
_CORE: Final = frozenset(
    {
        "create pods",
        "get pods/log",
        "create pods/exec",
        "create jobs",
        "create deployments",
        "create services",
        "create configmaps",
        "create secrets",
        "list secrets",
        "create persistentvolumeclaims",
    }
)
"""What running and installing things takes in one's own namespace; Helm keeps its releases as Secrets."""

_WALLS: Final = frozenset(
    {
        "list secrets",
        "get nodes/proxy",
        "update nodes/status",
        "create clusterrolebindings",
        "impersonate users",
    }
)
"""What reaches other tenants, when it is allowed everywhere."""

_NAMESPACES: Final = frozenset({"create namespaces", "create customresourcedefinitions"})


class KubeAct:
    """One thing that this user may or may not do."""

    node = ""
    models: tuple[str, ...] = ()

    def __init__(self, record: Record, owner: str = "") -> None:
        """Take the answer, or why there is none; ``owner`` says why it is not a tenant who asks."""
        self._record = record
        self._owner = owner
        self.words = " ".join(
            filter(None, [text(record, "verb"), "/".join(filter(None, [self._resource, self._sub]))])
        )
        self.place = text(record, "namespace")

    @property
    def where(self) -> str:
        """What it is, and where."""
        return f"{self.words} in {self.place or 'all namespaces'}" if self.words else ""

    @property
    def allowed(self) -> Fact[bool]:
        """Whether the API server allows it."""
        return self._record.flag("allowed")

    @property
    def crosses(self) -> Fact[bool]:
        """Whether a tenant could do it. Of who administers the cluster, nothing can be learned of tenants."""
        allowed = self.allowed
        if self._owner and isinstance(allowed, Read) and allowed.value:
            return Unread("denied", self._owner, allowed.evidence)
        return allowed

    @property
    def _resource(self) -> str:
        return text(self._record, "resource")

    @property
    def _sub(self) -> str:
        return text(self._record, "subresource")


class Access:
    """The answers of the access reviews."""

    def __init__(self, evidence: Evidence) -> None:
        """Take the evidence of the cluster as a whole."""
        self._document = source.document(evidence, _ITEM)

    @property
    def namespace(self) -> Fact[str]:
        """Where this user works."""
        return self._document.text("namespace")

    @property
    def own(self) -> tuple[KubeAct, ...]:
        """What a tenant has to be able to do in his namespace."""
        space = self.namespace.value if isinstance(self.namespace, Read) else ""
        return self._those(lambda act: bool(space) and act.place == space and act.words in _CORE)

    @property
    def more(self) -> tuple[KubeAct, ...]:
        """What makes a tenant independent of the provider: namespaces, and extensions of the API."""
        return self._those(lambda act: not act.place and act.words in _NAMESPACES)

    @property
    def beyond(self) -> tuple[KubeAct, ...]:
        """What no tenant should be able to do: it reaches others."""

        def reaches(act: KubeAct) -> bool:
            return (not act.place and act.words in _WALLS) or act.place == "kube-system"

        return self._those(reaches)

    def _those(self, wanted: Callable[[KubeAct], bool]) -> tuple[KubeAct, ...]:
        if isinstance(self._listed, Unread):
            return (KubeAct(Record(self._listed)),)
        acts = (KubeAct(record, self._owner) for record in self._listed.value)
        return tuple(act for act in acts if wanted(act))

    @property
    def _listed(self) -> Fact[tuple[Record, ...]]:
        return self._document.listed("items")

    @cached_property
    def _owner(self) -> str:
        found = () if isinstance(self._listed, Unread) else self._listed.value
        everything = [KubeAct(record) for record in found if text(record, "verb") == "*"]
        if any(isinstance(act.allowed, Read) and act.allowed.value for act in everything):
            return (
                "this user administers the whole cluster: what a tenant may do, only a tenant's account tells"
            )
        return ""


_ANYBODY: Final = frozenset({"system:unauthenticated", "system:anonymous"})
_EVERYBODY: Final = frozenset({"system:authenticated", "system:serviceaccounts"})
_READS: Final = frozenset({"get", "list", "watch", "*"})


class Grants:
    """Roles, and to whom they are given."""

    def __init__(self, evidence: Evidence) -> None:
        """Take the evidence of the cluster as a whole."""
        self._evidence = evidence

    @property
    def to_anybody(self) -> Fact[int]:
        """How many bindings give requests without a name more than the server's public pages."""
        return self._count(_ANYBODY, _concerns_objects)

    @property
    def to_everybody(self) -> Fact[int]:
        """How many bindings give every user or pod everything, others' secrets, or programs of their own."""
        return self._count(_EVERYBODY, _is_power)

    @property
    def of_kubelets(self) -> Fact[int]:
        """How many bindings give pods ``nodes/proxy``: whoever has it runs commands in any pod."""
        return self._count(None, _is_proxy)

    def _count(self, groups: frozenset[str] | None, is_meant: Callable[[Record], bool]) -> Fact[int]:
        lists = {kind: listed(self._evidence, kind) for kind in _KINDS}
        for found in lists.values():
            if isinstance(found, Unread):
                return found
        read = {kind: found.value for kind, found in lists.items() if isinstance(found, Read)}
        roles = {(kind, _space(role), name(role)): role for kind in _ROLES for role in read[_ROLES[kind]]}
        found_bad = [
            f"{place(binding).lstrip('/')} ({role})"
            for binding in (*read["rolebindings"], *read["clusterrolebindings"])
            if _fits(binding, groups) and (role := _role(binding, roles, is_meant))
        ]
        evidence = next(found.evidence for found in lists.values())
        return Read(len(found_bad), evidence, ", ".join(found_bad[:5]))


_ROLES: Final = {"Role": "roles", "ClusterRole": "clusterroles"}
_KINDS: Final = (*_ROLES.values(), "rolebindings", "clusterrolebindings")


def _space(record: Record) -> str:
    return text(record.record("metadata"), "namespace")


def _fits(binding: Record, groups: frozenset[str] | None) -> bool:
    subjects = records(binding, "subjects")
    if groups is None:
        return any(text(subject, "kind") == "ServiceAccount" for subject in subjects)
    return not groups.isdisjoint(text(subject, "name") for subject in subjects)


def _role(
    binding: Record, roles: dict[tuple[str, str, str], Record], is_meant: Callable[[Record], bool]
) -> str:
    """Name the role of a binding if one of its rules is meant; empty if none is."""
    reference = binding.record("roleRef")
    kind, role = text(reference, "kind"), text(reference, "name")
    found = roles.get((kind, _space(binding) if kind == "Role" else "", role))
    return role if found is not None and any(map(is_meant, _rules(found))) else ""


def _rules(role: Record) -> Iterator[Record]:
    return (rule for rule in records(role, "rules") if not number(rule, "resourceNames"))


def _concerns_objects(rule: Record) -> bool:
    return bool(texts(rule, "resources"))


def _is_power(rule: Record) -> bool:
    resources, verbs = texts(rule, "resources"), texts(rule, "verbs")
    programs = {"pods", "pods/exec", "*"} & resources and {"create", "*"} & verbs
    return bool(programs or ({"secrets", "*"} & resources and verbs & _READS))


def _is_proxy(rule: Record) -> bool:
    return "nodes/proxy" in texts(rule, "resources") and not texts(rule, "verbs").isdisjoint(
        {"get", "create", "*"}
    )
