"""The Kubernetes target in trouble: refusals, a bad server, lost logs, hung pods, and ends of every kind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, NoReturn

import pytest

from gpuassay.judge.reach import KubernetesReach
from gpuassay.target import TargetError, kube_api, kube_objects, kubernetes
from gpuassay.target.kubernetes import Kubernetes
from gpuassay.target.progress import Tally
from kubeapi import answers, cluster
from kubeapi.rig import IMAGE, Notebook, Start, clusters, gather, script, target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kubeapi.server import ApiServer

LISTS = {
    "nodes": "kubernetes/nodes",
    "pods": "kubernetes/pods",
    "namespaces": "kubernetes/namespaces",
    "storage.k8s.io/storageclasses": "kubernetes/storageclasses",
    "apps/daemonsets": "kubernetes/daemonsets",
    "apps/deployments": "kubernetes/deployments",
    "resource.k8s.io/resourceslices": "kubernetes/resourceslices",
    "resource.k8s.io/deviceclasses": "kubernetes/deviceclasses",
    "resource.k8s.io/resourceclaims": "kubernetes/resourceclaims",
}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start clusters."""
    with clusters(tmp_path) as start:
        yield start


def denying(denied: str, verb: str = "list") -> Callable[[str, str, str], bool]:
    """Allow everything but one thing at the cluster's scope."""
    return lambda asked, resource, place: bool(place) or (asked, resource) != (verb, denied)


@pytest.mark.parametrize("resource", LISTS)
def test_a_list_that_is_not_allowed(start: Start, tmp_path: Path, resource: str) -> None:
    """It alone is denied, in the server's words; everything else is there, the node's own evidence too."""
    server = start(cluster.node("gpu1", 8), dra="v1")
    server.allows = denying(resource)
    told = gather(target(server, tmp_path, "gpu1", namespace="audit"))
    denied = [name for name, item in told.cluster.items() if item.status == "denied"]
    assert denied == [LISTS[resource]]
    assert "not allowed (403): " in told.cluster[denied[0]].why
    assert 'User "bob" cannot list resource' in told.cluster[denied[0]].why
    assert told.whole("gpu1")
    gpus = told.nodes["gpu1"]["nvml"]
    assert (gpus.status == "denied") == (resource == "nodes")  # then nobody knows what to ask for
    assert server.store.ours() == []


def test_nodes_that_cannot_be_listed(start: Start, tmp_path: Path) -> None:
    """Without names the run ends, and says that they may be named."""
    server = start(cluster.node("gpu1", 8))
    server.allows = denying("nodes")
    with pytest.raises(TargetError, match=r"the nodes are not known: .*cannot list.*--nodes"):
        target(server, tmp_path).declared()


def test_a_namespace_that_may_not_be_made(start: Start, tmp_path: Path) -> None:
    """The run ends with what was not allowed, and says where to name another one."""
    server = start(cluster.node("gpu1", 8))
    server.allows = denying("namespaces", "create")
    with pytest.raises(TargetError, match=r"cannot create resource .*\[kubernetes\] namespace"):
        gather(target(server, tmp_path))
    assert server.store.ours() == []


@pytest.mark.parametrize(
    ("why", "status"),
    [
        ('violates PodSecurity "restricted:latest": privileged', "denied"),
        ("exceeded quota: gpus, requested: requests.nvidia.com/gpu=8, used: 0, limited: 4", "denied"),
        ('pod rejected: RuntimeClass "nvidia" not found', "failed"),
    ],
)
def test_a_pod_that_is_not_admitted(start: Start, tmp_path: Path, why: str, status: str) -> None:
    """What admission says is the node's reason; what a tenant is not given is unseen, a mistake is not."""
    server = start(cluster.node("gpu1", 8))
    server.admits = lambda _pod: why
    told = gather(target(server, tmp_path))
    assert why in told.why("gpu1")
    assert {item.status for item in told.nodes["gpu1"].values()} == {status}


def test_a_pod_that_finds_no_place(start: Start, tmp_path: Path) -> None:
    """The scheduler's words are the node's reason."""
    server = start(
        cluster.node("gpu1", 8, taints=[{"key": "dedicated", "value": "x", "effect": "NoSchedule"}])
    )
    why = gather(target(server, tmp_path)).why("gpu1")
    assert "was not started: Unschedulable: 0/1 nodes are available: 1 node(s) had untolerated taint" in why
    assert gather(target(server, tmp_path, tolerations=("dedicated=x",))).whole("gpu1")


def test_an_image_that_cannot_be_pulled(start: Start, tmp_path: Path) -> None:
    """The kubelet's words are the node's reason."""
    server = start(cluster.node("gpu1", 8))
    server.kubelet.missing.add(IMAGE)
    why = gather(target(server, tmp_path)).why("gpu1")
    assert why == f'the probe was not started: ImagePullBackOff: Back-off pulling image "{IMAGE}"'


def test_a_pod_that_ends_early(start: Start, tmp_path: Path) -> None:
    """How it ended is the reason, and what it said last is kept."""
    server = start(cluster.node("gpu1", 8))
    server.kubelet.pythons["gpu1"] = script(tmp_path, "echo python: too old; exit 3")
    told = gather(target(server, tmp_path))
    assert told.why("gpu1") == "the probe ended early: exit 3"
    assert told.nodes["gpu1"]["probe"].err == "python: too old\n"


def test_a_pod_that_hangs(start: Start, tmp_path: Path) -> None:
    """At its deadline it is removed, and what runs in it is killed; the other node's answers are whole."""
    server = start(cluster.node("gpu1", 8), cluster.node("gpu2", 8))
    server.kubelet.pythons["gpu1"] = script(tmp_path, "trap '' TERM; sleep 1000 & sleep 1000")
    told = gather(target(server, tmp_path, deadline_s=3))
    assert told.why("gpu1") == "the probe was not done within 3 s"
    assert told.nodes["gpu1"]["nvml"].status == "timed_out"
    assert told.whole("gpu2")
    assert server.kubelet.running == []


def test_a_pod_that_talks_nonsense(start: Start, tmp_path: Path) -> None:
    """Noise around the probe's lines is no harm; a damaged line is told."""
    server = start(cluster.node("gpu1", 8), cluster.node("gpu2", 8))
    noisy, torn = tmp_path / "noisy", tmp_path / "torn"
    noisy.mkdir()
    torn.mkdir()
    server.kubelet.pythons["gpu1"] = script(noisy, 'head -c 5000 /dev/urandom; echo; REAL "$@"')
    server.kubelet.pythons["gpu2"] = script(torn, 'REAL "$@" | sed "3s/.......$/damaged/"')
    told = gather(target(server, tmp_path))
    assert told.whole("gpu1")
    assert "a line of the probe is damaged" in told.why("gpu2")


@pytest.mark.parametrize("cuts", [[0], [1, 700, 20_000], [3_000] * 4])
def test_a_log_that_is_lost(start: Start, tmp_path: Path, cuts: list[int]) -> None:
    """It is read again from its beginning, and no answer comes twice or is missing."""
    server = start(cluster.node("gpu1", 8))
    server.cuts = list(cuts)
    told = gather(target(server, tmp_path))
    assert told.whole("gpu1")
    logs = [path for _, path, _ in server.requests if path.endswith("/log")]
    assert len(logs) == len(cuts) + 1
    assert server.cuts == []


def test_a_log_that_falls_silent(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection on which nothing comes any more is given up, and the log is read through another."""
    monkeypatch.setattr(kubernetes, "_SILENCE_S", 1.0)
    server = start(cluster.node("gpu1", 8))
    server.stalls = 2
    assert gather(target(server, tmp_path)).whole("gpu1")
    assert server.stalls == 0


def test_a_log_that_was_rotated_while_it_was_lost(start: Start, tmp_path: Path) -> None:
    """Lines that no one can read any more are said to be missing, by their number."""
    server = start(cluster.node("gpu1", 8))
    server.cuts = [5_000]
    server.rotates = 2_000
    told = gather(target(server, tmp_path))
    assert "lines of the probe came" in told.why("gpu1")


@pytest.mark.parametrize(
    ("code", "says"),
    [(500, "the API server answered 500"), (429, "the API server is overloaded (429)")],
)
def test_a_server_in_trouble(start: Start, tmp_path: Path, code: int, says: str) -> None:
    """What is refused for now is asked again; what is refused for good is told, and the rest goes on."""
    server = start(cluster.node("gpu1", 8))
    refusals = iter([True, False])
    server.faults.append(
        lambda _verb, path: (
            answers.Refusal(code, "Trouble", "for now", wait_s=1)
            if path.startswith("/api/v1/nodes") and next(refusals, False)
            else None
        )
    )
    server.faults.append(
        lambda _verb, path: (
            answers.Refusal(code, "Trouble", "for good")
            if path.startswith("/apis/apps/v1/deployments")
            else None
        )
    )
    told = gather(target(server, tmp_path))
    assert told.whole("gpu1")
    assert told.cluster["kubernetes/nodes"].status == "ok"
    assert told.cluster["kubernetes/deployments"].why == f"{says}: for good"


def test_a_list_that_expires(start: Start, tmp_path: Path) -> None:
    """It is begun again, and is whole; one that expires each time is told."""
    server = start(*(cluster.not_ready(f"gpu{number}") for number in range(600)))
    refusals = iter([True])
    server.faults.append(
        lambda _verb, path: answers.expired() if "continue=" in path and next(refusals, False) else None
    )
    assert len(target(server, tmp_path).declared()) == 600
    server.faults.append(lambda _verb, path: answers.expired() if "continue=" in path else None)
    with pytest.raises(TargetError, match=r"changed faster than it could be read \(410\)"):
        target(server, tmp_path).declared()


def test_a_list_without_an_end(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that always has one more page is not followed for ever."""
    monkeypatch.setattr(kube_api, "_MOST_PAGES", 5)
    server = start(cluster.node("gpu1", 8))
    endless = b'{"metadata": {"continue": "more"}, "items": []}'
    server.faults.append(lambda _verb, path: endless if "/storageclasses" in path else None)
    told = gather(target(server, tmp_path, image=""))
    assert "it does not end" in told.cluster["kubernetes/storageclasses"].why


@pytest.mark.parametrize("garbage", [b"", b"<html>login</html>", b"[]", b"{}", b'{"items": 3}', b"\xff" * 9])
def test_garbage(start: Start, tmp_path: Path, garbage: bytes) -> None:
    """An answer that is none has failed, with its beginning, and the rest goes on."""
    server = start(cluster.node("gpu1", 8))
    server.faults.append(lambda _verb, path: garbage if "/storageclasses" in path else None)
    told = gather(target(server, tmp_path))
    assert told.cluster["kubernetes/storageclasses"].status == "failed"
    assert "/storageclasses: this is no " in told.cluster["kubernetes/storageclasses"].why
    assert told.whole("gpu1")


def test_an_answer_that_is_lost(start: Start, tmp_path: Path) -> None:
    """What was made before the connection was lost is not made twice, and not taken for another's."""
    server = start(cluster.node("gpu1", 8))
    server.drops = {"POST"}
    assert gather(target(server, tmp_path)).whole("gpu1")
    assert server.store.ours() == []


def test_who_is_not_known(start: Start, tmp_path: Path) -> None:
    """A wrong token ends the run before anything is asked."""
    server = start(cluster.node("gpu1", 8))
    config = server.kubeconfig(tmp_path / "wrong", {"token": "wrong"})
    wanted = Kubernetes(KubernetesReach(kubeconfig=str(config)), ("gpu1",), 60)
    with pytest.raises(TargetError, match=r"does not know who asks \(401\)"):
        gather(wanted)


def test_nobody_there(tmp_path: Path, start: Start) -> None:
    """A server that does not answer ends the run, by its address."""
    server = start()
    server.__exit__()
    with pytest.raises(TargetError, match=rf"{server.url}: no answer"):
        target(server, tmp_path).declared()


def test_ctrl_c(start: Start, tmp_path: Path) -> None:
    """At the first answer of one of two nodes: everything is removed, and nothing runs on."""
    server = start(cluster.node("gpu1", 8), cluster.node("gpu2", 8))

    def interrupt(_line: str) -> NoReturn:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        target(server, tmp_path).gather(Notebook(), Tally(2, interrupt))
    assert server.store.ours() == []
    assert server.kubelet.running == []


GATHER = """
import sys
from gpuassay.judge.reach import KubernetesReach
from gpuassay.target.kubernetes import Kubernetes
from gpuassay.target.progress import Tally
class Writer:
    def add(self, node, item): pass
    def add_cluster(self, item): pass
reach = KubernetesReach(kubeconfig=sys.argv[1], namespace=sys.argv[2], image="i")
Kubernetes(reach, (), 60).gather(Writer(), Tally(1, lambda line: print(line, flush=True)))
"""


@pytest.mark.parametrize("place", ["", "audit"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("lines", [1, 30])
def test_a_run_that_is_ended(start: Start, tmp_path: Path, number: int, place: str, lines: int) -> None:
    """Told to stop it removes what it made; killed, `clean` does, and leaves others' things alone."""
    server = start(cluster.node("gpu1", 8), cluster.node("gpu2", 8))
    server.store.put("pods", {**cluster.holder("mine", "gpu9", 1), "kind": "Pod"})
    config = server.kubeconfig(tmp_path / "config")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.Popen(
        [sys.executable, "-c", GATHER, str(config), place], env=environment, stdout=subprocess.PIPE
    )
    assert run.stdout is not None
    for _ in range(lines):
        run.stdout.readline()
    run.send_signal(number)
    run.communicate()
    removed = clean(server, tmp_path, place)
    assert bool(removed) == (number in (signal.SIGKILL, signal.SIGTERM))
    assert server.store.ours() == []
    assert server.kubelet.running == []
    assert len(server.store.select("pods")) == 1
    assert len(server.store.select("namespaces")) == 4


def clean(server: ApiServer, tmp_path: Path, place: str) -> list[str]:
    """Remove what is left."""
    return target(server, tmp_path, namespace=place).clean()


def test_of_several_runs_one_is_ended(start: Start, tmp_path: Path) -> None:
    """By its name, which a run that is taken up again has kept: what another run made is left alone."""
    server = start(cluster.node("gpu1", 8))
    way = target(server, tmp_path)
    for name in ("one", "two"):
        run = kube_objects.Run(name, f"gpuassay-{name}", owns_namespace=True, reach=way.reach, deadline_s=60)
        server.store.put("namespaces", kube_objects.namespace(run))
    assert way.end("gpuassay-one") == ["namespace gpuassay-one"]
    assert way.end("gpuassay-one") == []
    assert ["gpuassay-two" in str(one) for one in server.store.ours()] == [True]


def test_what_cannot_be_removed(start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is said, with the command that removes it, and is in the recording; the evidence stays."""
    server = start(cluster.node("gpu1", 8))
    server.allows = lambda verb, resource, _place: (verb, resource) != ("delete", "configmaps")
    told = gather(target(server, tmp_path, namespace="audit"))
    assert told.whole("gpu1")
    assert "gpuassay clean --target=kubernetes" in capsys.readouterr().err
    assert "cannot delete resource" in told.cluster["kubernetes/removal"].why
    server.allows = lambda _verb, _resource, _place: True
    (left,) = clean(server, tmp_path, "audit")
    assert left.startswith("configmaps audit/gpuassay-")
