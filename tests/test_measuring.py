"""A measurement is made once, with consent, on idle nodes, recorded, and only then read."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuassay import measuring
from gpuassay.evidence.item import Item
from gpuassay.evidence.recording import read_measurement, read_recording
from gpuassay.facts import fleet
from gpuassay.judge.catalog import Measurement
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.services import Services
from gpuassay.judge.site import Site, load_site, undeclared
from gpuassay.measuring import Measure, NotMeasuredError, record
from gpuassay.suite import load_suite
from gpuassay.target import TargetError
from recorded import build
from recorded.measurements import dcgm_diag

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.judge.fact import Scalar
    from gpuassay.target import Job, Results

ROOT = Path(__file__).parents[1]
DIAG = Measurement("dcgm_diag", "dcgm_diag", {"level": 2}, 900.0, "load")


def site_that_measures(measurement: Measurement) -> Site:
    """Give a site without a site file whose catalogue has one measurement."""
    catalog = load_suite(ROOT).catalog
    return undeclared(replace(catalog, measurements={measurement.name: measurement}))


class Cluster:
    """The healthy cluster without a measurement, on which commands answer as its recording does."""

    def __init__(self, folder: Path, name: str = "dcgm-not-run") -> None:
        self.folder = folder / "recording"
        shutil.copytree(build(name), self.folder)
        self.ran: list[tuple[str, tuple[str, ...]]] = []

    def run(self, job: Job) -> Results:
        """Answer a command on its nodes."""
        self.ran += [(node, job.argv) for node in job.nodes]
        return {(node, 0): dcgm_diag(8) for node in job.nodes}

    def measure(self, *levels: str, live: bool = True, busy: str = "") -> Measure:
        """Give what a check is given."""
        recording = read_recording(self.folder)
        suite = load_suite(ROOT)
        nodes = fleet(recording, undeclared(suite.catalog)).nodes
        for node in nodes:
            node.busy = busy
        run = self.run if live else None
        return Measure(site_that_measures(DIAG), nodes, self.folder, run, frozenset(levels))


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """Give a copy of the cluster that may be written to."""
    return Cluster(tmp_path)


def test_a_measurement_is_run_on_every_node_recorded_and_sealed(cluster: Cluster) -> None:
    """What a check gets is read from the recording, whose seal then holds the measurement too."""
    first = cluster.measure("load")("dcgm_diag")

    assert [node for node, _ in cluster.ran] == ["gpu001", "gpu002", "gpu003", "gpu004"]
    assert cluster.ran[0][1][:2] == ("dcgmi", "diag")
    assert all(isinstance(test.failed, Read) and not test.failed.value for one in first for test in one.tests)
    assert first[0].tests[0].failed.evidence == "measure/dcgm_diag/gpu001#1"
    assert read_recording(cluster.folder).seal == "sealed"


def test_a_measurement_that_is_recorded_is_not_made_again(cluster: Cluster) -> None:
    """A second check, and a replay, read what the first one had run."""
    first = cluster.measure("load")("dcgm_diag")
    cluster.ran.clear()

    assert cluster.measure("load")("dcgm_diag") == first
    assert cluster.measure(live=False)("dcgm_diag") == first
    assert cluster.ran == []


def test_nothing_is_run_without_consent(cluster: Cluster) -> None:
    """Another consent is none, and the recording stays as it was."""
    with pytest.raises(NotMeasuredError, match="needs --allow=load"):
        cluster.measure("touch")("dcgm_diag")
    assert cluster.ran == []
    assert read_recording(cluster.folder).seal == "sealed"


def test_a_recording_cannot_be_measured(cluster: Cluster) -> None:
    """Consent does not bring back a cluster that is not there."""
    with pytest.raises(NotMeasuredError, match="not in this recording"):
        cluster.measure("load", live=False)("dcgm_diag")


def test_only_nodes_that_a_check_is_about_are_measured(cluster: Cluster) -> None:
    """A login node gets no load for the sake of a check over GPUs; a second check adds the nodes it needs."""
    measure = cluster.measure("load")
    assert measure.on(())("dcgm_diag") == []
    assert [one.node for one in measure.on({"gpu002"})("dcgm_diag")] == ["gpu002"]
    assert [one.node for one in measure.on({"gpu001", "gpu002"})("dcgm_diag")] == ["gpu001", "gpu002"]

    assert [node for node, _ in cluster.ran] == ["gpu002", "gpu001"]


def test_a_node_in_use_gets_no_load(cluster: Cluster) -> None:
    """Somebody's job is not disturbed; the node says why it has no result."""
    found = cluster.measure("load", busy="its GPUs are in use by 2 processes")("dcgm_diag")

    assert cluster.ran == []
    failed = found[0].tests[0].failed
    assert isinstance(failed, Unread)
    assert "in use by 2 processes" in failed.why


def test_a_target_that_cannot_run_it(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check is not run, with the target's reason, and the recording is whole."""

    def run(_job: Job) -> Results:
        raise TargetError("no room")

    monkeypatch.setattr(cluster, "run", run)
    with pytest.raises(NotMeasuredError, match="dcgm_diag: no room"):
        cluster.measure("load")("dcgm_diag")
    assert read_recording(cluster.folder).seal == "sealed"


def test_several_ranks_of_a_node_are_several_items(tmp_path: Path) -> None:
    """Each is recorded under its number on the node, by which it can be asked for."""
    results = {
        (node, rank): Item("rank", 9, out=f"{node}.{rank}".encode()) for node in "ab" for rank in (1, 0)
    }
    record(tmp_path, "gemm", {"command": ["gemm"]}, results)
    found = read_measurement(tmp_path, "gemm", ["a", "b"])
    assert [(item.id, item.seq, item.out) for item in found["b"].items] == [
        ("gemm/0", 1, b"b.0"),
        ("gemm/1", 2, b"b.1"),
    ]
    assert found["a"].problems == ()


def test_a_measurement_by_another_method_is_not_taken_for_this_one(cluster: Cluster) -> None:
    """Level 1 does not answer for level 2."""
    cluster.measure("load")("dcgm_diag")
    measure = cluster.measure(live=False)
    measure._measurements = {"dcgm_diag": replace(DIAG, args={"level": 3})}  # noqa: SLF001 - as a later suite has it

    failed = measure("dcgm_diag")[0].tests[0].failed
    assert isinstance(failed, Unread)
    assert failed.kind == "not_asked"


class Heard(str):
    """A subject of the survey: a bell, and the node after its @ that it hangs on, if any."""

    __slots__ = ()

    @property
    def node(self) -> str:
        """The node that it belongs to."""
        return self.partition("@")[2].partition(" ")[0]


class Bell:
    """A survey that rings at every address that it is given, and is cut at one named ``cut``."""

    method = 1
    rung: list[str]

    def __init__(self) -> None:
        self.rung = []

    def ask(
        self, services: Services, nodes: Sequence[str], args: Mapping[str, Scalar], _deadline_s: float
    ) -> Iterator[Item]:
        """Ring, and say what is heard."""
        assert services == Services()
        assert nodes == ["gpu001"]
        for address in str(args["addresses"]).split():
            if address == "cut":
                raise KeyboardInterrupt
            self.rung.append(address)
            yield Item(f"bell/{address}", 0, out=b"ding")

    def read(self, _args: Mapping[str, Scalar], evidence: NodeEvidence) -> Sequence[Heard]:
        """Name what was heard, with its reference."""
        return [Heard(f"{item.id} {item.out.decode()} {evidence.ref(item)}") for item in evidence.items]


@pytest.fixture
def rung(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have the bell among the surveys; gives the addresses at which it rang."""
    survey = Bell()
    monkeypatch.setattr(measuring, "SURVEYS", {"bell": survey})
    return survey.rung


def survey(cluster: Cluster, addresses: str, *levels: str, live: bool = True) -> Measure:
    """Give what a check is given where a bell can be asked."""
    site = site_that_measures(Measurement("door", "bell", {"addresses": addresses}, 10.0, "contact"))
    nodes = fleet(read_recording(cluster.folder), site).nodes[:1]
    return Measure(site, nodes, cluster.folder, cluster.run if live else None, frozenset(levels))


def test_a_survey_is_asked_once_with_consent_and_recorded(cluster: Cluster, rung: list[str]) -> None:
    """It belongs to no node; a replay reads what was recorded, and the seal holds it."""
    with pytest.raises(NotMeasuredError, match="needs --allow=contact"):
        survey(cluster, "a b")("door")
    first = survey(cluster, "a b", "contact")("door")

    assert first == ["bell/a ding measure/door#1", "bell/b ding measure/door#2"]
    assert survey(cluster, "a b", live=False)("door") == first
    assert rung == ["a", "b"]
    assert read_recording(cluster.folder).seal == "sealed"


def test_what_a_survey_tells_of_a_node_out_of_service_is_left_out(cluster: Cluster, rung: list[str]) -> None:
    """The bell of such a node may have been rung before it was taken out."""
    heard = survey(cluster, "a elsewhere@gone", "contact")("door")
    assert rung == ["a", "elsewhere@gone"]
    assert heard == ["bell/a ding measure/door#1"]


def test_a_survey_that_was_cut_keeps_what_it_had(cluster: Cluster, rung: list[str]) -> None:
    """Its answers up to then are read, and it is not asked again."""
    with pytest.raises(KeyboardInterrupt):
        survey(cluster, "a cut b", "contact")("door")
    assert survey(cluster, "a cut b", "contact")("door") == ["bell/a ding measure/door#1"]
    assert rung == ["a"]


def test_a_survey_by_another_method_is_none(cluster: Cluster, rung: list[str]) -> None:
    """Other addresses were asked in this recording: that is not run, rather than taken for the same."""
    survey(cluster, "a", "contact")("door")
    with pytest.raises(NotMeasuredError, match="by another method"):
        survey(cluster, "b", "contact")("door")
    assert rung == ["a"]


def test_workloads_run_in_the_image_of_the_site_and_tools_do_not(tmp_path: Path) -> None:
    """What brings torch is the image that was declared; a tool is the node's own."""
    cluster, catalog = Cluster(tmp_path), load_suite(ROOT).catalog
    pool, image = '[[pool]]\nnodes = "gpu[001-004]"\n', "registry.example.com/torch@sha256:0123abcd"
    (tmp_path / "site.toml").write_text(
        f'[cluster]\nname = "c"\n{pool}[workload]\nimage = "{image}"\n', encoding="utf-8"
    )
    images = {}

    def run(job: Job) -> Results:
        images[job.name] = job.image
        return {(node, rank): dcgm_diag(8) for node in job.nodes for rank in range(job.ranks)}

    nodes = fleet(read_recording(cluster.folder), undeclared(catalog)).nodes
    site = load_site(tmp_path / "site.toml", catalog)
    measure = Measure(site, nodes, cluster.folder, run, frozenset({"load"}))
    measure("memory")
    measure("dcgm_diag")
    assert images == {"memory": image, "dcgm_diag": ""}
