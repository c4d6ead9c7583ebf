"""The survey of which pods a tenant's namespace admits: those that reach for the host, asked as a dry run.

What Pod Security says by a label, and other policies in objects of their own, comes to one answer here.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from gpuassay.evidence.item import Item
from gpuassay.facts.kube_words import text
from gpuassay.facts.source import document
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.kube_volumes import what_lacks
from gpuassay.measure.shared_claims import left_behind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact, Scalar
    from gpuassay.judge.services import Services


def _files(path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    volume = {"name": "host", "hostPath": {"path": path}}
    return {"volumes": [volume]}, {"volumeMounts": [{"name": "host", "mountPath": "/host", "readOnly": True}]}


ORDINARY: Final = "ordinary"
DEMANDS: Final[Mapping[str, tuple[dict[str, Any], dict[str, Any]]]] = MappingProxyType(
    {
        ORDINARY: ({}, {}),
        "privileged": ({}, {"securityContext": {"privileged": True}}),
        "the host's root folder": _files("/"),
        "the kubelet's folder": _files("/var/lib/kubelet"),
        "the host's network": ({"hostNetwork": True}, {}),
        "the host's processes": ({"hostPID": True}, {}),
    }
)
"""What each pod demands, in its spec and its container. The ordinary one shows that pods are admitted."""

_POD: Final = "pod/"
_CREATED: Final = 201
_MOST: Final = 599
_FORBIDDEN: Final = 403
_BY_POLICY: Final = frozenset({400, 422})  # of webhooks and policies, but also of what is no proper pod
_OWNER: Final = (
    "this user administers the whole cluster: what tenants may start, only a tenant's account tells"
)


class Admitted:
    """One kind of pod, and whether it would be admitted."""

    node = ""
    models: tuple[str, ...] = ()

    def __init__(self, kind: str, evidence: NodeEvidence) -> None:
        """Take the answers of the survey."""
        self.where = "a privileged pod" if kind == "privileged" else f"a pod with {kind}"
        self._told = _asked(kind, evidence)
        self._ordinary = _asked(ORDINARY, evidence)
        self._evidence = evidence

    @property
    def admitted(self) -> Fact[bool]:
        """Whether it would be made as it is, where an ordinary one would be."""
        hindrance = self._hindrance
        if hindrance:
            return hindrance
        ordinary = _answer(self._ordinary)
        if isinstance(ordinary, Unread):
            return ordinary
        if not ordinary.value:
            why = f"an ordinary pod is not admitted either: {ordinary.note}"
            return Unread("denied", why, ordinary.evidence)
        found = _answer(self._told)
        if isinstance(found, Read) and found.value and self._by_owner:
            return Unread("denied", _OWNER, found.evidence)
        return found

    @property
    def _hindrance(self) -> Unread | None:
        trial = self._evidence.item("trial")
        if trial is None or trial.status == "ok":
            return None
        return Unread(trial.status, trial.why, self._evidence.ref(trial))

    @property
    def _by_owner(self) -> bool:
        allowed = document(self._evidence, "administrator").flag("allowed")
        return isinstance(allowed, Read) and allowed.value


class Admission:
    """All kinds of pods, and whether all is as it was before."""

    where = "the trial"
    node = ""
    models: tuple[str, ...] = ()

    def __init__(self, evidence: NodeEvidence) -> None:
        """Take the answers of the survey."""
        self._evidence = evidence
        self.pods = tuple(Admitted(kind, evidence) for kind in DEMANDS if kind != ORDINARY)

    @property
    def left_behind(self) -> Fact[bool]:
        """Whether something that was made all the same could not be removed."""
        return left_behind(self._evidence)


def _asked(kind: str, evidence: NodeEvidence) -> Record:
    return document(evidence, f"{_POD}{kind}")


def _answer(told: Record) -> Fact[bool]:
    """Read yes or no out of what the API server said of one pod."""
    code = told.count("code", most=_MOST)
    if isinstance(code, Unread):
        return code
    why = text(told, "why")
    if code.value == _CREATED:
        kept = told.flag("kept")
        if isinstance(kept, Unread):
            return kept
        return Read(kept.value, kept.evidence, "" if kept.value else "what it asks for was taken out of it")
    if code.value == _FORBIDDEN or (code.value in _BY_POLICY and "denied" in why):
        return Read(value=False, evidence=code.evidence, note=why)
    return Unread("failed", f"HTTP {code.value} is neither yes nor no: {why}", code.evidence)


class KubeAdmission:
    """``POST`` of pods with ``dryRun=All``, in the namespace in which the user works."""

    method = 1

    def ask(
        self,
        services: Services,
        nodes: Sequence[str],
        args: Mapping[str, Scalar],  # noqa: ARG002 - there are none
        deadline_s: float,
    ) -> Iterator[Item]:
        """Ask for one after the other."""
        reach = services.reach.kubernetes
        lack = what_lacks(reach) or ("" if nodes else "no node is known that a pod could be for")
        if lack:
            yield Item("trial", 0, status="denied", why=lack)
            return
        from gpuassay.target import TargetError  # noqa: PLC0415 - an extra
        from gpuassay.target.kube_admission import AdmissionTrial  # noqa: PLC0415
        from gpuassay.target.kube_auth import configuration  # noqa: PLC0415
        from gpuassay.target.kube_trial import carry_out  # noqa: PLC0415

        try:
            # A namespace of our own would have labels of our own: what counts is the tenant's.
            own = replace(reach, namespace=reach.namespace or configuration(reach).namespace)
        except TargetError as error:
            yield Item("trial", 0, status="failed", why=str(error))
            return
        yield from carry_out(own, deadline_s, lambda api, run: AdmissionTrial(api, run, nodes[0], DEMANDS))

    def read(self, args: Mapping[str, Scalar], evidence: NodeEvidence) -> Sequence[Admission]:  # noqa: ARG002
        """Read what was said of each."""
        return [Admission(evidence)] if evidence.answered else []
