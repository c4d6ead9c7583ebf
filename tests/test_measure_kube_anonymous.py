"""Requests to an API server without a credential: refused, answered, or neither."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpuassay.evidence.item import Item
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.reach import KubernetesReach, Reach
from gpuassay.judge.services import Services
from gpuassay.measure.kube_anonymous import PATHS, KubeAnonymous, Stranger
from kubeapi import answers, cluster
from kubeapi.rig import Answers, Start, clusters

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start clusters."""
    with clusters(tmp_path) as start:
        yield start


def asked(config: Path) -> list[Item]:
    """Ask with somebody's kubeconfig, whose credentials must not be used."""
    services = Services(reach=Reach(kubernetes=KubernetesReach(kubeconfig=str(config))))
    return list(KubeAnonymous().ask(services, ("gpu1",), {}, 20))


def test_strangers_are_refused(start: Start, tmp_path: Path) -> None:
    """The token of the kubeconfig is not sent, so the server does not know who asks; nothing else is kept."""
    items = asked(start(cluster.node("gpu1")).kubeconfig(tmp_path / "config"))
    assert [(item.id, json.loads(item.out)) for item in items] == [(path, {"status": 401}) for path in PATHS]
    (found,) = KubeAnonymous().read({}, Answers(items, "kube_anonymous"))  # type: ignore[arg-type]
    assert isinstance(found.answered, Read)
    assert found.answered.value == 0


def test_an_open_server(start: Start, tmp_path: Path) -> None:
    """A list that is given counts, and what was in it is not kept."""
    server = start(cluster.node("gpu1"))
    server.faults.append(lambda _verb, path: b'{"items": ["SECRET"]}' if "nodes" in path else None)
    items = asked(server.kubeconfig(tmp_path / "config"))
    found = Stranger(Answers(items, "kube_anonymous")).answered  # type: ignore[arg-type]
    assert (found, b"SECRET" in b"".join(item.out for item in items)) == (
        Read(1, f"kube_anonymous#{PATHS[-1]}", "/api/v1/nodes"),
        False,
    )


def test_what_is_no_answer(start: Start, tmp_path: Path) -> None:
    """Neither a page that is not there nor silence is a refusal."""
    server = start(cluster.node("gpu1"))
    server.faults.append(lambda _verb, _path: answers.missing("pods", "x"))
    config = server.kubeconfig(tmp_path / "config")
    found = Stranger(Answers(asked(config))).answered  # type: ignore[arg-type]
    assert isinstance(found, Unread)
    assert "HTTP 404 is neither yes nor no" in found.why
    (lost,) = asked(tmp_path / "gone")
    assert (lost.status, lost.id) == ("failed", "client")
    assert isinstance(Stranger(Answers([lost])).answered, Unread)  # type: ignore[arg-type]
    some = Item(PATHS[0], 1, out=b'{"status": 403}')
    for few in ([], [some]):
        assert isinstance(Stranger(Answers(few)).answered, Unread)  # type: ignore[arg-type]
    garbled = Item("x", 1, out=b"[]")
    assert isinstance(Stranger(Answers([garbled])).answered, Unread)  # type: ignore[arg-type]
