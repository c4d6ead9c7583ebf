"""What came of dialogues with an endpoint: how long agents had to wait, and what went wrong."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuassay.facts.record import Record
    from gpuassay.judge.fact import Fact

_LONG = 2  # an answer of fewer tokens has no time between them


@dataclass(frozen=True)
class Reply:
    """One request that was answered to its end."""

    begin_s: float
    first_s: float
    last_s: float
    tokens: int


@dataclass(frozen=True)
class Held:
    """One dialogue: how many turns it should have had, and how far it came."""

    turns: int
    replies: tuple[Reply, ...]
    truncated: int
    trouble: str


class Talked:
    """Figures of all dialogues; ``told`` are these, and ``gpus`` how many are behind the endpoint."""

    @property
    def told(self) -> Fact[tuple[Held, ...]]:
        """All dialogues; one that is missing or garbled leaves all figures unread."""
        raise NotImplementedError

    @property
    def gpus(self) -> Fact[int]:
        """How many GPUs the figures are of."""
        raise NotImplementedError

    @property
    def requests(self) -> Fact[int]:
        """How many turns there should have been."""
        told = self.told
        return told if isinstance(told, Unread) else Read(sum(one.turns for one in told.value), told.evidence)

    @property
    def failed_share(self) -> Fact[float]:
        """Requests that were not answered to their end, those after a failed one too, of all."""
        told = self.told
        if isinstance(told, Unread):
            return told
        due = sum(one.turns for one in told.value)
        good = sum(len(one.replies) for one in told.value)
        words = [one.trouble for one in told.value if one.trouble]
        note = f"{due - good} of {due} requests; the first: {words[0]}" if words else ""
        return Read((due - good) / due, told.evidence, note)

    @property
    def truncated(self) -> Fact[int]:
        """Streams that ended before their end, without an error."""
        told = self.told
        if isinstance(told, Unread):
            return told
        return Read(sum(one.truncated for one in told.value), told.evidence)

    @property
    def ttft_p99_s(self) -> Fact[float]:
        """Time to the first token that all but one in a hundred requests stay within."""
        return self._percentile(lambda reply: reply.first_s, 99)

    @property
    def tpot_p99_s(self) -> Fact[float]:
        """Time for each further token, likewise."""
        return self._percentile(
            lambda reply: (
                (reply.last_s - reply.first_s) / (reply.tokens - 1) if reply.tokens >= _LONG else math.nan
            ),
            99,
        )

    @property
    def e2e_p90_s(self) -> Fact[float]:
        """Time from the request to the last token that nine in ten requests stay within."""
        return self._percentile(lambda reply: reply.last_s, 90)

    @property
    def interactivity_p90(self) -> Fact[float]:
        """Tokens a second from a request to its last token, which nine in ten requests reach."""
        return self._percentile(lambda reply: reply.tokens / reply.last_s if reply.last_s else math.nan, 10)

    @property
    def tokens_per_s_per_gpu(self) -> Fact[float]:
        """Tokens of all answers, by the time from first request to last token, by the GPUs behind it."""
        replies = self._replies
        if isinstance(replies, Unread):
            return replies
        gpus = self.gpus
        if isinstance(gpus, Unread):
            return gpus
        begin = min(reply.begin_s for reply in replies.value)
        took = max(reply.begin_s + reply.last_s for reply in replies.value) - begin
        tokens = sum(reply.tokens for reply in replies.value)
        if not took > 0 or not gpus.value:
            return Unread(
                "failed", f"{tokens} tokens in {took:g} s on {gpus.value} GPUs are no rate", replies.evidence
            )
        note = f"{tokens} tokens in {took:.1f} s on {gpus.value} GPUs"
        return Read(tokens / took / gpus.value, replies.evidence, note)

    def _percentile(self, of: Callable[[Reply], float], percent: int) -> Fact[float]:
        """Give the nearest rank, over answers that came to their end; of none there is no figure."""
        replies = self._replies
        if isinstance(replies, Unread):
            return replies
        values = sorted(value for reply in replies.value if not math.isnan(value := of(reply)))
        if not values:
            return Unread("failed", "no answer was long enough for it", replies.evidence)
        rank = max(1, math.ceil(percent / 100 * len(values)))
        note = f"of {len(values)} answers, median {statistics.median(values):.3g}"
        return Read(values[rank - 1], replies.evidence, note)

    @property
    def _replies(self) -> Fact[tuple[Reply, ...]]:
        told = self.told
        if isinstance(told, Unread):
            return told
        found = tuple(reply for one in told.value for reply in one.replies)
        if not found:
            why = next((one.trouble for one in told.value if one.trouble), "no request was made")
            return Unread("failed", f"no request was answered to its end; the first: {why}", told.evidence)
        return Read(found, told.evidence)


def held(told: Record) -> Fact[Held]:
    """Read one dialogue as it was recorded."""
    turns, listed = told.count("turns"), told.listed("answers")
    if isinstance(turns, Unread):
        return turns
    if isinstance(listed, Unread):
        return listed
    replies, truncated, trouble = [], 0, ""
    for answer in listed.value:
        read = _reply(answer)
        if isinstance(read, Reply):
            replies.append(read)
            continue
        truncated += read == _TRUNCATED
        trouble = trouble or read
    if not turns.value or len(replies) > turns.value:
        return told.garbled("turns", turns.value, "as many turns as there are answers, or more")
    return Read(Held(turns.value, tuple(replies), truncated, trouble), told.evidence)


_TRUNCATED = "its stream ended before its end"


def _reply(answer: Record) -> Reply | str:
    """Read one answer that came to its end; in words what became of any other."""
    error, done, finish = answer.look("error"), answer.flag("done"), answer.look("finish")
    if isinstance(error, Read) and isinstance(error.value, str) and error.value:
        return brief(error.value)
    if isinstance(done, Unread) or isinstance(finish, Unread):
        return "what was recorded of it cannot be read"
    if not done.value or not finish.value:
        return _TRUNCATED
    begin, first, last = (_seconds(answer, name) for name in ("begin_s", "first_s", "last_s"))
    tokens = answer.count("tokens")
    counted = tokens if isinstance(tokens, Read) else answer.count("pieces")
    if isinstance(counted, Unread) or not counted.value or None in (begin, first, last):
        return "it was answered with nothing"
    return Reply(begin or 0.0, first or 0.0, last or 0.0, counted.value)


def _seconds(answer: Record, name: str) -> float | None:
    fact = answer.look(name)
    if isinstance(fact, Unread) or type(fact.value) not in (int, float):
        return None
    return float(fact.value) if 0 <= fact.value < math.inf else None
