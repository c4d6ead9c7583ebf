"""Objects are moved between nodes and a real store by URLs that are lent, and everything is removed again."""

from __future__ import annotations

import json
import signal
import tempfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

import lyingstore
import seaweed
from facts_evidence import unread, value
from gpuassay.evidence.recording import read_survey
from gpuassay.evidence.writer import add_measurement
from gpuassay.judge.catalog import Measurement
from gpuassay.judge.fact import Read
from gpuassay.judge.services import Services
from gpuassay.measure import object_cases
from gpuassay.measure.object_nodes import NODE
from gpuassay.measure.object_speed import ObjectSpeed
from lending import KEY, SECRET, Host, declared, left, on_this_machine, set_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpuassay.evidence.item import Item
    from gpuassay.facts import Node
    from gpuassay.measure.object_nodes import NodeStreams
    from gpuassay.target import Job, Results

KIB, MIB = 1 << 10, 1 << 20
ARGS: dict[str, Any] = {
    "streams": 3,
    "small": 4 * KIB,
    "small_passes": 2,
    "middle": 256 * KIB,
    "middle_passes": 2,
    "part": 5 * MIB,
    "parts": 2,
    "large_objects": 2,
    "repeats": 3,
    "patience_s": 60,
    "noise": 10.0,
}
MEASUREMENT = Measurement("object_speed", deadline_s=400.0, level="load", tool="object_speed", args=ARGS)


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the keys in the environment of the suite, and nothing else that boto3 looks for."""
    set_keys(monkeypatch)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[seaweed.Seaweed]:
    """Run SeaweedFS."""
    if seaweed.program() is None:
        pytest.skip(seaweed.INSTALL)
    with seaweed.running(tmp_path_factory.mktemp("weed")) as running:
        yield running


def asked(
    services: Services,
    *hosts: Host,
    run: Callable[[Job], Results] = on_this_machine,
    measurement: Measurement = MEASUREMENT,
) -> list[Item]:
    """Ask as a run does."""
    nodes = cast("Sequence[Node]", hosts or (Host("n1"), Host("n2")))
    return [
        replace(item, seq=seq)
        for seq, item in enumerate(ObjectSpeed().ask(run, services, nodes, measurement), 1)
    ]


def read(items: list[Item], services: Services, args: dict[str, Any] = ARGS) -> list[NodeStreams]:
    """Read the answers as a run does."""
    with tempfile.TemporaryDirectory() as folder:
        for item in items:
            add_measurement(Path(folder), "object_speed", "", item)
        return list(ObjectSpeed().read(services, args, read_survey(Path(folder), "object_speed")))


@pytest.fixture(scope="module")
def healthy(store: seaweed.Seaweed) -> tuple[Services, list[Item]]:
    """Measure once with two nodes."""
    services = declared(store.endpoint, read_gbps=0.000_001, write_gbps=1e6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY, seaweed.ACCESS_KEY)
        patch.setenv(SECRET, seaweed.SECRET_KEY)
        return services, asked(services)


def test_two_nodes_move_objects_both_ways_and_nothing_stays(healthy: tuple[Services, list[Item]]) -> None:
    """Each size has its rates and times, each node has read what the other wrote, and the bucket is gone."""
    services, items = healthy
    nodes = read(items, services)

    assert [node.node for node in nodes] == ["n1", "n2"]
    assert [moved.size for moved in nodes[0].moved] == ["4 KiB", "256 KiB", "10 MiB"]
    for node in nodes:
        for moved in node.moved:
            assert value(moved.read_gbps) > 0
            assert value(moved.write_gbps) > 0
            assert 0 < value(moved.read_ms) <= value(moved.read_p99_ms)
            assert value(moved.write_of_fastest) <= 1
            counts = [moved.wrong, moved.missing, moved.unmoved, moved.refused_share, moved.slowed_share]
            assert [value(one) for one in counts] == [0, 0, 0, 0, 0]
    assert nodes[0].moved[0].rows["read"].look("from") == Read("n2", nodes[0].told.evidence)
    assert value(nodes[0].totals[0].left_behind) == 0
    assert nodes[1].totals == []
    assert left(services) == []


def test_no_key_comes_to_a_node(store: seaweed.Seaweed) -> None:
    """What a node is given has neither key in it, nor is either in what is recorded."""
    given: list[bytes] = []

    def refused(job: Job) -> Results:
        given.append(job.feed)
        return {}

    items = asked(declared(store.endpoint), run=refused)
    told = zlib.decompress(given[0].partition(b"\n")[2])
    assert b"X-Amz-Signature" in told
    for text in (told, *(item.out for item in items)):
        assert seaweed.SECRET_KEY.encode() not in text
    assert not any(b"X-Amz-Signature" in item.out for item in items)


def test_what_was_promised_is_a_share_of_all_nodes_together(healthy: tuple[Services, list[Item]]) -> None:
    """Of either direction, with the figures in words."""
    services, items = healthy
    figures = {one.at["figure"]: one.value for one in read(items, services)[0].totals[0].promised}
    assert value(figures["read_gbps"]) > 1
    assert value(figures["write_gbps"]) < 1e-3
    assert "of 1e+06 write_gbps" in figures["write_gbps"].note  # type: ignore[union-attr]


def test_a_machine_without_accelerators_moves_little(store: seaweed.Seaweed) -> None:
    """It is only shown, so noise does not matter either."""
    services = declared(store.endpoint)
    items = asked(services, Host("n1", gpus=()))
    (node,) = read(items, services, {**ARGS, "noise": 0.0})
    assert node.tiny
    assert value(node.moved[2].read_gbps) > 0
    assert json.loads(items[1].out)["rows"][0]["requests"] == 3 * ARGS["streams"]


def test_rounds_that_lie_far_apart_are_no_figure(healthy: tuple[Services, list[Item]]) -> None:
    """Neither of a node, nor of all."""
    services, items = healthy
    nodes = read(items, services, {**ARGS, "noise": 0.0})
    assert "inconclusive" in unread(nodes[0].moved[1].read_gbps).why
    assert "inconclusive" in unread(nodes[0].totals[0].read_gbps).why


def test_a_busy_node_is_left_alone(store: seaweed.Seaweed) -> None:
    """And says so, while the other is measured by itself."""
    services = declared(store.endpoint)
    busy, alone = read(asked(services, Host("n1", busy="3 processes"), Host("n2")), services)
    assert "3 processes; a load needs an idle node" in unread(busy.moved[0].read_gbps).why
    assert value(alone.moved[0].read_gbps) > 0


def test_keys_that_are_refused_or_missing(store: seaweed.Seaweed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused: denied on every node. Not set: not asked. Either way nothing is run."""
    monkeypatch.setenv(SECRET, "another")
    services = declared(store.endpoint)

    def never(job: Job) -> Results:
        raise AssertionError(job.name)

    refused = read(asked(services, run=never), services)
    assert [unread(node.moved[0].read_gbps).kind for node in refused] == ["denied", "denied"]
    monkeypatch.delenv(SECRET)
    unset = read(asked(services, run=never), services)
    assert [unread(node.moved[0].wrong).kind for node in unset] == ["not_asked", "not_asked"]
    assert "TEST_SECRET is not set" in unread(unset[0].totals[0].read_gbps).why


def test_nothing_is_asked_where_no_store_is_declared() -> None:
    """And nothing comes of it."""
    assert asked(Services()) == []


def test_what_was_made_is_removed_when_it_is_cut(store: seaweed.Seaweed) -> None:
    """Ctrl-C while nodes are at work: objects, uploads and the bucket go, also if it is pressed again."""
    services = declared(store.endpoint)
    seen: list[str] = []

    def cut(job: Job) -> Results:
        on_this_machine(replace(job, nodes=job.nodes[:1]))
        seen.extend(left(services))
        signal.raise_signal(signal.SIGINT)
        return {}

    with pytest.raises(KeyboardInterrupt):
        asked(services, Host("n1"), Host("n2"), run=cut)
    assert len(seen) > 1
    assert left(services) == []


def test_urls_that_a_store_does_not_take_are_told_of_every_node() -> None:
    """In its words, size by size; nothing of it reads as a rate."""
    with lyingstore.running() as refusing:
        services = declared(refusing.endpoint, "acceptance")
        nodes = read(asked(services), services)
        for moved in (one for node in nodes for one in node.moved):
            assert "HTTP 403 AccessDenied" in unread(moved.write_gbps).why
            assert unread(moved.wrong).kind == "failed"
        assert refusing.things == []


@pytest.mark.parametrize(
    ("lie", "found"),
    [("garbles", ("wrong", 6)), ("loses", ("missing", 6)), ("slows", ("slowed_share", 0.04))],
)
def test_a_lie_is_found_at_its_object_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, lie: str, found: tuple[str, float]
) -> None:
    """Other bytes, an object that is gone, a wish for fewer requests: each is counted by itself."""
    monkeypatch.setattr(lyingstore, "VICTIM", "0/4096/1")
    with lyingstore.running("open", lie) as liar:
        services = declared(liar.endpoint, "acceptance")
        _, reader = read(asked(services), services)
        assert liar.things == []
    name, least = found
    assert value(getattr(reader.moved[0], name)) >= least
    for other in {"wrong", "missing", "slowed_share"} - {name}:
        assert value(getattr(reader.moved[0], other)) == 0
    assert value(reader.moved[1].wrong) == 0


def test_an_upload_that_fails_with_a_status_of_200_is_no_upload() -> None:
    """What an answer says counts, not its status: the large objects have no rate, and the others have."""
    with lyingstore.running("open", "fails with 200") as liar:
        services = declared(liar.endpoint, "acceptance")
        writer, _ = read(asked(services), services)
        assert liar.things == []
    assert "InternalError" in unread(writer.moved[2].write_gbps).why
    assert value(writer.moved[2].refused_share) > 0
    assert "did not write all" in unread(writer.moved[2].wrong).why
    assert value(writer.moved[1].write_gbps) > 0


@pytest.mark.parametrize(
    "out", [b"", b"{}", b"[]", b'{"rows": 3}', b'{"rows": [{"case": "4 KiB"}]}', b"\xff"]
)
def test_an_answer_that_tells_nothing_is_never_a_figure(
    healthy: tuple[Services, list[Item]], out: bytes
) -> None:
    """Hollow or garbled, every fact of that node is unread, and so is the sum of all."""
    services, items = healthy
    hollow = [replace(one, out=out) if one.id == f"{NODE}n1" else one for one in items]
    nodes = read(hollow, services)
    for moved in nodes[0].moved:
        for name in ("read_gbps", "write_gbps", "read_ms", "wrong", "missing", "unmoved", "slowed_share"):
            unread(getattr(moved, name))
    unread(nodes[0].totals[0].write_gbps)
    unread(nodes[1].moved[0].wrong)  # it read what that node was to write


def test_what_it_moves_is_said_before() -> None:
    """Bytes and requests, on each node and on all."""
    args = {**ARGS, "large_objects": 1, "middle": MIB}
    moved = 3 * (3 * 2 * 4 * KIB + 3 * 2 * MIB + 10 * MIB)
    assert f"{moved / 1e9:.3g} GB to the store and" in object_cases.cost(args, 0)
    assert f"{4 * moved / 1e9:.3g} GB either way on 4 nodes" in object_cases.cost(args, 4)
