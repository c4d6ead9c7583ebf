"""Whether a NetworkPolicy is honoured: servers and a client that really run, on either kind of network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.evidence.item import Item
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.kube_policy import Denied, KubePolicy
from gpuassay.target import kube_deny, kube_trial
from kubeapi import cluster
from kubeapi.rig import IMAGE, Answers, Start, clusters, surveyed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubeapi.server import ApiServer

NODES = ("gpu1", "gpu2")


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start clusters, whose pods are looked at often."""
    monkeypatch.setattr(kube_trial, "_LOOK_S", 0.1)
    monkeypatch.setattr(kube_deny, "_LOOK_S", 0.1)
    with clusters(tmp_path) as start:
        yield start


def tried(server: ApiServer, folder: Path, **reach: Any) -> Denied:
    """Ask, and read what came of it; nothing may be left."""
    (found,) = surveyed(KubePolicy(), server, folder, NODES, {"seconds": 5}, **reach)
    return found  # type: ignore[no-any-return]


@pytest.mark.parametrize("honours", [True, False])
def test_a_network_that_honours_policies_or_not(start: Start, tmp_path: Path, honours: bool) -> None:  # noqa: FBT001
    """The open server is reached either way, the shut one only where nobody enforces the policy."""
    server = start(*map(cluster.node, NODES))
    server.kubelet.honours = honours
    found = tried(server, tmp_path)
    assert isinstance(found.honoured, Read)
    assert found.honoured.value is honours
    assert found.left_behind == Read(value=False, evidence="kube_policy#removed")


def test_in_a_namespace_of_the_site_file(start: Start, tmp_path: Path) -> None:
    """The policy is for our own pod alone, and goes with the pods where the namespace stays."""
    server = start(*map(cluster.node, NODES))
    made: list[Any] = []
    server.faults.append(lambda _verb, _path: made.extend(server.store.select("networkpolicies")))
    assert isinstance(tried(server, tmp_path, namespace="audit").honoured, Read)
    labels = made[0]["spec"]["podSelector"]["matchLabels"]
    assert sorted(labels) == ["gpuassay-part", "gpuassay-run"]


def test_what_says_nothing_of_policies(start: Start, tmp_path: Path) -> None:
    """Servers that do not come up, a missing right, or a client that reaches nobody leave it untold."""
    server = start(*map(cluster.node, NODES))
    server.kubelet.missing.add(IMAGE)
    untold = tried(server, tmp_path).honoured
    assert isinstance(untold, Unread)
    assert "the servers did not come up" in untold.why
    server = start(*map(cluster.node, NODES))
    server.allows = lambda verb, resource, _place: (
        (verb, resource)
        != (
            "create",
            "networking.k8s.io/networkpolicies",
        )
    )
    untold = tried(server, tmp_path).honoured
    assert isinstance(untold, Unread)
    assert untold.kind == "denied"
    lost = Item("client", 1, out=b'{"open": false, "shut": false, "state": "ended"}')
    untold = Denied(Answers([lost])).honoured  # type: ignore[arg-type]
    assert isinstance(untold, Unread)
