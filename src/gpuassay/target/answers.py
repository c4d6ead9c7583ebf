"""The probe on many nodes at once: each answer is written down as it comes, and so is what never came."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.evidence.lines import load_items
from gpuassay.probe import travel
from gpuassay.probe.frames import Frames
from gpuassay.probe.items import QUESTIONS
from gpuassay.target import DEADLINE_S

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuassay.evidence.item import Status
    from gpuassay.target import Progress, Writer
    from gpuassay.target.channel import Channel, Ending

WIDTH = 64
"""How many nodes are asked at once: what one machine can start and a scheduler likes to be asked."""

STOPPED = "stopped"
"""The item that says that whoever asked has stopped, and why."""

_MOST_ITEMS = 10 * len(QUESTIONS)


def ask_nodes(
    channels: Iterable[Channel], writer: Writer, progress: Progress, deadline_s: float = DEADLINE_S
) -> None:
    """Send the probe down every channel, ``WIDTH`` at a time, and write down what comes of it.

    ``deadline_s`` bounds each node, in seconds. An exception, Ctrl-C too, ends the probe everywhere.
    Raises what ``writer`` raises.
    """
    asyncio.run(ask_all(channels, writer, progress, deadline_s))


async def ask_all(channels: Iterable[Channel], writer: Writer, progress: Progress, deadline_s: float) -> None:
    """Do what ``ask_nodes`` does, in the loop of who has one."""
    feed, places = travel.pack(), asyncio.Semaphore(WIDTH)

    async def ask(channel: Channel) -> None:
        answers = Answers(channel.node, writer, progress)
        async with places:
            left_s = progress.left_s()
            if left_s > 0:
                ending = await channel.talk(feed, min(deadline_s, left_s), answers.take)
        if left_s <= 0 or (ending.status == "timed_out" and progress.left_s() <= 0):
            answers.stop("the budget was used up before this node had answered")
        else:
            answers.close(ending)

    await asyncio.gather(*map(ask, channels))


def planned(deadline_s: float) -> str:
    """Say in a plan what the probe costs a node."""
    kib = -(-len(travel.pack()) // 1024)
    return f"at most {deadline_s:g} s, {kib} KiB sent to each; it reads only, and writes nothing there"


class Answers:
    """What the probe of one node has sent, written down as it comes."""

    def __init__(self, node: str, writer: Writer, progress: Progress) -> None:
        self._node = node
        self._writer = writer
        self._progress = progress
        self._frames = Frames()
        self._problems: list[str] = []
        self._status: dict[str, Status] = {}
        self._seq = 0
        self._came = 0

    def take(self, data: bytes) -> bool:
        """Take what came; true when there is no more to wait for."""
        for answer in self._frames.feed(data):
            self._came += 1
            if self._came <= _MOST_ITEMS:
                self._take(answer)
        return self._frames.ended

    def close(self, ending: Ending) -> None:
        """Write down what did not come, if anything, with the reason."""
        status: Status = ending.status
        reasons = [*self._frames.problems, *self._problems]
        if self._frames.ended:
            status = "failed"
        else:
            reasons.insert(0, f"the probe {ending.why}")
        why = "; ".join(reasons)
        if why:
            told = Item("probe", self._seq + 1, status, {"library": "probe"}, err=ending.last_words, why=why)
            self._add(told)
            for question in QUESTIONS:
                if question.id not in self._status and self._status.get(question.unless) != "ok":
                    self._add(Item(question.id, self._seq + 1, status, question.asked, why=why))
        self._progress.ended(self._node, why)

    def stop(self, why: str) -> None:
        """Write down that no more was asked, and why; what did not come is then no fault of the node."""
        self._add(Item(STOPPED, self._seq + 1, "ok", {"library": "probe"}, why=why))
        self._progress.ended(self._node, why)

    def _take(self, answer: dict[str, Any]) -> None:
        stored, problems = load_items(json.dumps(answer).encode(), self._node)
        self._problems += problems
        for one in stored:
            self._add(one.item)
            self._progress.answered(self._node, f"{one.item.id} ({len(self._status)} of {len(QUESTIONS)})")

    def _add(self, item: Item) -> None:
        self._status[item.id] = item.status
        self._seq = max(self._seq, item.seq)
        self._writer.add(self._node, item)
