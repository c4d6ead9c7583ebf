"""Object storage is tried with small objects: on a real store, and on one that lies in each way there is."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import lyingstore
import seaweed
from facts_evidence import evidence, unread, value
from gpuassay.judge.services import S3, Services
from gpuassay.measure.s3 import S3Survey
from gpuassay.measure.s3store import Trial
from gpuassay.measure.s3trial import ObjectTrial
from lending import KEY, SECRET, set_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuassay.evidence.item import Item

COUNTS = ("refused", "lost", "wrong_bytes", "other_tags", "not_listed", "undeleted", "left_behind")
ACCESS = ("read_by_anybody", "listed_by_anybody", "written_by_anybody")


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the keys in the environment, and nothing else that boto3 looks for."""
    set_keys(monkeypatch)


def declared(endpoint: str, bucket: str = "acceptance", *, key: str = KEY, secret: str = SECRET) -> Services:
    """Give a site that has this store, and the variables of its keys."""
    return Services(s3=S3(endpoint, bucket, access_key=key, secret_key=secret))


def asked(services: Services, deadline_s: float = 60) -> list[Item]:
    """Ask as a run does."""
    return list(S3Survey().ask(services, (), {}, deadline_s))


def trial(items: list[Item]) -> ObjectTrial:
    """Read the answers as a run does, and as a replay will."""
    return ObjectTrial(evidence({item.id: item for item in items}))


def counts(found: ObjectTrial) -> dict[str, int]:
    """Give the counts that are not zero."""
    told = {name: value(getattr(found, name)) for name in COUNTS}
    return {name: count for name, count in told.items() if count}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[seaweed.Seaweed]:
    """Run SeaweedFS."""
    if seaweed.program() is None:
        pytest.skip(seaweed.INSTALL)
    with seaweed.running(tmp_path_factory.mktemp("weed")) as running:
        yield running


def test_a_real_store_does_all_of_it_and_nothing_stays(store: seaweed.Seaweed) -> None:
    """Every step works, nobody gets in without a key, plain HTTP is told, the bucket is gone afterwards."""
    items = asked(declared(store.endpoint, bucket=""))
    found = trial(items)

    assert counts(found) == {}
    assert [value(getattr(found, name)) for name in ACCESS] == [False, False, False]
    assert value(found.encrypted) is False
    bucket = json.loads(items[1].out)["bucket"]
    again = trial(asked(declared(store.endpoint, bucket=bucket)))
    assert unread(again.refused).why == "HeadBucket: 404 (HTTP 404)"


def test_wrong_keys_are_told_and_nothing_is_tried(
    store: seaweed.Seaweed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the keys may not see is unseen, and no step after it is guessed."""
    monkeypatch.setenv(SECRET, "another-secret-key")
    items = asked(declared(store.endpoint, bucket=""))
    assert [item.id for item in items] == ["endpoint", "bucket", "removed"]
    found = trial(items)
    for name in (*COUNTS, *ACCESS):
        assert unread(getattr(found, name)).kind == "denied"


def test_an_honest_store_in_a_bucket_of_the_site() -> None:
    """The objects lie below a prefix of ours, and the bucket stays as it was."""
    with lyingstore.running() as honest:
        honest.buckets["acceptance"]["of somebody else"] = b"kept"
        assert counts(trial(asked(declared(honest.endpoint)))) == {}
        assert honest.things == ["acceptance/of somebody else"]


@pytest.mark.parametrize(
    ("lie", "found"),
    [
        ("loses", {"lost": 1, "not_listed": 1, "wrong_bytes": 1}),
        ("lists late", {"not_listed": 1}),
        ("garbles", {"wrong_bytes": 1}),
        ("stale", {"wrong_bytes": 1}),
        ("retags", {"other_tags": 2}),
        ("no multipart", {"refused": 1}),
    ],
)
def test_a_lie_is_found_and_no_other(lie: str, found: dict[str, int]) -> None:
    """Each by its own count, and nothing of the trial stays."""
    with lyingstore.running(lie) as liar:
        told = trial(asked(declared(liar.endpoint)))
        if lie == "no multipart":
            assert "multipart (CreateMultipartUpload: NotImplemented (HTTP 501))" in told.refused.note  # type: ignore[union-attr]
            assert unread(told.wrong_bytes).kind == "failed"
            assert value(told.refused) == 1
        else:
            assert counts(told) == found
        assert liar.things == []


def test_what_is_not_deleted_is_found_and_told_to_be_left() -> None:
    """By reading it and by listing it; and the trial says what of its own is still there."""
    with lyingstore.running("keeps") as liar:
        found = trial(asked(declared(liar.endpoint)))
        assert counts(found) == {"undeleted": 1, "left_behind": 1}
        assert found.left_behind.note.endswith(lyingstore.VICTIM)  # type: ignore[union-attr]
        assert len(liar.things) == 1


def test_a_store_that_is_open_to_everybody() -> None:
    """Reading, listing and writing are told apart, and what was written without a key is removed too."""
    with lyingstore.running("open") as liar:
        found = trial(asked(declared(liar.endpoint)))
        assert [value(getattr(found, name)) for name in ACCESS] == [True, True, True]
        assert liar.things == []


@pytest.mark.parametrize("bucket", ["", "acceptance"])
def test_a_trial_that_is_cut_removes_what_it_made(monkeypatch: pytest.MonkeyPatch, bucket: str) -> None:
    """Objects, an upload that was begun, and the bucket if it was made for it."""
    seen: list[str] = []

    def cut(*_: object, **__: object) -> dict[str, Any]:
        seen.extend(holding.things)
        raise KeyboardInterrupt

    with lyingstore.running() as holding:
        monkeypatch.setattr(Trial, "_part", cut)
        with pytest.raises(KeyboardInterrupt):
            asked(declared(holding.endpoint, bucket=bucket))
        assert len(seen) > len(COUNTS)
        assert seen[-1] == "an upload"
        assert (holding.things, [*holding.buckets]) == ([], ["acceptance"])


def test_removing_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever interrupts again waits until everything is gone."""
    clean = Trial.clean

    def interrupted(self: Trial, until: float) -> dict[str, Any]:
        signal.raise_signal(signal.SIGINT)
        return clean(self, until)

    monkeypatch.setattr(Trial, "clean", interrupted)
    with lyingstore.running() as holding:
        with pytest.raises(KeyboardInterrupt):
            asked(declared(holding.endpoint, bucket=""))
        assert (holding.things, [*holding.buckets]) == ([], ["acceptance"])


def test_past_its_time_nothing_more_is_tried() -> None:
    """The rest is timed out, which is no pass; what had been made is removed."""
    with lyingstore.running() as holding:
        found = trial(asked(declared(holding.endpoint), deadline_s=0))
        assert unread(found.refused).kind == "timed_out"
        assert holding.things == []


def test_nobody_answers_at_the_endpoint() -> None:
    """It failed, and says how; nothing was made, so nothing is left."""
    with lyingstore.running() as gone:
        pass
    found = trial(asked(declared(gone.endpoint)))
    assert "EndpointConnectionError" in unread(found.lost).why
    assert unread(found.encrypted).kind == "failed"


def test_an_endpoint_that_is_no_address() -> None:
    """It is told in the library's words, and nothing is raised."""
    assert "Invalid endpoint" in unread(trial(asked(declared("no address"))).lost).why


def test_a_way_that_cannot_be_trusted() -> None:
    """Where TLS fails, that is told of the way, and nothing is sent on it."""
    with lyingstore.running() as holding:
        items = asked(declared(holding.endpoint.replace("http:", "https:")))
        assert holding.things == []
    found = trial(items)
    assert value(found.encrypted) is False
    assert "SSL" in found.encrypted.note  # type: ignore[union-attr]
    assert unread(found.lost).kind == "failed"


def test_what_is_missing_here_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, no name of one, and no library: not run, and nothing is pressed on the store."""
    unset = trial(asked(declared("http://127.0.0.1:1", key="NOT_SET_HERE")))
    assert unread(unset.lost).kind == "not_asked"
    assert "NOT_SET_HERE is not set" in unread(unset.encrypted).why
    assert "[s3] secret_key" in unread(trial(asked(declared("http://127.0.0.1:1", secret=""))).lost).why
    monkeypatch.setitem(sys.modules, "gpuassay.measure.s3store", None)
    assert "pip install 'gpuassay[s3]'" in unread(trial(asked(declared("http://127.0.0.1:1"))).lost).why


def test_nothing_is_asked_where_no_store_is_declared() -> None:
    """And nothing is read from that."""
    assert asked(Services()) == []


@pytest.fixture(scope="module")
def honest_answers() -> dict[str, Item]:
    """Give what an honest store answers, by step."""
    with pytest.MonkeyPatch.context() as patch, lyingstore.running() as honest:
        patch.setenv(KEY, "a key")
        patch.setenv(SECRET, "a secret")
        return {item.id: item for item in asked(declared(honest.endpoint))}


@pytest.mark.parametrize("step", ["put", "get", "head", "range", "list", "multipart", "delete", "removed"])
@pytest.mark.parametrize("out", [b"{}", b"[]", b"\xff", b'{"left": 1, "deleted": 0, "still_read": "x"}'])
def test_a_step_that_tells_nothing_never_passes(
    honest_answers: dict[str, Item], step: str, out: bytes
) -> None:
    """With any answer hollow or garbled, some fact is unread or not zero."""
    hollow = {**honest_answers, step: replace(honest_answers[step], out=out)}
    facts = [getattr(ObjectTrial(evidence(hollow)), name) for name in COUNTS]
    assert any(not hasattr(fact, "value") or fact.value for fact in facts)
