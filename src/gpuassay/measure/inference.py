"""The survey of an inference endpoint: what agents that talk to it have to wait for, and what goes wrong."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.facts.record import Record
from gpuassay.judge.fact import Read, Unread
from gpuassay.measure.chat import Door, talk
from gpuassay.measure.talked import Held, Talked, held
from gpuassay.measure.work.dialogues import dialogues

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.judge.fact import Fact, Scalar
    from gpuassay.judge.services import Inference, Services


class InferenceSurvey:
    """Dialogues of agents with the endpoint of ``[inference]``."""

    method = 1

    def ask(
        self,
        services: Services,
        nodes: Sequence[str],  # noqa: ARG002 - an endpoint is the whole cluster's
        args: Mapping[str, Scalar],
        deadline_s: float,
    ) -> Iterator[Item]:
        """Hold the dialogues, after a first turn of each that goes on at once, which does not count."""
        declared, until = services.inference, time.monotonic() + deadline_s
        if declared is None:
            return
        if lack := _lack(declared):
            yield Item("endpoint", 0, status="denied", why=lack)
            return
        door = Door(declared.url, declared.model, os.environ.get(declared.token_env, ""))
        script, at_once, each_s = dialogues(args), int(args["at_once"]), float(args["seconds"])
        warming = [replace(one, turns=one.turns[:1]) for one in script[:at_once]] if args["warm"] else []
        talk(door, warming, at_once, each_s, until)
        talks = talk(door, script, at_once, each_s, until)
        yield Item("endpoint", 0, out=_encoded({"model": declared.model, "gpus": declared.gpus}))
        for number, (dialogue, answers) in enumerate(zip(script, talks, strict=True)):
            told = {"turns": len(dialogue.turns), "answers": [answer.document() for answer in answers]}
            yield Item(f"dialogue/{number}", 0, out=_encoded(told))

    def read(self, args: Mapping[str, Scalar], evidence: NodeEvidence) -> Sequence[Endpoint]:
        """Read the one endpoint; nothing was asked where none is declared."""
        return [Endpoint(evidence, int(args["dialogues"]))] if evidence.answered else []


def _lack(declared: Inference) -> str:
    name = declared.token_env
    if name and name not in os.environ:
        return f"the environment variable {name} is not set where the suite runs ([inference] token_env)"
    return ""


def _encoded(told: Mapping[str, Any]) -> bytes:
    return json.dumps(told).encode()


@dataclass(frozen=True)
class Endpoint(Talked):
    """What was told of all dialogues."""

    evidence: NodeEvidence
    dialogues: int
    where: str = "inference"
    node: str = ""
    models: tuple[str, ...] = ()

    @cached_property
    def told(self) -> Fact[tuple[Held, ...]]:
        """Read all dialogues: one that is missing or garbled leaves all figures unread."""
        unread = self._record("endpoint").unread
        if unread:
            return unread
        talks = [held(self._record(f"dialogue/{number}")) for number in range(self.dialogues)]
        bad = next((one for one in talks if isinstance(one, Unread)), None)
        if bad or not talks:
            return bad or Unread("failed", "no dialogue was held")
        return Read(tuple(one.value for one in talks if isinstance(one, Read)), talks[0].evidence)

    @property
    def gpus(self) -> Fact[int]:
        """As they were declared."""
        return self._record("endpoint").count("gpus")

    def _record(self, name: str) -> Record:
        item = self.evidence.item(name)
        if item is None:
            return Record(Unread("failed", f"nothing was recorded of its {name}"))
        ref = self.evidence.ref(item)
        if item.status != "ok":
            kind = item.status if item.status in ("denied", "not_found", "timed_out") else "failed"
            return Record(Unread(kind, item.why or "it was not asked", ref), ref)
        try:
            document = json.loads(item.out)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            return Record(Unread("garbled", f"its {name} is no JSON document", ref), ref)
        return Record(document, ref)
