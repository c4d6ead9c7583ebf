"""The ``measure`` of a check: a measurement is read from the recording, and made first if the user consents.

It never gives live values: what was just run is recorded and then read, so a replay judges the same.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.evidence.recording import read_measurement, read_survey
from gpuassay.evidence.sums import write_sums
from gpuassay.evidence.writer import add_measurement
from gpuassay.facts.record import Record
from gpuassay.judge.fact import Unread
from gpuassay.measure import SURVEYS, TOOLS, errand
from gpuassay.measure.ranks import tell
from gpuassay.measure.workloads import WORKLOADS
from gpuassay.target import Job, TargetError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.facts import Node
    from gpuassay.judge.catalog import Measurement
    from gpuassay.judge.site import Site
    from gpuassay.target import Results

    Run = Callable[[Job], Results]
    """Runs a job on the nodes of a live target. Raises TargetError."""


class NotMeasuredError(Exception):
    """A measurement is not there and may not be made, so the check is not run; says what it needs."""


class Measure:
    """The ``measure`` that a check is given; ``run`` is None where only a recording is at hand."""

    def __init__(
        self,
        site: Site,
        nodes: Sequence[Node],
        recording: Path,
        run: Run | None = None,
        allowed: frozenset[str] = frozenset(),
    ) -> None:
        """Take what may be measured, where, and the levels that the user has consented to.

        ``services_then`` are those that were declared when it was recorded; others may be now.
        """
        self._services = self.services_then = site.services
        self._measurements = site.catalog.measurements
        self._nodes = self._asked_of = [node for node in nodes if node.silence is None]
        self._applies = True
        self._recording = recording
        self._run = run
        self._allowed = allowed

    def on(self, names: Collection[str]) -> Measure:
        """Measure on these nodes only: those to which a check applies. Nothing else may be touched for it."""
        narrowed = copy.copy(self)
        narrowed._asked_of = [one for one in self._nodes if one.name in names]  # noqa: SLF001 - a copy of itself
        narrowed._applies = bool(names)  # noqa: SLF001
        return narrowed

    def __call__(self, name: str) -> list[Any]:
        """Give a subject for each node that answered, for each GPU of a workload, or those of a survey.

        Raises NotMeasuredError.
        """
        measurement = self._measurements[name]
        if measurement.workload:
            return self._work(measurement)
        if measurement.tool in SURVEYS:
            return self._survey(measurement) if self._applies else []
        if not self._asked_of:
            return []
        found = self._found(measurement, self._asked_of, self._make)
        tool = TOOLS[measurement.tool]
        read = {
            node: tool.read(node.name, measurement.args, *self._answer(measurement, found[node.name]))
            for node in self._asked_of
        }
        return [_of_product(subject, node) for node, subject in read.items()]

    def _work(self, measurement: Measurement) -> list[Any]:
        """Run a workload on nodes with GPUs (where there is none, at tiny size on all), and read it."""
        nodes = [node for node in self._asked_of if node.gpus]
        if not any(node.gpus for node in self._nodes):
            nodes = list(self._nodes)
        found = self._found(measurement, nodes, self._put_to_work)
        workload = WORKLOADS[measurement.workload]
        asked = workload.asked(measurement.args)
        told = {name: [_told(item, own, asked) for item in own.items] for name, own in found.items()}
        return list(workload.subjects(nodes, measurement.args, told))

    def _put_to_work(self, measurement: Measurement, nodes: Sequence[Node]) -> None:
        """Run a workload with a rank for each GPU: nodes that have as many are one job, all at once."""
        workload = WORKLOADS[measurement.workload]
        by_count: dict[tuple[int, str], list[Node]] = defaultdict(list)
        for node in nodes:
            by_count[max(1, len(node.gpus)), node.pool if workload.together else ""].append(node)
        for (ranks, _), alike in by_count.items():

            def job(idle: Sequence[Node], ranks: int = ranks) -> Job:
                feed = errand.pack(workload.order(measurement.args, idle))
                return Job(measurement.name, errand.ARGV, (), ranks, {}, "", measurement.deadline_s, feed)

            self._run_on(measurement, alike, job, workload.asked(measurement.args))

    def _survey(self, measurement: Measurement) -> list[Any]:
        survey = SURVEYS[measurement.tool]
        asked = {"survey": measurement.tool, "method": survey.method, "args": dict(measurement.args)}
        found = read_survey(self._recording, measurement.name)
        if not found.answered:
            self._consent(measurement)
            try:
                nodes = [node.name for node in self._nodes]
                answers = survey.ask(self._services, nodes, measurement.args, measurement.deadline_s)
                for seq, item in enumerate(answers, 1):
                    told = replace(item, seq=seq, asked={**asked, **item.asked})
                    add_measurement(self._recording, measurement.name, "", told)
            finally:
                write_sums(self._recording)
            found = read_survey(self._recording, measurement.name)
        elif self.services_then.asked_at(measurement.tool) != self._services.asked_at(measurement.tool):
            why = "was asked of another service than this site file declares: measure that one"
            raise NotMeasuredError(f"{measurement.name} {why}")
        if any({**item.asked, **asked} != item.asked for item in found.items):
            raise NotMeasuredError(f"{measurement.name} was made by another method in this recording")
        return list(survey.read(measurement.args, found))

    def _found(
        self,
        measurement: Measurement,
        nodes: Sequence[Node],
        make: Callable[[Measurement, Sequence[Node]], None],
    ) -> Mapping[str, NodeEvidence]:
        """Read what there is of these nodes, once what is missing has been made."""
        names = [node.name for node in nodes]
        found = read_measurement(self._recording, measurement.name, names)
        missing = [node for node in nodes if not found[node.name].answered]
        if missing and (self._run is not None or len(missing) == len(nodes)):
            make(measurement, missing)
            found = read_measurement(self._recording, measurement.name, names)
        return found

    def _answer(self, measurement: Measurement, evidence: NodeEvidence) -> tuple[Item | Unread, str]:
        item = evidence.item(measurement.name)
        if item is None:
            return Unread("failed", f"{measurement.name} gave no result on this node"), ""
        ref = evidence.ref(item)
        if item.asked != _asked(measurement):
            return Unread("not_asked", f"{measurement.name} was made by another method", ref), ref
        return item, ref

    def _make(self, measurement: Measurement, nodes: Sequence[Node]) -> None:
        argv = TOOLS[measurement.tool].argv(measurement.args)
        job = Job(measurement.name, argv, (), deadline_s=measurement.deadline_s)
        self._run_on(measurement, nodes, lambda _idle: job, _asked(measurement))

    def _run_on(
        self,
        measurement: Measurement,
        nodes: Sequence[Node],
        job: Callable[[Sequence[Node]], Job],
        asked: Mapping[str, Any],
    ) -> None:
        """Run a job on the nodes that may be loaded, and keep what came of it, or why it did not run."""
        run = self._consent(measurement)
        busy = {node.name: node.busy for node in nodes if node.busy and measurement.level == "load"}
        idle = [node for node in nodes if node.name not in busy]
        results = {(name, 0): _refused(why) for name, why in busy.items()}
        try:
            if idle:
                results |= run(replace(job(idle), nodes=tuple(node.name for node in idle)))
            record(self._recording, measurement.name, asked, results)
        except TargetError as error:
            raise NotMeasuredError(f"{measurement.name}: {error}") from error
        finally:
            write_sums(self._recording)

    def _consent(self, measurement: Measurement) -> Run:
        if self._run is None:
            raise NotMeasuredError(f"{measurement.name} is not in this recording")
        if measurement.level not in self._allowed:
            raise NotMeasuredError(f"needs --allow={measurement.level}")
        return self._run


def record(recording: Path, name: str, asked: Mapping[str, Any], results: Results) -> None:
    """Keep what came of each rank: item ``NAME`` of its node, or ``NAME/RANK`` where nodes have several."""
    several = any(local for _, local in results)
    for (node, local), item in sorted(results.items()):
        named = replace(item, id=f"{name}/{local}" if several else name, seq=local + 1, asked=asked)
        add_measurement(recording, name, node, named)


def _of_product(subject: Any, node: Node) -> Any:
    """Tell a subject that is a node which product that has: a tool is not told."""
    return replace(subject, models=node.models) if getattr(subject, "models", None) == () else subject


def _refused(busy: str) -> Item:
    return Item("refused", 1, status="failed", why=f"not run: {busy}; a load needs an idle node")


def _told(item: Item, evidence: NodeEvidence, asked: Mapping[str, Any]) -> Record:
    """Read what a rank printed, unless something else was asked of it."""
    ref = evidence.ref(item)
    if item.asked != asked:
        return Record(Unread("not_asked", "it was made by another method", ref), ref)
    return tell(item, ref)


def _asked(measurement: Measurement) -> dict[str, Any]:
    """Say what was asked, as it is recorded: another method or other arguments make another measurement."""
    tool = TOOLS[measurement.tool]
    return {
        "command": list(tool.argv(measurement.args)),
        "method": tool.method,
        "args": dict(measurement.args),
    }
