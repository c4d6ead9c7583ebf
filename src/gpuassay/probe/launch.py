"""The launcher: starts the ranks of a job on one node, and sends what each printed as soon as it has ended.

It travels as the probe does. When nobody reads it any more, or it is told to stop, it ends all ranks with
whatever they started, also what has left their process groups, and then itself.
"""

from __future__ import annotations

import base64
import ctypes
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from gpuassay.probe import commands, nccl
from gpuassay.probe.answer import Answer, kind_of, words_of
from gpuassay.probe.children import KILL_GRACE_S, Child, attend, end
from gpuassay.probe.items import Question
from gpuassay.probe.main import send_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DEVICES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
"""The names by which a scheduler tells a job its GPUs: ranks are passed on what the launcher was told."""

MODULES = "PYTHONPATH"
"""The name by which an environment module of the site brings torch and its like to a Python."""

PYTHON = "{python}"
"""In the command of a job: the Python that runs the launcher, which is the one that the site names."""

HEARD = "heard"
"""How the items begin that hold lines of a rank that still runs; its number follows."""

_CLEANING_S = 10.0  # for what ranks leave behind to end by itself: some of it removes files
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


class Rank(NamedTuple):
    """One process of the job: its number on this node, what it was asked, and the process."""

    local: int
    question: Question
    child: Child


def main(job: dict[str, Any]) -> int:
    """Run this node's part of a job; 1 if nobody waited for the end.

    ``job`` has ``argv``, ``ranks``, ``environment``, ``deadline_s``, ``grace_s``, ``cap`` (of the output, in
    bytes), ``feed`` (for the standard input of each, in Base64), ``leaves``, and ``heard``: whether each line
    is sent as soon as a rank has printed it, beside the item at its end. And the node's place in it:
    ``group_rank``, ``world_size``, ``master_addr`` and ``master_port``.
    """
    if not job["leaves"]:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)  # what a rank leaves behind becomes ours to end
    return send_all(run(job))


def run(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Give one item a rank, in the order in which they end. Raises Stop."""
    begin = time.monotonic()
    ranks: list[Rank] = []
    try:
        for local in range(job["ranks"]):
            question = _question(job, local)
            try:
                child = commands.start(question, environment(job, local), base64.b64decode(job["feed"]))
                ranks.append(Rank(local, question, child))
            except OSError as error:  # no process can be started
                yield _item(question, local, Answer(status=kind_of(error), why=words_of(error)), begin)
        heard = _Heard() if job["heard"] else None
        while ranks:
            over, in_time = _first(ranks, begin + job["deadline_s"], heard)
            for local, question, lines in heard.take(ranks) if heard else ():
                yield {**_item(question, local, Answer(out=lines), begin), "id": f"{HEARD}{local}"}
            end([rank.child for rank in over], job["grace_s"])
            ranks = [rank for rank in ranks if rank not in over]
            for local, question, child in over:
                yield _item(question, local, commands.answer(question, child, in_time), begin)
    finally:
        end([rank.child for rank in ranks], job["grace_s"])
        if not job["leaves"]:
            _end_orphans()


def _question(job: Mapping[str, Any], local: int) -> Question:
    argv = tuple(sys.executable if word == PYTHON else word for word in job["argv"])
    deadline_s, cap = job["deadline_s"], job["cap"]
    return Question(f"rank{local}", "command", argv, "", deadline_s=deadline_s, cap=cap)


class _Heard:
    """What ranks have printed and was not sent on yet."""

    def __init__(self) -> None:
        self._sent: dict[int, int] = {}

    def new(self, rank: Rank) -> bool:
        """Tell whether a whole line has come since."""
        return rank.child.out.data.find(b"\n", self._sent.get(rank.local, 0)) >= 0

    def take(self, ranks: list[Rank]) -> Iterator[tuple[int, Question, bytes]]:
        """Give the whole lines of each that have come since."""
        for local, question, child in ranks:
            begin = self._sent.get(local, 0)
            end_of_last = child.out.data.rfind(b"\n") + 1
            if end_of_last > begin:
                self._sent[local] = end_of_last
                yield local, question, bytes(child.out.data[begin:end_of_last])


def _first(ranks: list[Rank], until: float, heard: Optional[_Heard] = None) -> tuple[list[Rank], bool]:
    """Wait until some have ended, or said a line that is heard, and give those that have ended.

    Or all at ``until``, and False. Raises Stop.
    """

    def enough() -> bool:
        return any(_exited(rank) or (heard is not None and heard.new(rank)) for rank in ranks)

    in_time = attend([rank.child for rank in ranks], enough, until)
    return [rank for rank in ranks if not in_time or _exited(rank)], in_time


def environment(job: Mapping[str, Any], local: int) -> dict[str, str]:
    """Give a rank what commands get, what the scheduler and the site set for jobs, and its place."""
    return {
        **commands.environment(os.environ),
        **nccl.settings(os.environ),
        **devices(os.environ),
        **({MODULES: os.environ[MODULES]} if MODULES in os.environ else {}),
        **job["environment"],
        "RANK": str(job["group_rank"] * job["ranks"] + local),
        "LOCAL_RANK": str(local),
        "WORLD_SIZE": str(job["world_size"]),
        "LOCAL_WORLD_SIZE": str(job["ranks"]),
        "GROUP_RANK": str(job["group_rank"]),
        "MASTER_ADDR": job["master_addr"],
        "MASTER_PORT": str(job["master_port"]),
    }


def devices(given: Mapping[str, str]) -> dict[str, str]:
    """Choose from an environment what says which GPUs a job has."""
    return {name: given[name] for name in DEVICES if name in given}


def _exited(rank: Rank) -> bool:
    return rank.child.exited()


def _item(question: Question, local: int, said: Answer, begin: float) -> dict[str, Any]:
    return {
        "id": question.id,
        "seq": local + 1,
        "asked": question.asked,
        "seconds": round(time.monotonic() - begin, 3),
        **said.parts(),
    }


def _end_orphans() -> None:
    """End what ranks started in sessions of its own, generation by generation.

    Told first, so that what cleans up behind a rank that was killed can do so.
    """
    begin = time.monotonic()
    while (since := time.monotonic() - begin) < _CLEANING_S + KILL_GRACE_S:
        for pid in _children():
            os.kill(pid, signal.SIGTERM if since < _CLEANING_S else signal.SIGKILL)
        try:
            gone, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not gone:
            time.sleep(0.005)  # they are dying; one that cannot is left behind


def _children() -> list[int]:
    """List our children, also those that became ours because their parents ended."""
    me = os.getpid()
    with open(f"/proc/{me}/task/{me}/children", encoding="ascii") as file:  # noqa: PTH123 - pathlib is slow
        return [int(pid) for pid in file.read().split()]
