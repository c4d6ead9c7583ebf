"""Slurm and Kubernetes in one run: each node asked through both, where that brings something, in one row."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from gpuassay.evidence.item import Item
from gpuassay.evidence.meta import Meta
from gpuassay.evidence.recording import read_recording
from gpuassay.evidence.writer import RecordingWriter
from gpuassay.facts.seats import Seats
from gpuassay.judge.fact import Read
from gpuassay.judge.reach import Reach
from gpuassay.target import TargetError
from gpuassay.target.both import Both
from gpuassay.target.choice import Wanted, choose
from gpuassay.target.progress import Tally
from kubeapi import cluster
from kubeapi.rig import Start, clusters, target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpuassay.evidence.recording import Recording
    from gpuassay.target import Progress, Writer
    from kubeapi.server import ApiServer

STATES = {"worker-1": "IDLE", "worker-2": "DOWN*", "worker-3": "IDLE+DRAIN", "worker-4": "ALLOCATED"}
NOW = datetime(2026, 11, 30, tzinfo=UTC)


@dataclass
class FakeSlurm:
    """Slurm, as far as this is about it: one node answers, one is down, one drained, one's GPUs are taken."""

    name: str = "slurm"
    cleaned: list[str] = field(default_factory=list)

    def declared(self) -> tuple[str, ...]:
        """Name the nodes."""
        return tuple(STATES)

    def gather(self, writer: Writer, progress: Progress) -> None:
        """Write what Slurm and its nodes say."""
        shown = "\n\n".join(f"NodeName={name} State={state}\n   Reason=fan" for name, state in STATES.items())
        writer.add_cluster(Item("slurm/nodes", 1, out=shown.encode()))
        for name in ("worker-2", "worker-3"):
            writer.add(name, Item("probe", 1, "failed", why=f"Slurm says {STATES[name]}"))
        for name, nvml in (("worker-1", "ok"), ("worker-4", "denied")):
            writer.add(name, Item("host", 1, out=b'{"hostname": "from Slurm"}'))
            writer.add(name, Item("nvml", 2, nvml, out=b"{}", why="" if nvml == "ok" else "busy"))  # type: ignore[arg-type]
        for name in STATES:
            progress.ended(name, "")

    def run(self, *_: object) -> NoReturn:
        """Run nothing."""
        raise AssertionError

    def bound(self, *_: object) -> NoReturn:
        """Bound nothing."""
        raise AssertionError

    def hold(self, *_: object) -> NoReturn:
        """Hold nothing."""
        raise AssertionError

    def eyes(self, *_: object) -> NoReturn:
        """Look at nothing."""
        raise AssertionError

    def plan(self) -> list[str]:
        """Say what would run."""
        return ["jobs"]

    def clean(self) -> list[str]:
        """Remove what is left."""
        return ["job 7"]

    def end(self, name: str) -> list[str]:
        """Remove what one run has left."""
        return [f"job {name}"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start clusters."""
    with clusters(tmp_path) as start:
        yield start


@pytest.fixture
def server(start: Start) -> ApiServer:
    """Start four machines that carry the four nodes of Slurm."""
    server = start(*(cluster.node(f"metal{number}", 8) for number in range(1, 5)))
    for number in range(1, 5):
        server.store.put("pods", cluster.holder(f"worker-{number}", f"metal{number}", 8))
    return server


def record(server: ApiServer, folder: Path, lines: list[str], **reach: Any) -> Recording:
    """Gather through both, into a recording."""
    both = Both(FakeSlurm(), target(server, folder, **reach))
    writer = RecordingWriter(
        folder / "recording", Meta(target=both.name, probe="test", declared=both.declared(), begin=NOW)
    )
    both.gather(writer, Tally(4, lines.append))
    writer.finish(NOW)
    return read_recording(folder / "recording")


def statuses(recording: Recording, item: str) -> dict[str, str]:
    """Give the latest status of an item, by node."""
    found = {name: evidence.item(item) for name, evidence in recording.nodes.items()}
    return {name: one.status for name, one in found.items() if one}


def asked(server: ApiServer) -> int:
    """Count the pods that were made."""
    return sum(verb == "POST" and path.endswith("/pods") for verb, path, _ in server.requests)


def test_what_slurm_did_not_reach(server: ApiServer, tmp_path: Path) -> None:
    """Its machine is asked by a pod, and answers in the node's row; a drained node is left alone."""
    lines: list[str] = []
    found = record(server, tmp_path, lines)
    assert {name for name in found.nodes if name in STATES} == {*found.nodes}
    assert asked(server) == 1
    assert statuses(found, "host") == {"worker-1": "ok", "worker-2": "ok", "worker-4": "ok"}
    assert statuses(found, "nvml") == {"worker-1": "ok", "worker-2": "denied", "worker-4": "denied"}
    assert found.problems == ()
    assert lines[-1] == "4 of 4 nodes done"
    seqs = [item.seq for item in found.cluster.items]
    assert seqs == sorted({*seqs})
    assert server.store.ours() == []


def test_the_hosts_view_adds_what_jobs_hide(server: ApiServer, tmp_path: Path) -> None:
    """Whatever was denied or missing through Slurm comes from the host; what came through Slurm stays."""
    found = record(server, tmp_path, [], host_view=True)
    assert asked(server) == 3
    host = found.nodes["worker-1"].item("host")
    assert host is not None
    assert b"from Slurm" in host.out
    assert statuses(found, "uptime") == {"worker-1": "ok", "worker-2": "ok", "worker-4": "ok"}
    assert statuses(found, "probe") == {"worker-2": "failed", "worker-3": "failed"}
    assert found.nodes["worker-2"].came


def test_where_no_pod_can_be_made(server: ApiServer, tmp_path: Path) -> None:
    """What came through Slurm stays, and the recording says what was not allowed."""
    server.allows = lambda verb, _resource, _place: verb != "create"
    found = record(server, tmp_path, [])
    assert statuses(found, "host") == {"worker-1": "ok", "worker-4": "ok"}
    why = found.cluster.item("kubernetes/pods-of-this-run")
    assert why is not None
    assert "cannot create resource" in why.why


def test_one_row_knows_both(server: ApiServer, tmp_path: Path) -> None:
    """The recording says on which machine each node is, and that both schedulers have it."""
    seats = Seats(record(server, tmp_path, [], image="").cluster)
    host = seats.host("worker-2")
    assert isinstance(host, Read)
    assert host.value.name == "metal2"
    assert {need: fact.value for need, fact in seats.has("worker-2").items() if isinstance(fact, Read)} == {
        "slurm": True,
        "kubernetes": True,
        "standalone": False,
    }


def test_the_plan_and_the_cleaning(server: ApiServer, tmp_path: Path) -> None:
    """Both ways are planned, and both are cleaned."""
    both = Both(FakeSlurm(), target(server, tmp_path))
    plan = both.plan()
    assert plan[0] == "jobs"
    assert any("metal1: a pod without GPUs: busy" in line for line in plan)
    assert both.clean() == ["job 7"]
    assert both.end("gpuassay-1") == ["job gpuassay-1"], "and nothing of that name is in Kubernetes"


@pytest.mark.parametrize("words", ["slurm,kubernetes", "kubernetes,slurm"])
def test_how_it_is_asked_for(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both words, in either order; the nodes that are named are Slurm's."""
    for name in ("scontrol", "squeue", "srun", "scancel", "salloc"):
        (tmp_path / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (tmp_path / name).chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    both = choose(words, Wanted(("worker-1",), 60, Reach()))
    assert (both.name, both.declared()) == ("slurm,kubernetes", ("worker-1",))
    with pytest.raises(TargetError, match="or slurm,kubernetes"):
        choose("ssh,kubernetes", Wanted((), 60, Reach()))
