"""Which pods are admitted, asked as a dry run: of Pod Security, of other policies, and of none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.evidence.item import Item
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.kube_admission import DEMANDS, Admission, KubeAdmission
from kubeapi import answers, cluster
from kubeapi.rig import Answers, Start, clusters, surveyed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubeapi.server import ApiServer
    from kubeapi.store import Object

EVERYTHING = {"a privileged pod", *(f"a pod with {kind}" for kind in list(DEMANDS)[2:])}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start clusters."""
    with clusters(tmp_path) as start:
        yield start


def tried(server: ApiServer, folder: Path) -> Admission:
    """Ask as a tenant, unless the server says otherwise; nothing may be left."""
    (found,) = surveyed(KubeAdmission(), server, folder, ("gpu1",), {}, namespace="audit")
    assert found.left_behind.value is False
    return found  # type: ignore[no-any-return]


def tenants(verb: str, _resource: str, _place: str) -> bool:
    """Allow what is no power over all."""
    return verb != "*"


def baseline(pod: Object) -> str:
    """Refuse what Pod Security's level of that name refuses."""
    spec = pod["spec"]
    bad = [key for key in ("hostNetwork", "hostPID") if spec.get(key)]
    bad += ["hostPath volumes" for volume in spec["volumes"] if "hostPath" in volume]
    bad += ["privileged" for one in spec["containers"] if one["securityContext"].get("privileged")]
    return f'violates PodSecurity "baseline:latest": {bad[0]}' if bad else ""


def admitted(found: Admission) -> dict[str, Any]:
    """Give what was said of each pod."""
    facts = {pod.where: pod.admitted for pod in found.pods}
    return {where: fact.value if isinstance(fact, Read) else fact.kind for where, fact in facts.items()}


def test_a_namespace_with_and_without_pod_security(start: Start, tmp_path: Path) -> None:
    """All that reaches for the host is refused, or none of it; no pod is made either way."""
    server = start(cluster.node("gpu1"))
    server.allows, server.admits = tenants, baseline
    assert admitted(tried(server, tmp_path)) == dict.fromkeys(EVERYTHING, False)
    server.admits = lambda _pod: ""
    assert admitted(tried(server, tmp_path)) == dict.fromkeys(EVERYTHING, True)
    creations = [query for verb, path, query in server.requests if verb == "POST" and path.endswith("/pods")]
    assert creations == ["dryRun=All"] * 2 * len(DEMANDS)
    assert server.kubelet.logs == {}


def test_a_policy_that_takes_out_what_is_asked_for(start: Start, tmp_path: Path) -> None:
    """A pod that would be made without it is no privileged pod."""
    server = start(cluster.node("gpu1"))

    def tame(pod: Object) -> Object:
        pod["spec"] = {"containers": [{"name": "probe"}]}
        return pod

    server.allows, server.changes = tenants, tame
    found = tried(server, tmp_path)
    assert admitted(found) == dict.fromkeys(EVERYTHING, False)
    note = found.pods[0].admitted
    assert isinstance(note, Read)
    assert note.note == "what it asks for was taken out of it"


def test_an_administrator_learns_nothing_of_tenants(start: Start, tmp_path: Path) -> None:
    """What he is let start, they may not be; what he is refused, they are too."""
    server = start(cluster.node("gpu1"))
    assert admitted(tried(server, tmp_path)) == dict.fromkeys(EVERYTHING, "denied")
    server.admits = baseline
    assert admitted(tried(server, tmp_path)) == dict.fromkeys(EVERYTHING, False)


def test_a_server_that_knows_no_dry_run(start: Start, tmp_path: Path) -> None:
    """The ordinary pod that it made is removed, and nothing harmful was asked for."""
    server = start(cluster.node("gpu1"))
    server.knows_dry_runs = False
    found = tried(server, tmp_path)
    assert admitted(found) == dict.fromkeys(EVERYTHING, "failed")
    assert sum(verb == "POST" and path.endswith("/pods") for verb, path, _ in server.requests) == 1


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (answers.Refusal(422, "Invalid", "ValidatingAdmissionPolicy 'host' denied request: no"), False),
        (answers.Refusal(400, "BadRequest", 'admission webhook "k" denied the request: no'), False),
        (answers.Refusal(400, "BadRequest", 'admission webhook "k" does not support dry run'), "failed"),
        (answers.Refusal(422, "Invalid", "spec.containers[0].name: Required value"), "failed"),
        (answers.Refusal(500, "InternalError", 'failed calling webhook "k": no endpoints'), "failed"),
    ],
)
def test_what_is_a_refusal(start: Start, tmp_path: Path, refusal: answers.Refusal, said: object) -> None:
    """A policy's no is one, whatever its status; a pod that is none, or a webhook that is gone, is not."""
    server = start(cluster.node("gpu1"))
    server.allows = tenants
    asked: list[str] = []

    def fault(verb: str, path: str) -> answers.Refusal | None:
        asked.extend([path] if verb == "POST" and "dryRun" in path else [])
        return refusal if "dryRun" in path and len(asked) > 1 else None

    server.faults.append(fault)
    found = tried(server, tmp_path).pods[0].admitted
    assert (found.value if isinstance(found, Read) else found.kind) == said


def test_who_may_make_no_pod_at_all(start: Start, tmp_path: Path) -> None:
    """That he may make no privileged one says nothing of policies; nor does a trial that did not run."""
    server = start(cluster.node("gpu1"))
    server.allows = lambda verb, resource, _place: verb != "*" and (verb, resource) != ("create", "pods")
    found = tried(server, tmp_path).pods[0].admitted
    assert isinstance(found, Unread)
    assert "an ordinary pod is not admitted either" in found.why
    cut = Admission(Answers([Item("trial", 1, "timed_out", why="cut")]))  # type: ignore[arg-type]
    assert admitted(cut) == dict.fromkeys(EVERYTHING, "timed_out")
    assert isinstance(cut.left_behind, Unread)
