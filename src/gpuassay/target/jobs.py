"""A job on many nodes at once: one launcher a node, and one result a rank, also of those that gave none."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.evidence.lines import load_items
from gpuassay.facts.text import brief
from gpuassay.probe import travel
from gpuassay.probe.children import KILL_GRACE_S
from gpuassay.probe.frames import Frames
from gpuassay.probe.items import MIB
from gpuassay.probe.launch import HEARD
from gpuassay.target.channel import Ending

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from gpuassay.target import Job, Progress, Results
    from gpuassay.target.channel import Channel

IMAGE = "GPUASSAY_IMAGE"
"""The name by which a rank is told the image that it runs in; ``measure.work.main`` reads it."""

_KEPT_BYTES = 16 * MIB  # of what a rank prints: with eight of them a node stays within what it may send
_START_S = 60.0  # a busy node may take long to start a launcher, and ssh or srun before it
_BEHIND_S = 45.0  # ranks that work in step end together, but for what a hang takes to be noticed by all
_FIRST_PORT, _PORTS = 20_000, 10_000  # below the ports that Linux gives out by itself, which begin at 32768


def run_job(channels: Sequence[Channel], job: Job, progress: Progress, master: str = "") -> Results:
    """Run a job through one channel for each of its nodes, all at once.

    ``master`` is how the other nodes call the first one, by default its name. An exception, Ctrl-C too,
    ends all ranks everywhere.
    """
    return asyncio.run(_run(channels, job, progress, master or job.nodes[0]))


def in_image(job: Job, image: str) -> Job:
    """Tell the ranks of a job in which image they run, so that it stands beside their figures."""
    return replace(job, environment={**job.environment, IMAGE: image}) if image else job


async def _run(channels: Sequence[Channel], job: Job, progress: Progress, master: str) -> Results:
    patience_s = job.deadline_s + _START_S + job.grace_s + KILL_GRACE_S
    place = {"master_addr": master, "master_port": _FIRST_PORT + secrets.randbelow(_PORTS)}

    first_over = asyncio.Event()

    async def run(number: int, channel: Channel) -> dict[int, Item]:
        answers = _Answers(channel.node, job, progress)
        feed = travel.pack("launch", {**_part(job, number), **place})
        talk = channel.talk(feed, patience_s, answers.take)
        ending = await (_unless_left_behind(talk, first_over) if job.heard else talk)
        first_over.set()
        return answers.close(ending)

    parts = await asyncio.gather(*(run(number, channel) for number, channel in enumerate(channels)))
    return {
        (channel.node, local): item
        for channel, part in zip(channels, parts, strict=True)
        for local, item in part.items()
    }


async def _unless_left_behind(talk: Coroutine[Any, Any, Ending], first_over: asyncio.Event) -> Ending:
    """Talk, but not for long once another node is over: these work in step, so what still lasts is lost."""

    async def left_behind() -> None:
        await first_over.wait()
        await asyncio.sleep(_BEHIND_S)

    talking, waiting = asyncio.create_task(talk), asyncio.create_task(left_behind())
    try:
        await asyncio.wait({talking, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if talking.done():
            return talking.result()
        return Ending("timed_out", f"was not over {_BEHIND_S:g} s after that of another node")
    finally:
        for task in (talking, waiting):
            task.cancel()
        await asyncio.wait({talking, waiting})


def _part(job: Job, number: int) -> Mapping[str, Any]:
    """Say what one node has to do."""
    return {
        "argv": job.argv,
        "ranks": job.ranks,
        "environment": dict(job.environment),
        "feed": base64.b64encode(job.feed).decode(),
        "deadline_s": job.deadline_s,
        "grace_s": job.grace_s,
        "cap": _KEPT_BYTES,
        "leaves": job.leaves,
        "heard": job.heard or job.hear is not None,
        "group_rank": number,
        "world_size": job.ranks * len(job.nodes),
    }


class _Answers:
    """What the launcher of one node has sent."""

    def __init__(self, node: str, job: Job, progress: Progress) -> None:
        self._node = node
        self._job = job
        self._progress = progress
        self._frames = Frames()
        self._problems: list[str] = []
        self._items: dict[int, Item] = {}
        self._heard: dict[int, bytes] = {}

    def take(self, data: bytes) -> bool:
        """Take what came; true when there is no more to wait for."""
        for answer in self._frames.feed(data):
            self._take(answer)
        return self._frames.ended

    def close(self, ending: Ending) -> dict[int, Item]:
        """Give what came of each rank; one that gave nothing has failed, with the reason."""
        reasons = [*self._frames.problems, *self._problems]
        if not self._frames.ended:
            reasons.insert(0, f"the launcher {ending.why}")
        why = "; ".join(reasons)
        status = "failed" if self._frames.ended else ending.status
        for local in range(self._job.ranks):
            if local not in self._items:
                asked = {"command": list(self._job.argv)}
                out = self._heard.get(local, b"")
                lost = Item(f"rank{local}", local + 1, status, asked, out=out, err=ending.last_words, why=why)
                self._items[local] = lost
        self._progress.ended(self._node, why)
        return {local: self._items[local] for local in range(self._job.ranks)}

    def _take(self, answer: dict[str, Any]) -> None:
        stored, problems = load_items(json.dumps(answer).encode(), self._node)
        self._problems += problems
        for one in stored:
            local = one.item.seq - 1
            if one.item.id == f"{HEARD}{local}" and local in range(self._job.ranks):
                self._heard[local] = self._heard.get(local, b"") + one.item.out
                self._progress.answered(self._node, f"rank {local}: {_words(one.item.out)}")
                if self._job.hear:
                    self._job.hear(self._node, local, one.item.out)
            if one.item.id == f"rank{local}" and local in range(self._job.ranks):
                self._items[local] = one.item
                self._progress.answered(self._node, f"{len(self._items)} of {self._job.ranks} ranks ended")


def _words(lines: bytes) -> str:
    """Say what the last of some lines says, if it is a document that has words."""
    try:
        document = json.loads(lines.splitlines()[-1])
    except (ValueError, RecursionError):
        return "it works"
    words = document.get("words") if isinstance(document, dict) else None
    return brief(words) if isinstance(words, str) else "it works"
