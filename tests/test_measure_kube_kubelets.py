"""Kubelets as a stranger meets them: open, shut, out of reach, or another machine at a node's address."""

from __future__ import annotations

import os
import shutil
import socket
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.evidence.item import Item
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.reach import KubernetesReach, Reach
from gpuassay.judge.services import Services
from gpuassay.measure import knocking
from gpuassay.measure.kube_kubelets import PORT, READ_ONLY, KubeKubelets, Kubelet
from kubeapi import cluster
from kubeapi.doors import certificate, door
from kubeapi.rig import Answers, Start, clusters

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubeapi.server import ApiServer
    from kubeapi.store import Object

pytestmark = pytest.mark.skipif(
    not shutil.which("openssl"), reason="not here: openssl (apt-get install openssl)"
)

# An address that no other test at the same time has: the ports are the kubelets' own.
ADDRESS = f"127.{os.getpid() >> 8 & 255}.{os.getpid() & 255}.7"
SHUT = {"/pods": 401, "/healthz": 401}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start clusters."""
    with clusters(tmp_path) as start:
        yield start


def at(address: str = ADDRESS, name: str = "gpu-017") -> Object:
    """Make a node with an address."""
    node = cluster.node(name)
    node["status"]["addresses"] = [{"type": "InternalIP", "address": address}]
    return node


def asked(server: ApiServer, folder: Path) -> list[Item]:
    """Ask by somebody's kubeconfig, whose credentials are for the API server alone."""
    config = str(server.kubeconfig(folder / "config"))
    services = Services(reach=Reach(kubernetes=KubernetesReach(kubeconfig=config)))
    return list(KubeKubelets().ask(services, (), {"seconds": 2}, 20))


def met(items: list[Item]) -> Kubelet:
    """Read what came of the one node."""
    (found,) = KubeKubelets().read({}, Answers(items))  # type: ignore[arg-type]
    return found


def said(found: Kubelet) -> list[Any]:
    """Give what was found of pods, health and the port for reading."""
    facts = (found.pods_shown, found.health_shown, found.read_only)
    return [fact.value if isinstance(fact, Read) else fact.kind for fact in facts]


@pytest.mark.parametrize(
    ("subject", "names"),
    [
        ("/CN=gpu-017@1764500000", "DNS:gpu-017"),
        ("/O=system:nodes/CN=system:node:gpu-017", "IP:192.0.2.17"),
        ("/CN=GPU-017", ""),
    ],
)
def test_a_kubelet_that_is_shut(start: Start, tmp_path: Path, subject: str, names: str) -> None:
    """It is known by its certificate, refuses both pages, and has no port for reading."""
    server = start(at())
    with door(ADDRESS, PORT, SHUT, certificate(tmp_path, subject, names)) as heard:
        items = asked(server, tmp_path)
    assert said(met(items)) == [False, False, False]
    assert heard == [("/pods", None), ("/healthz", None)]


def test_a_kubelet_that_is_open(start: Start, tmp_path: Path) -> None:
    """All three are told, and nothing that it said was kept."""
    server = start(at())
    given = {"/pods": 200, "/healthz": 200}
    with (
        door(ADDRESS, PORT, given, certificate(tmp_path, "/CN=x", "DNS:gpu-017")),
        door(ADDRESS, READ_ONLY, given) as heard,
    ):
        items = asked(server, tmp_path)
    assert said(met(items)) == [True, True, True]
    assert heard == [("/pods", None)]
    assert b"SECRET" not in b"".join(item.out for item in items)


def test_another_machine_at_a_nodes_address(start: Start, tmp_path: Path) -> None:
    """Nothing is asked of it, and nothing of its other port: it is none of the cluster's."""
    server = start(at())
    with (
        door(ADDRESS, PORT, SHUT, certificate(tmp_path, "/CN=gpu-018", "DNS:gpu-0170")) as heard,
        door(ADDRESS, READ_ONLY, {"/pods": 200}) as other,
    ):
        found = met(asked(server, tmp_path))
    assert said(found) == ["denied"] * 3
    assert isinstance(found.pods_shown, Unread)
    assert "no certificate of its name" in found.pods_shown.why
    assert (heard, other) == ([], [])


def test_what_is_not_reached_is_unseen(start: Start, tmp_path: Path) -> None:
    """A port that is closed, one that speaks no TLS, one that says nothing, and a node without an address."""
    server = start(at())
    assert said(met(asked(server, tmp_path))) == ["denied"] * 3
    with door(ADDRESS, PORT, SHUT):
        assert said(met(asked(server, tmp_path))) == ["denied"] * 3
    with socket.create_server((ADDRESS, PORT)):
        found = met(asked(server, tmp_path)).pods_shown
    assert isinstance(found, Unread)
    assert "10250 is silent from this seat" in found.why
    nameless = at()
    nameless["status"]["addresses"] = []
    assert said(met(asked(start(nameless), tmp_path))) == ["denied"] * 3


def test_what_is_no_answer(start: Start, tmp_path: Path) -> None:
    """Another page than yes or no, and nodes that may not be listed, leave it untold."""
    server = start(at())
    with door(ADDRESS, PORT, {}, certificate(tmp_path, "/CN=x", "DNS:gpu-017")):
        assert said(met(asked(server, tmp_path))) == ["failed", "failed", False]
    server.allows = lambda _verb, resource, _place: resource != "nodes"
    assert said(met(asked(server, tmp_path))) == ["denied"] * 3
    assert said(met(asked(start(), tmp_path))) == ["not_found"] * 3
    assert said(met([Item("node/x", 1, out=b"{}")])) == ["garbled"] * 3


def test_a_port_for_reading_that_says_nothing(start: Start, tmp_path: Path) -> None:
    """It is kept from this seat, and may be open to another: unseen, where a closed one is closed."""
    server = start(at())
    with (
        door(ADDRESS, PORT, SHUT, certificate(tmp_path, "/CN=x", "DNS:gpu-017")),
        socket.create_server((ADDRESS, READ_ONLY)),
    ):
        assert said(met(asked(server, tmp_path))) == [False, False, "denied"]


@pytest.mark.parametrize("name", ["", "x" * 200])
def test_a_name_that_is_none_names_nobody(name: str) -> None:
    """An empty one would be in every certificate, and one too long for its field in none."""
    assert knocking.is_for(b"\x82\x00" * 300, name) is False
