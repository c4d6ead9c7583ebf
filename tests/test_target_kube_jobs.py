"""Jobs on Kubernetes: a pod per node, a result per rank, and nothing left of either."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

import pytest

from gpuassay.target import Job
from gpuassay.target.progress import Tally
from kubeapi import cluster
from kubeapi.rig import Start, clusters, target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubeapi.store import Object

NAMES = ("gpu1", "gpu2")
PLACE = """
import os, sys
print(*(os.environ[key] for key in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "WORD")))
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start clusters."""
    with clusters(tmp_path) as start:
        yield start


def quiet() -> Tally:
    """Hear of the progress and keep it for oneself."""
    return Tally(2, lambda _line: None)


def test_two_ranks_on_two_nodes(start: Start, tmp_path: Path) -> None:
    """Each rank knows its place and where to meet; the pods have all GPUs and the job's image."""
    server = start(*(cluster.node(name, 8) for name in NAMES))
    made: list[Object] = []

    def admit(pod: Object) -> str:
        made.append(pod)
        return ""

    server.admits = admit
    job = Job(
        "where", (sys.executable, "-c", PLACE), NAMES, 2, {"WORD": "word"}, "registry.example/job@sha256:1"
    )
    results = target(server, tmp_path).run(job, quiet())
    said = {place: item.out.decode().split() for place, item in results.items()}
    first = next(pod["metadata"]["name"] for pod in made if pod["metadata"]["name"].endswith("-0"))
    space = made[0]["spec"]["subdomain"]
    master = f"{first}.{space}.{space}.svc"
    assert said == {
        ("gpu1", 0): ["0", "0", "4", "0", master, "word"],
        ("gpu1", 1): ["1", "1", "4", "0", master, "word"],
        ("gpu2", 0): ["2", "0", "4", "1", master, "word"],
        ("gpu2", 1): ["3", "1", "4", "1", master, "word"],
    }
    assert {pod["spec"]["containers"][0]["image"] for pod in made} == {job.image}
    assert {pod["spec"]["hostname"] for pod in made} == {pod["metadata"]["name"] for pod in made}
    limits = made[0]["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"nvidia.com/gpu": "8"}
    assert server.store.ours() == []


def test_nodes_that_cannot_run_their_part(start: Start, tmp_path: Path) -> None:
    """Each rank of them has a result that says why, and the others are told nothing else."""
    server = start(cluster.node("gpu1", 8), cluster.not_ready("gpu2"), cluster.node("gpu3", 8))
    server.store.put("pods", cluster.holder("train", "gpu3", 1))
    job = Job("hello", ("echo", "hello"), ("gpu1", "gpu2", "gpu3"), ranks=2)
    results = target(server, tmp_path).run(job, quiet())
    assert results["gpu1", 1].out == b"hello\n"
    assert "Kubernetes says NotReady" in results["gpu2", 0].why
    assert results["gpu3", 1].why == (
        "the launcher was not started: busy: 1 of 8 nvidia.com/gpu are held by tenant/train"
    )
    assert results["gpu3", 1].status == "denied"


def test_devices_by_claim(start: Start, tmp_path: Path) -> None:
    """Where GPUs are claimed, so they are for a job, and the claim is gone afterwards."""
    server = start(cluster.node("gpu1"), dra="v1")
    cluster.slices(server.store, "gpu1", 8)
    results = target(server, tmp_path).run(Job("hello", ("echo", "hello"), ("gpu1",)), quiet())
    assert results["gpu1", 0].out == b"hello\n"
    assert server.store.ours() == []


def test_a_job_that_hangs(start: Start, tmp_path: Path) -> None:
    """At its deadline all ranks are ended, and what they started is gone."""
    server = start(*(cluster.node(name, 8) for name in NAMES))
    job = Job("hang", ("sh", "-c", "sleep 1000 & sleep 1000"), NAMES, deadline_s=1)
    results = target(server, tmp_path).run(job, quiet())
    assert {item.status for item in results.values()} == {"timed_out"}
    assert server.kubelet.running == []


def test_ctrl_c(start: Start, tmp_path: Path) -> None:
    """When the first rank has ended and the other node's hangs: all is removed, and nothing runs on."""
    server = start(*(cluster.node(name, 8) for name in NAMES))

    def interrupt(_line: str) -> NoReturn:
        raise KeyboardInterrupt

    job = Job("half", ("sh", "-c", "[ $RANK = 0 ] || sleep 1000"), NAMES)
    with pytest.raises(KeyboardInterrupt):
        target(server, tmp_path).run(job, Tally(2, interrupt))
    assert server.store.ours() == []
    assert server.kubelet.running == []
