"""Objects that are written and read again and again: a store that tires, or gives old ones, is found."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

import lyingstore
import seaweed
from facts_evidence import unread, value
from gpuassay.evidence.item import Item
from gpuassay.evidence.recording import read_survey
from gpuassay.evidence.writer import add_measurement
from gpuassay.judge.catalog import Measurement
from gpuassay.measure.object_endurance import ObjectEndurance
from gpuassay.measure.object_nodes import NODE
from gpuassay.target import TargetError
from lending import Host, declared, left, on_this_machine, set_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuassay.facts import Node
    from gpuassay.judge.services import Services
    from gpuassay.measure.object_endurance import NodeObjects

ARGS: dict[str, Any] = {
    "seconds": 3.0,
    "streams": 2,
    "size": 64 << 10,
    "window_s": 10,
    "patience_s": 60,
    "most_error": 10.0,
}


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the keys in the environment of the suite, and nothing else that boto3 looks for."""
    set_keys(monkeypatch)


def asked(services: Services, *hosts: Host, **changes: Any) -> list[Item]:
    """Load the store as a run does."""
    args = {**ARGS, **changes}
    what = Measurement("object_endurance", deadline_s=400.0, level="load", tool="object_endurance", args=args)
    nodes = cast("Sequence[Node]", hosts or (Host("n1"), Host("n2")))
    items = ObjectEndurance().ask(on_this_machine, services, nodes, what)
    return [replace(item, seq=seq) for seq, item in enumerate(items, 1)]


def read(items: list[Item], services: Services) -> list[NodeObjects]:
    """Read the answers as a run does."""
    with tempfile.TemporaryDirectory() as folder:
        for item in items:
            add_measurement(Path(folder), "object_endurance", "", item)
        found = read_survey(Path(folder), "object_endurance")
        return list(ObjectEndurance().read(services, ARGS, found))


def test_a_real_store_is_under_load_for_as_long_as_was_asked(tmp_path: Path) -> None:
    """By two nodes at once, which write and read; every object is right, and nothing stays."""
    if seaweed.program() is None:
        pytest.skip(seaweed.INSTALL)
    with seaweed.running(tmp_path) as store:
        services = declared(store.endpoint)
        nodes = read(asked(services, seconds=10.0), services)
        assert left(services) == []
    assert [node.node for node in nodes] == ["n1", "n2"]
    for node in nodes:
        assert [value(one) for one in (node.wrong, node.missing, node.unmoved)] == [0, 0, 0]
        assert [value(one) for one in (node.refused_share, node.slowed_share)] == [0, 0]
        assert value(node.longest_s) > 0
        assert value(node.minutes) >= 0.16
        assert value(node.whole) is True
        assert all(rate > 0 for curve in (node.read_gbps, node.write_gbps) for _, rate in value(curve))
    assert value(nodes[0].volumes[0].left_behind) == 0
    assert nodes[1].volumes == ()


def test_a_store_that_tires_is_slower_at_the_end() -> None:
    """It reads slower, and writes as it did."""
    with lyingstore.running("open", "tires") as tired:
        services = declared(tired.endpoint, "acceptance")
        (node,) = read(asked(services, Host("n1"), seconds=9.0), services)
        assert tired.things == []
    assert value(node.read_last_of_first) < 0.6
    assert value(node.read_last_of_first) < value(node.write_last_of_first)
    assert "GB/s" in node.read_last_of_first.note  # type: ignore[union-attr]
    assert value(node.wrong) == 0


def test_a_store_that_gives_what_was_written_before_is_found() -> None:
    """What comes back is whole, and older than what was written last."""
    with lyingstore.running("open", "stale") as stale:
        services = declared(stale.endpoint, "acceptance")
        (node,) = read(asked(services, Host("n1")), services)
    assert value(node.wrong) > 0
    assert "others than were written" in node.wrong.note  # type: ignore[union-attr]


def test_a_store_that_loses_an_object_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was confirmed, and is not there."""
    monkeypatch.setattr(lyingstore, "VICTIM", f"0/{64 << 10}/1")
    with lyingstore.running("open", "loses") as loser:
        services = declared(loser.endpoint, "acceptance")
        (node,) = read(asked(services, Host("n1")), services)
    assert value(node.missing) > 0


def test_a_store_that_asks_for_fewer_requests_is_heard() -> None:
    """Once for each object: nothing is given up, and nothing was refused otherwise."""
    with lyingstore.running("open", "slows") as slow:
        services = declared(slow.endpoint, "acceptance")
        (node,) = read(asked(services, Host("n1")), services)
    assert value(node.slowed_share) > 0
    assert "2 of" in node.slowed_share.note  # type: ignore[union-attr]
    assert [value(one) for one in (node.refused_share, node.unmoved)] == [0, 0]


def test_a_dip_and_a_standstill_are_told_with_their_place() -> None:
    """Wherever they lie: begin and end are as they were."""
    rows: list[dict[str, float]] = [
        {"span": 60, "write": 6e9, "write_s": 30, "read": 6e9, "read_s": 30, "longest_s": 1.5}
        for _ in range(40)
    ]
    for row in rows[15:21]:
        row["write_s"] = 75
    rows[20]["longest_s"] = 45.5
    with tempfile.TemporaryDirectory() as folder:
        add_measurement(Path(folder), "object_endurance", "", _answer({"rows": rows}))
        found = read_survey(Path(folder), "object_endurance")
        (node,) = ObjectEndurance().read(declared("http://s.example"), {**ARGS, "most_error": 0.05}, found)
    assert value(node.write_last_of_first) == 1.0
    assert value(node.write_lowest_of_median) == 0.4
    assert value(node.read_lowest_of_median) == 1.0
    assert value(node.longest_s) == 45.5
    assert "after 20.0 minutes" in node.longest_s.note  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("lie", "seconds", "words"),
    [
        ("versions", 3.0, "the bucket acceptance keeps what is overwritten"),
        ("open", 8 * 86400.0, "a week at most"),
    ],
)
def test_what_would_fill_a_bucket_or_outlast_its_loan_is_not_run(
    lie: str, seconds: float, words: str
) -> None:
    """Where each version stays, and where no URL is good for so long; what was put to see it is gone."""
    with lyingstore.running(lie) as store:
        with pytest.raises(TargetError, match=words):
            asked(declared(store.endpoint, "acceptance"), Host("n1"), seconds=seconds)
        assert store.things == []


def test_urls_that_a_store_does_not_take_are_no_figure() -> None:
    """In its words; nothing is whole, and nothing was as fast as before."""
    with lyingstore.running() as refusing:
        services = declared(refusing.endpoint, "acceptance")
        (node,) = read(asked(services, Host("n1")), services)
    for fact in (node.read_last_of_first, node.wrong, node.minutes, node.whole):
        assert "HTTP 403 AccessDenied" in unread(fact).why


@pytest.mark.parametrize("out", [b"", b"{}", b'{"rows": 3}', b'{"rows": [{}]}', b'{"rows": []}', b"\xff"])
def test_an_answer_that_tells_nothing_is_never_a_figure(out: bytes) -> None:
    """Hollow or garbled, no fact of that node passes."""
    items = [replace(_answer({}), out=out)]
    (node,) = read(items, declared("http://store.example"))
    for fact in (node.read_last_of_first, node.write_last_of_first, node.wrong, node.missing, node.unmoved):
        unread(fact)
    for share in (node.read_lowest_of_median, node.refused_share, node.slowed_share, node.longest_s):
        unread(share)
    if b"{}]" not in out:
        unread(node.whole)
    else:
        assert value(node.whole) is False


def test_noise_is_no_loss() -> None:
    """Windows that lie far apart leave it unknown whether it became slower."""
    rows = [{"span": 10, "write": 1e9, "write_s": 5, "read": 1e9, "read_s": 1 + n % 5} for n in range(40)]
    with tempfile.TemporaryDirectory() as folder:
        add_measurement(Path(folder), "object_endurance", "", _answer({"rows": rows}))
        found = read_survey(Path(folder), "object_endurance")
        (node,) = ObjectEndurance().read(declared("http://s.example"), {**ARGS, "most_error": 0.05}, found)
    assert "inconclusive" in unread(node.read_last_of_first).why
    assert value(node.write_last_of_first) == 1.0


def test_a_busy_node_is_left_alone() -> None:
    """And says so."""
    with lyingstore.running("open") as store:
        services = declared(store.endpoint, "acceptance")
        busy, alone = read(asked(services, Host("n1", busy="3 processes"), Host("n2")), services)
    assert "a load needs an idle node" in unread(busy.whole).why
    assert value(alone.whole) is True


def test_what_it_moves_is_said_before() -> None:
    """How long, on how many nodes, and what is stored meanwhile."""
    said = ObjectEndurance().cost({**ARGS, "seconds": 3600.0}, 4)
    assert said.startswith("as much as the store takes and gives in 60 min, on 4 nodes at once; 0.000131 GB")


def _answer(document: dict[str, Any]) -> Item:
    return Item(f"{NODE}n1", 1, asked={"of": 3.0}, out=json.dumps(document).encode())
