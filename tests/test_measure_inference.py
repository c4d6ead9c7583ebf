"""An endpoint is talked to for real; what it says is weighed by its content, and never by its status."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuassay.evidence.item import Item
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.services import Inference, Services
from gpuassay.measure.inference import Endpoint as Told
from gpuassay.measure.inference import InferenceSurvey
from gpuassay.measure.work.dialogues import dialogues
from openai_server import Endpoint, served
from serving import surveyed

if TYPE_CHECKING:
    from collections.abc import Iterator

ARGS: dict[str, Any] = {
    "dialogues": 5,
    "turns": 3,
    "at_once": 2,
    "shared": 40,
    "added": 20,
    "short": 4,
    "long": 8,
    "seconds": 5,
    "warm": True,
}
SURVEY = InferenceSurvey()
VARIABLE = "GPUASSAY_TEST_TOKEN"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """Start an endpoint."""
    with served() as endpoint:
        yield endpoint


def told(folder: Path, endpoint: Endpoint, token_env: str = "", **args: object) -> Told:
    """Talk to it, and read what was recorded."""
    how, declared = {**ARGS, **args}, Inference(endpoint.url, "m", 4, token_env)
    asked = SURVEY.ask(Services(inference=declared), [], how, 60.0)
    items = [replace(item, seq=seq) for seq, item in enumerate(asked, 1)]
    (found,) = SURVEY.read(how, surveyed(folder, "inference", items))
    return found


def value(fact: Any) -> Any:
    """Give what was read."""
    assert isinstance(fact, Read), fact
    return fact.value


def test_a_good_endpoint_has_every_figure(tmp_path: Path, endpoint: Endpoint) -> None:
    """All turns of all dialogues are answered; what warmed it up does not count."""
    found = told(tmp_path, endpoint)
    assert value(found.requests) == 15
    assert (value(found.failed_share), value(found.truncated)) == (0.0, 0)
    assert 0 < value(found.ttft_p99_s) <= value(found.e2e_p90_s) * 10
    assert value(found.tokens_per_s_per_gpu) > 0
    assert "80 tokens in" in found.tokens_per_s_per_gpu.note  # type: ignore[union-attr]
    assert value(found.interactivity_p90) > 0
    assert len(endpoint.asked) == 15 + 2


def test_the_prefix_grows_and_its_beginning_is_everybodys(tmp_path: Path, endpoint: Endpoint) -> None:
    """Each turn repeats all before it, the model's own answers too; the system prompt is the same for all."""
    told(tmp_path, endpoint, warm=False, at_once=1)
    first, second, third = (one["messages"] for one in endpoint.asked[:3])
    assert second[: len(first)] == first
    assert third[: len(second)] == second
    assert third[2] == {"role": "assistant", "content": "word " * 4}
    assert len({one["messages"][0]["content"] for one in endpoint.asked}) == 1
    assert [one["max_tokens"] for one in endpoint.asked[:3]] == [4, 4, 8]
    assert all(one["stream"] and one["stream_options"] == {"include_usage": True} for one in endpoint.asked)


def test_everybody_is_asked_the_same_each_time() -> None:
    """By a seed; and no two dialogues say the same."""
    assert dialogues(ARGS) == dialogues(ARGS)
    assert len({one.turns for one in dialogues(ARGS)}) == 5


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("body", "HTTP 200, and in its body: CUDA error: illegal access"),
        ("stream", "HTTP 200, and in its stream: engine died"),
        ("garbled", "its stream holds what is no JSON: {half"),
        ("busy", "HTTP 503, and in its body: queue is full"),
        ("moved", "HTTP 302: it sends on to another place"),
        ("html", "HTTP 200: no stream of events but text/html: <h1>Sign in</h1>"),
        ("silent", "it was answered with nothing"),
        ("half", "its stream ended before its end"),
        ("hang", "no end within 1 s"),
    ],
)
def test_what_goes_wrong_is_told_whatever_the_status(
    tmp_path: Path, endpoint: Endpoint, how: str, words: str
) -> None:
    """None of it counts as an answer, and no figure is made of it."""
    endpoint.how = how
    found = told(tmp_path, endpoint, warm=False, seconds=1)
    assert value(found.failed_share) == 1.0
    assert words in found.failed_share.note  # type: ignore[union-attr]
    assert value(found.truncated) == (5 if how == "half" else 0)
    assert endpoint.most_at_once <= 2 if how != "hang" else endpoint.most_at_once == 2
    for figure in (found.ttft_p99_s, found.tpot_p99_s, found.e2e_p90_s, found.tokens_per_s_per_gpu):
        assert isinstance(figure, Unread)
        assert words in figure.why


def test_nobody_there_is_told(tmp_path: Path) -> None:
    """A refused connection is a failed request."""
    found = told(tmp_path, Endpoint("http://127.0.0.1:9/v1"), warm=False)
    assert value(found.failed_share) == 1.0
    assert "ConnectError" in found.failed_share.note  # type: ignore[union-attr]


def test_a_slow_first_token_shows_in_its_time(tmp_path: Path, endpoint: Endpoint) -> None:
    """Counted from the request to the first piece of text, not to the headers."""
    endpoint.first_s = 0.3
    found = told(tmp_path, endpoint, dialogues=1, warm=False)
    assert value(found.ttft_p99_s) >= 0.3
    assert value(found.tpot_p99_s) < 0.3


def test_the_token_is_sent_and_not_recorded(
    tmp_path: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes from the environment, and stays there."""
    monkeypatch.setenv(VARIABLE, "secret-of-a-test")
    told(tmp_path, endpoint, token_env=VARIABLE)
    assert set(endpoint.tokens) == {"Bearer secret-of-a-test"}
    kept = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert "dialogue/4" in kept
    assert "secret-of-a-test" not in kept
    assert "word word" not in kept


def test_without_its_token_nobody_is_asked(tmp_path: Path, endpoint: Endpoint) -> None:
    """What is missing is named, and every figure says so."""
    found = told(tmp_path, endpoint, token_env=VARIABLE)
    assert isinstance(found.failed_share, Unread)
    assert found.failed_share.why.startswith(f"the environment variable {VARIABLE} is not set")
    assert endpoint.asked == []


@given(
    st.binary(max_size=200) | st.sampled_from([b"{}", b"[]", b'{"turns": 3, "answers": [{"done": 1}, 7]}'])
)
def test_any_bytes_are_read_without_an_exception(out: bytes) -> None:
    """Whatever was recorded, there is no figure, and no failed request that nobody made."""
    items = (Item("endpoint", 1, out=b'{"model": "m", "gpus": 4}'), Item("dialogue/0", 2, out=out))
    with tempfile.TemporaryDirectory() as folder:
        found = Told(surveyed(Path(folder), "inference", items), 1)
    for figure in (found.ttft_p99_s, found.tokens_per_s_per_gpu, found.interactivity_p90):
        assert isinstance(figure, Unread)
    if isinstance(found.failed_share, Read):
        assert json.loads(out)["turns"] == 3
