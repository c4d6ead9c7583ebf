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
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuassay.probe import commands, nccl
from gpuassay.probe.answer import Answer, kind_of, words_of
from gpuassay.probe.children import KILL_GRACE_S, Child, attend, end
from gpuassay.probe.items import Question
from gpuassay.probe.main import send_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DEVICES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
"""The names by which a scheduler tells a job its GPUs: ranks are passed on what the launcher was told."""

PYTHON = "{python}"
"""In the command of a job: the Python that runs the launcher, which is the one that the site names."""

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


class Rank(NamedTuple):
    """One process of the job: its number on this node, what it was asked, and the process."""

    local: int
    question: Question
    child: Child


def main(job: dict[str, Any]) -> int:
    """Run this node's part of a job; 1 if nobody waited for the end.

    ``job`` has ``argv``, ``ranks``, ``environment``, ``deadline_s``, ``cap`` (of the output, in bytes) and
    ``feed`` (for the standard input of each, in Base64); and the node's place in it: ``group_rank``,
    ``world_size``, ``master_addr`` and ``master_port``.
    """
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
        while ranks:
            over, in_time = _first(ranks, begin + job["deadline_s"])
            end([rank.child for rank in over])
            ranks = [rank for rank in ranks if rank not in over]
            for local, question, child in over:
                yield _item(question, local, commands.answer(question, child, in_time), begin)
    finally:
        end([rank.child for rank in ranks])
        _end_orphans()


def _question(job: Mapping[str, Any], local: int) -> Question:
    argv = tuple(sys.executable if word == PYTHON else word for word in job["argv"])
    deadline_s, cap = job["deadline_s"], job["cap"]
    return Question(f"rank{local}", "command", argv, "", deadline_s=deadline_s, cap=cap)


def _first(ranks: list[Rank], until: float) -> tuple[list[Rank], bool]:
    """Wait until some have ended and give those; or all at ``until``, and False. Raises Stop."""
    in_time = attend([rank.child for rank in ranks], lambda: any(map(_exited, ranks)), until)
    return [rank for rank in ranks if not in_time or _exited(rank)], in_time


def environment(job: Mapping[str, Any], local: int) -> dict[str, str]:
    """Give a rank what commands get, what the scheduler and the site set for jobs, and its place."""
    return {
        **commands.environment(os.environ),
        **nccl.settings(os.environ),
        **devices(os.environ),
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
    """Kill what ranks started in sessions of its own, generation by generation."""
    until = time.monotonic() + KILL_GRACE_S
    while time.monotonic() < until:
        for pid in _children():
            os.kill(pid, signal.SIGKILL)
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
