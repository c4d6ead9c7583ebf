"""A job over two racks on a Kubernetes of our own: on which nodes, in what pods, and what came of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay.evidence.recording import read_recording
from gpuassay.facts import fleet
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.site import undeclared
from gpuassay.measure import errand
from gpuassay.measure.two_racks import TwoRacks
from gpuassay.measuring import Measure
from gpuassay.probe.launch import PYTHON
from gpuassay.suite import load_suite
from gpuassay.target.progress import Tally
from kubeapi import cluster
from kubeapi.rig import Start, clusters, target
from recorded import build

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpuassay.facts import Node
    from gpuassay.judge.fact import Fact
    from gpuassay.target import Job, Results
    from kubeapi.server import ApiServer
    from kubeapi.store import Object

ROOT = Path(__file__).parents[1]
TAKEN = ["gb001", "gb002", "gb005", "gb006"]
# In place of the workload: the first node's ranks say what they would, all others end on its account.
RANK = """
import json, os, sys
told = {"rows": [], "pairs": [], "groups": [], "log": {}, "device": {}}
own = "broken" if os.environ["GROUP_RANK"] == "0" else "ended"
print(json.dumps({**told, own: sys.argv[1]}))
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start clusters."""
    with clusters(tmp_path) as start:
        yield start


class Racks:
    """Two half racks, whose recording may be written to, on a cluster of Kubernetes."""

    def __init__(self, start: Start, folder: Path) -> None:
        shutil.copytree(build("gb300-two-racks"), folder / "recording")
        self.folder = folder
        self.pods: list[Object] = []
        self.server: ApiServer = start(*(cluster.node(f"gb00{number}", 4) for number in range(1, 9)))
        self.server.admits = self.admit

    def admit(self, pod: Object) -> str:
        """Remember a pod, and let it in."""
        self.pods.append(pod)
        return ""

    def run(self, job: Job) -> Results:
        """Run a job there; nothing may be left of it."""
        results = target(self.server, self.folder).run(job, Tally(len(job.nodes), lambda _line: None))
        assert (self.server.store.ours(), self.server.kubelet.running) == ([], [])
        return results

    def outcome(self) -> Fact[str]:
        """Measure, and give what came of it."""
        catalog = load_suite(ROOT).catalog
        recording = self.folder / "recording"
        nodes = fleet(read_recording(recording), undeclared(catalog)).nodes
        measure = Measure(undeclared(catalog), nodes, recording, self.run, frozenset({"load"}))
        (found,) = measure("two_racks")
        return found.outcome  # type: ignore[no-any-return]


def says(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    """Have the first node's ranks say this."""
    monkeypatch.setattr(errand, "ARGV", (PYTHON, "-c", RANK, words))


def test_a_job_that_hangs(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nodes of each rack take part, in pods that claim no domain; the rank that hung is named."""
    says(monkeypatch, "all_gather over all of 1 MiB did not end within 120 s")
    racks = Racks(start, tmp_path)
    found = racks.outcome()
    assert isinstance(found, Read)
    assert (found.value, "gb001/gpu0" in found.note) == ("hung", True)
    terms = [
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        for pod in racks.pods
    ]
    asked = [term["nodeSelectorTerms"][0]["matchFields"][0]["values"][0] for term in terms]
    assert sorted(asked) == TAKEN
    assert not any("resourceClaims" in pod["spec"] for pod in racks.pods)
    assert racks.outcome() == found  # it is read the second time
    assert len(racks.pods) == len(TAKEN)


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        ("all_gather over all of 1 MiB: DistBackendError: unhandled cuda error", "broke"),
        ("to meet the first rank did not end within 180 s", "failed"),
    ],
)
def test_a_job_that_ends_itself(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, outcome: str
) -> None:
    """An error at once is no hang; ranks that never met over the hosts' network say nothing of racks."""
    says(monkeypatch, words)
    found = Racks(start, tmp_path).outcome()
    assert (found.value if isinstance(found, Read) else found.kind) == outcome


@pytest.mark.parametrize(
    ("refusal", "outcome"),
    [
        ('admission webhook "racks" denied the request: no ComputeDomain', "refused"),
        ("exceeded quota: gpus", "denied"),
    ],
)
def test_a_job_that_is_not_started(start: Start, tmp_path: Path, refusal: str, outcome: str) -> None:
    """A policy's refusal is an answer to such a job; a quota's is none."""
    racks = Racks(start, tmp_path)
    racks.server.admits = lambda _pod: refusal
    found = racks.outcome()
    assert (found.value if isinstance(found, Read) else found.kind) == outcome


def nodes(change: dict[str, Any]) -> list[Node]:
    """Give the recorded nodes, of which some are changed."""
    found = fleet(read_recording(build("gb300-two-racks")), undeclared(load_suite(ROOT).catalog)).nodes
    for node in found:
        for key, value in change.get(node.name, {}).items():
            setattr(node, key, value)
    return list(found)


def chosen(found: Sequence[Node]) -> list[str]:
    """Name those that are taken."""
    return [node.name for node in TwoRacks().choose(found)]


def test_which_nodes_are_taken() -> None:
    """As many of each rack, idle ones; none where one rack alone has any, whatever their order."""
    assert chosen(nodes({})) == TAKEN
    assert chosen(nodes({})[::-1]) == TAKEN
    busy = {f"gb00{number}": {"busy": "in use"} for number in (1, 6, 7, 8)}
    assert chosen(nodes(busy)) == ["gb002", "gb005"]
    assert chosen(nodes(busy | {"gb005": {"busy": "in use"}})) == []
    (none,) = TwoRacks().subjects([], {}, {})
    assert isinstance(none.outcome, Unread)
