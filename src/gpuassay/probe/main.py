"""The probe's own run: ask all questions, send each answer as soon as it is known."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING, Any

from gpuassay.probe import commands, nvml, storage
from gpuassay.probe.answer import Answer, kind_of, words_of
from gpuassay.probe.children import CALLER, Stop
from gpuassay.probe.frames import frame
from gpuassay.probe.items import QUESTIONS
from gpuassay.probe.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpuassay.probe.items import Question


def main() -> int:
    """Gather and send; 1 if nobody waited for the end."""
    return send_all(gather(QUESTIONS))


def send_all(items: Iterable[dict[str, Any]]) -> int:
    """Send each item as it comes, and how many they were; 1 if nobody waited for the end."""
    os.umask(0o077)
    os.chdir("/")  # hold no file system that somebody wants to unmount
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is left ignored, no child can be waited for
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, CALLER.hang_up)
    sent = 0
    try:
        for item in items:
            _write(frame({"item": item}))
            sent += 1
        _write(frame({"end": {"items": sent}}))
    except (Stop, BrokenPipeError):
        return 1
    return 0


def gather(questions: Iterable[Question]) -> Iterator[dict[str, Any]]:
    """Give one item for each question that applies, in the form of a recording's line. Raises Stop."""
    answers: dict[str, dict[str, Any]] = {}
    with Reader() as reader:
        for question in questions:
            if question.unless and answered(question.unless, answers):
                continue
            begin = time.monotonic()
            answer = answers[question.id] = _ask(question, reader)
            yield {
                "id": question.id,
                "seq": len(answers),
                "asked": question.asked,
                "seconds": round(time.monotonic() - begin, 3),
                **answer,
            }


def answered(unless: str, answers: dict[str, dict[str, Any]]) -> bool:
    """Tell whether one of some items is ok and, if names follow them, lists one of the names."""
    items, *names = unless.split()
    came = [answers[item] for item in items.split("/") if answers.get(item, {}).get("status") == "ok"]
    return any(not names or not _listed(answer).isdisjoint(names) for answer in came)


def _listed(answer: dict[str, Any]) -> set[str]:
    """Give the names in a document, or at the beginnings of lines."""
    out = str(answer.get("out", ""))
    return (
        set(json.loads(out)) if out.startswith("{") else {line.partition(" ")[0] for line in out.splitlines()}
    )


def _ask(question: Question, reader: Reader) -> dict[str, Any]:
    try:
        if question.how == "command":
            return commands.run(question).parts()
        if question.id == "nvml":
            return nvml.ask(question).parts()
        if question.id == "storage":
            return storage.ask(question).parts()
        return reader.ask(question)
    except OSError as error:  # no process could be started: what a node in trouble may answer
        return Answer(status=kind_of(error), why=words_of(error)).parts()


def _write(line: bytes) -> None:
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(CALLER.stdout, rest) :]
