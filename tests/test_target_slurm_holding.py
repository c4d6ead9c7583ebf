"""Only one run at a time breaks something in a Slurm cluster; one that is just ending is waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from gpuassay.evidence.item import Item
from gpuassay.target import TargetError, slurm_holding
from gpuassay.target.slurm_holding import refuse_another

if TYPE_CHECKING:
    from gpuassay.target.slurm_client import Client


class Queue:
    """Stands in for squeue: one answer after the other, the last one for good."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.status = "ok"

    def run(self, *_argv: str) -> Item:
        """Give the next answer."""
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return Item("squeue", 0, status=self.status, why="it hangs", out=answer.encode())  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_holding, "_TICK_S", 0.001)
    monkeypatch.setattr(slurm_holding, "_PATIENCE_S", 0.2)


def ask(queue: Queue) -> None:
    """Ask whether one may go on."""
    refuse_another(cast("Client", queue))


def test_jobs_of_others_are_nothing_to_us() -> None:
    """An empty queue, and one with jobs that hold nothing for a fault, let one go on."""
    ask(Queue(""))
    ask(Queue("7 ann n1 R train my model\n8 ann  PD gpuassay-1f2e3d4c\n"))


def test_another_that_holds_is_named_at_once() -> None:
    """Also beside one that is ending, and where it waits for its node."""
    with pytest.raises(TargetError, match=r"job 9 ann n1 R gpuassay-break-aa is one"):
        ask(Queue("9 ann n1 R gpuassay-break-aa\n", ""))
    with pytest.raises(TargetError, match="only one fault at a time"):
        ask(Queue("9 ann n1 CG gpuassay-break-aa\n10 ann  PD gpuassay-break-bb\n", ""))


def test_one_that_is_ending_is_waited_for_but_not_for_ever() -> None:
    """Slurm clears up after the node before: gone on the third look. One that stays so is named."""
    ending = "9 ann n1 CG gpuassay-break-aa\n"
    ask(Queue(ending, ending, ""))
    with pytest.raises(TargetError, match="CG gpuassay-break-aa"):
        ask(Queue(ending))


def test_a_queue_that_does_not_answer_lets_nobody_go_on() -> None:
    """What is not known is no reason to break something."""
    queue = Queue("")
    queue.status = "timed_out"
    with pytest.raises(TargetError, match="it hangs"):
        ask(queue)
