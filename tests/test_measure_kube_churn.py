"""Churn of pods and claims on the Kubernetes of tests: quick, slow, refused, and with volumes that stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.kube_churn import KubeChurn
from kubeapi import cluster
from kubeapi.rig import IMAGE, Start, clusters, surveyed
from kubeapi.store import Key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpuassay.facts.churn import ClaimChurn, PodChurn
    from gpuassay.judge.fact import Scalar
    from kubeapi.server import ApiServer

NODES = ("gpu1", "gpu2")
ARGS: dict[str, Scalar] = {"pods": 6, "claims": 3, "at_once": 3, "size": "1Gi", "seconds": 4}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start clusters."""
    with clusters(tmp_path) as start:
        yield start


def served(start: Start, **parameters: str) -> ApiServer:
    """Start a cluster of two nodes whose one storage class makes volumes."""
    server = start(*map(cluster.node, NODES))
    found = server.store.get(Key("storageclasses", "", "fast"))
    assert found is not None
    server.store.put("storageclasses", {**found, "parameters": {"kind": "csi", **parameters}})
    return server


def churned(server: ApiServer, folder: Path) -> tuple[PodChurn, ClaimChurn]:
    """Churn, and read what came of it; nothing of ours may be left but what leaks."""
    (storm,) = surveyed(KubeChurn(), server, folder, NODES, ARGS)
    return storm.pods, storm.claims


def value(fact: object) -> object:
    """Give the value of a fact that was read."""
    assert isinstance(fact, Read), fact
    return fact.value


def test_a_quick_cluster(start: Start, tmp_path: Path) -> None:
    """All pods and claims come and go, each with its times, and nothing stays."""
    pods, claims = churned(served(start), tmp_path)
    assert value(pods.failed) == 0
    assert pods.failed.note == "of 6"  # type: ignore[union-attr]
    times = [value(pods.create_p99_s), value(pods.scheduled_p99_s), value(pods.ready_p99_s)]
    assert times == sorted(times)  # type: ignore[type-var]
    assert 0 < value(pods.gone_p99_s) < 4  # type: ignore[operator]
    assert value(claims.failed) == 0
    assert value(claims.bound_p99_s) <= value(claims.mounted_p99_s)  # type: ignore[operator]
    assert value(claims.leaked_volumes) == 0
    assert value(claims.leaked_attachments) == 0


def test_volumes_that_stay(start: Start, tmp_path: Path) -> None:
    """A class that forgets to remove volumes and to detach them is found, volume by volume."""
    _, claims = churned(served(start, leaky="true"), tmp_path)
    assert value(claims.failed) == 0
    assert value(claims.leaked_volumes) == 3
    assert value(claims.leaked_attachments) == 3
    assert "of 3: pv-gpuassay-" in claims.leaked_volumes.note  # type: ignore[union-attr]


def test_pods_that_never_start(start: Start, tmp_path: Path) -> None:
    """They are counted, with the kubelet's words, and there is no time of what never came."""
    server = served(start)
    server.kubelet.missing.add(IMAGE)
    pods, claims = churned(server, tmp_path)
    assert value(pods.failed) == 6
    assert "ImagePullBackOff" in pods.failed.note  # type: ignore[union-attr]
    assert isinstance(pods.ready_p99_s, Unread)
    assert isinstance(pods.scheduled_p99_s, Unread)
    assert value(claims.failed) == 3


def test_what_may_not_be_seen_is_not_said_to_be_gone(start: Start, tmp_path: Path) -> None:
    """Who may not list volumes does not learn whether any stayed."""
    server = served(start)
    server.allows = lambda verb, what, _space: not (verb == "list" and what == "persistentvolumes")
    _, claims = churned(server, tmp_path)
    assert isinstance(claims.leaked_volumes, Unread)
    assert claims.leaked_volumes.kind == "denied"
    assert value(claims.leaked_attachments) == 0
