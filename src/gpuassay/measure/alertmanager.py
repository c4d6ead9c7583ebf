"""What Alertmanager says: which receivers it has, and by what means each of them is told."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING

from gpuassay.facts.alertmanager import Alertmanager
from gpuassay.measure.http import Question, ask, door

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.evidence.item import Item
    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.judge.fact import Scalar
    from gpuassay.judge.services import Services

_STATUS = "/api/v2/status"
_NAME = re.compile(r"- name: (?P<name>.*)")
_MEANS = re.compile(r"  (?P<means>\w+)_configs:")


class AlertmanagerSurvey:
    """The HTTP API of Alertmanager, version 2; what is asked only reads."""

    method = 1

    def ask(
        self, services: Services, _nodes: Sequence[str], args: Mapping[str, Scalar], deadline_s: float
    ) -> Iterator[Item]:
        """Ask for its status, with the token and without."""
        until = time.monotonic() + deadline_s
        where = door(services, "alertmanager")
        if where is None:
            return
        base, token = where
        questions = [
            Question("anonymous", base + _STATUS, keep=receivers),
            Question("receivers", base + _STATUS, token, keep=receivers),
        ]
        yield from ask(questions, float(args["seconds"]), until)

    def read(self, _args: Mapping[str, Scalar], evidence: NodeEvidence) -> list[Alertmanager]:
        """Read the answers into one subject."""
        return [Alertmanager(evidence)]


def receivers(out: bytes) -> bytes:
    """Keep of the configuration the names of the receivers, each with its means; the rest holds addresses.

    Alertmanager writes the configuration out itself, so its form is always the same.
    """
    try:
        text = json.loads(out)["config"]["original"]
        section = re.split(r"(?m)^receivers:\n", text)[1]
    except (ValueError, LookupError, TypeError, RecursionError):
        return b""
    found: dict[str, list[str]] = {}
    means: list[str] = []
    for line in section.splitlines():
        if name := _NAME.fullmatch(line):
            means = found.setdefault(name["name"].strip("\"'"), [])
        elif not line.startswith(" "):
            break
        elif way := _MEANS.fullmatch(line):
            means.append(way["means"])
    return json.dumps({"receivers": found}).encode()
