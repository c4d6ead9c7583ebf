"""What the exporters of each node serve, asked from where the suite runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gpuassay.facts.exporters import Exporters
from gpuassay.measure.http import Question, ask

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.evidence.item import Item
    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.judge.fact import Scalar
    from gpuassay.judge.services import Services


class ExportersSurvey:
    """The pages that are declared as ``exporters``, of every node; no token goes to a node."""

    method = 1

    def ask(
        self, services: Services, nodes: Sequence[str], args: Mapping[str, Scalar], deadline_s: float
    ) -> Iterator[Item]:
        """Ask each node for each page; ids are ``NODE:PORT/PATH``."""
        until = time.monotonic() + deadline_s
        pages = services.monitoring.exporters if services.monitoring else ()
        questions = [Question(f"{node}{page}", f"http://{node}{page}") for node in nodes for page in pages]
        yield from ask(questions, float(args["seconds"]), until)

    def read(self, _args: Mapping[str, Scalar], evidence: NodeEvidence) -> list[Exporters]:
        """Read the pages of all nodes."""
        return [Exporters(evidence)]
