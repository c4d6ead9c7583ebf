"""A job on many nodes at once: one launcher a node, and one result a rank, also of those that gave none."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.evidence.lines import load_items
from gpuassay.probe import travel
from gpuassay.probe.children import KILL_GRACE_S, TERM_GRACE_S
from gpuassay.probe.frames import Frames
from gpuassay.probe.items import MIB

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.target import Job, Progress, Results
    from gpuassay.target.channel import Channel, Ending

_KEPT_BYTES = 16 * MIB  # of what a rank prints: with eight of them a node stays within what it may send
_START_S = 60.0  # a busy node may take long to start a launcher, and ssh or srun before it
_FIRST_PORT, _PORTS = 20_000, 10_000  # below the ports that Linux gives out by itself, which begin at 32768


def run_job(channels: Sequence[Channel], job: Job, progress: Progress, master: str = "") -> Results:
    """Run a job through one channel for each of its nodes, all at once.

    ``master`` is how the other nodes call the first one, by default its name. An exception, Ctrl-C too,
    ends all ranks everywhere.
    """
    return asyncio.run(_run(channels, job, progress, master or job.nodes[0]))


async def _run(channels: Sequence[Channel], job: Job, progress: Progress, master: str) -> Results:
    patience_s = job.deadline_s + _START_S + TERM_GRACE_S + KILL_GRACE_S
    place = {"master_addr": master, "master_port": _FIRST_PORT + secrets.randbelow(_PORTS)}

    async def run(number: int, channel: Channel) -> dict[int, Item]:
        answers = _Answers(channel.node, job, progress)
        feed = travel.pack("launch", {**_part(job, number), **place})
        return answers.close(await channel.talk(feed, patience_s, answers.take))

    parts = await asyncio.gather(*(run(number, channel) for number, channel in enumerate(channels)))
    return {
        (channel.node, local): item
        for channel, part in zip(channels, parts, strict=True)
        for local, item in part.items()
    }


def _part(job: Job, number: int) -> Mapping[str, Any]:
    """Say what one node has to do."""
    return {
        "argv": job.argv,
        "ranks": job.ranks,
        "environment": dict(job.environment),
        "feed": base64.b64encode(job.feed).decode(),
        "deadline_s": job.deadline_s,
        "cap": _KEPT_BYTES,
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
                lost = Item(f"rank{local}", local + 1, status, asked, err=ending.last_words, why=why)
                self._items[local] = lost
        self._progress.ended(self._node, why)
        return {local: self._items[local] for local in range(self._job.ranks)}

    def _take(self, answer: dict[str, Any]) -> None:
        stored, problems = load_items(json.dumps(answer).encode(), self._node)
        self._problems += problems
        for one in stored:
            local = one.item.seq - 1
            if one.item.id == f"rank{local}" and local in range(self._job.ranks):
                self._items[local] = one.item
                self._progress.answered(self._node, f"{len(self._items)} of {self._job.ranks} ranks ended")
