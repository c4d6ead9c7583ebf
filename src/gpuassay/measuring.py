"""The ``measure`` of a check: a measurement is read from the recording, and made first if the user consents.

It never gives live values: what was just run is recorded and then read, so a replay judges the same.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpuassay import rebooted
from gpuassay.audited import compare
from gpuassay.burning import Burning, NotAsIsError
from gpuassay.enduring import Enduring
from gpuassay.evidence.item import Item
from gpuassay.evidence.recording import read_measurement, read_survey
from gpuassay.evidence.run import RunFolder
from gpuassay.evidence.sums import write_sums
from gpuassay.evidence.writer import add_measurement
from gpuassay.facts.fault_channel import heard
from gpuassay.facts.record import Record
from gpuassay.fault.consent import RefusedError
from gpuassay.judge.fact import Unread
from gpuassay.measure import MOUNT_TOOLS, NODE_SURVEYS, SURVEYS, TOOLS, Errand, errand
from gpuassay.measure.again import SUFFIX, doubtful
from gpuassay.measure.burn_in import BURN_IN
from gpuassay.measure.endured import ENDURED
from gpuassay.measure.mounted import ONE
from gpuassay.measure.perftest import Perftest
from gpuassay.measure.ranks import tell
from gpuassay.measure.two_racks import TwoRacks
from gpuassay.measure.workloads import WORKLOADS, Workload
from gpuassay.rebooted import REBOOT
from gpuassay.target import Bound, Job, TargetError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.facts import Node
    from gpuassay.judge.catalog import Measurement
    from gpuassay.judge.services import Services
    from gpuassay.judge.site import Site
    from gpuassay.target import Bounds, Results

    Run = Callable[[Job], Results]
    """Runs a job on the nodes of a live target. Raises TargetError."""

    Breaks = Callable[[Measurement, Callable[[Item], None]], None]
    """Conducts the trials of a fault, and gives their evidence as it comes.

    Raises RefusedError and TargetError.
    """
    Gather = Callable[[Callable[[str, Item], None]], None]
    """Asks all nodes what they are asked first of all, and gives each answer as it comes."""

_TO_REMOVE_S = 60.0
"""How long a tool that is told to end may take to remove what it has made in a mount."""


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

        ``services_then`` are those that were declared when it was recorded; others may be now. ``breaks``
        is None where nothing may be broken.
        """
        self._services = self.services_then = site.services
        self._measurements = site.catalog.measurements
        self._in_service = frozenset(node.name for node in nodes)
        self._nodes = self._asked_of = [node for node in nodes if node.silence is None]
        self._applies = True
        self._recording = recording
        self._run = run
        self.breaks: Breaks | None = None
        self.reboots: Callable[[Measurement], None] | None = None
        self._allowed = allowed
        self._site = site
        self.gather: Gather | None = None
        self.bound: Bounds = lambda _nodes: Bound()
        self.burn_in_s: float | None = None
        self.endurance_s: float | None = None

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
        if measurement.fault:
            return self._trials(measurement)
        if measurement.tool == REBOOT:
            return self._rebooted(measurement)
        if measurement.tool in SURVEYS:
            return self._survey(measurement) if self._applies else []
        if measurement.tool in NODE_SURVEYS:
            return self._survey_from_nodes(measurement)
        if measurement.tool in MOUNT_TOOLS:
            return self._on_mounts(measurement)
        if not self._asked_of:
            return []
        found = self._found(measurement, self._asked_of, self._make)
        tool = TOOLS[measurement.tool]
        read = {
            node: tool.read(node.name, measurement.args, *self._answer(measurement, found[node.name]))
            for node in self._asked_of
        }
        return [_of_product(subject, node) for node, subject in read.items()]

    def _trials(self, measurement: Measurement) -> list[Any]:
        """Break something on the nodes that the user has named, in turn, and read what came of it."""
        found = read_survey(self._recording, measurement.name)
        if not found.answered:
            self._consent(measurement)
            try:
                self._break(measurement)
            except (RefusedError, TargetError) as why:
                raise NotMeasuredError(f"{measurement.name}: {why}") from why
            finally:
                write_sums(self._recording)
            found = read_survey(self._recording, measurement.name)
        pairs = [(item, found.ref(item)) for item in found.items]
        conducted = list(heard(pairs, self._services.remediation))
        if any(not trial.was(measurement.fault, measurement.args) for trial in conducted):
            raise NotMeasuredError(f"{measurement.name} was done in another way in this recording")
        for trial in conducted:
            compare(trial, self._nodes, self._site)
        return conducted

    def _break(self, measurement: Measurement) -> None:
        if self.breaks is None:
            raise NotMeasuredError("it is not in this recording")

        def keep(item: Item) -> None:
            add_measurement(self._recording, measurement.name, "", item, durable=True)

        self.breaks(measurement, keep)

    def _rebooted(self, measurement: Measurement) -> list[Any]:
        """Reboot the nodes that the user has named, and read what came of it."""
        try:
            if not (found := rebooted.read(self._recording, measurement, self._site)):
                self._consent(measurement)
                self._reboot(measurement)
                found = rebooted.read(self._recording, measurement, self._site)
        except (RefusedError, TargetError, rebooted.NotAsIsError) as why:
            raise NotMeasuredError(f"{measurement.name}: {why}") from why
        return list(found)

    def _reboot(self, measurement: Measurement) -> None:
        if self.reboots is None:
            raise NotMeasuredError("it is not in this recording")
        try:
            self.reboots(measurement)
        finally:
            write_sums(self._recording)

    def _work(self, measurement: Measurement) -> list[Any]:
        """Run a workload on nodes with GPUs (where there is none, at tiny size on all), and read it."""
        nodes = [node for node in self._asked_of if node.gpus]
        if not any(node.gpus for node in self._nodes):
            nodes = list(self._nodes)
        if measurement.workload == BURN_IN.name:
            return self._burn(measurement, nodes)
        if measurement.workload in ENDURED:
            return self._endure(measurement, nodes)
        workload = WORKLOADS[measurement.workload]
        if isinstance(workload, TwoRacks):
            nodes = workload.choose(nodes)
        found = self._found(measurement, nodes, self._put_to_work)
        asked = workload.asked(measurement.args)
        told = {name: [_told(item, own, asked) for item in own.items] for name, own in found.items()}
        subjects = list(workload.subjects(nodes, measurement.args, told))
        if not isinstance(workload, Workload):
            return subjects
        again = self._again(measurement, nodes, doubtful(subjects, {node.name: node.pool for node in nodes}))
        return list(workload.subjects(nodes, measurement.args, told, again)) if again else subjects

    def _burn(self, measurement: Measurement, nodes: Sequence[Node]) -> list[Any]:
        """Burn in the nodes alike together, or go on with it, and read what came of it."""
        alike: dict[int, list[Node]] = defaultdict(list)
        for node in nodes:
            alike[len(node.gpus)].append(node)
        usual = float(measurement.args["seconds" if any(node.gpus for node in nodes) else "idle"])
        wanted = self.burn_in_s or usual
        found = []
        for group in alike.values():
            aside = RunFolder(self._recording.parent).heard
            burning = Burning(self._recording, aside, measurement, group, wanted, self._services.reach.image)
            try:
                if not burning.started or (self._run is not None and burning.left_s > 0):
                    self._keep_burning(burning)
                found.append(burning.read(self._site))
            except (NotAsIsError, TargetError) as why:
                raise NotMeasuredError(f"{measurement.name}: {why}") from why
        return found

    def _endure(self, measurement: Measurement, nodes: Sequence[Node]) -> list[Any]:
        """Keep the nodes under a load for long, or go on with it, and read what came of it."""
        usual = float(measurement.args["seconds" if any(node.gpus for node in nodes) else "idle"])
        kind = ENDURED[measurement.workload]
        alike: dict[int, list[Node]] = defaultdict(list)
        for node in nodes:
            alike[len(node.gpus) if kind.in_step else 0].append(node)
        found: list[Any] = []
        for group in alike.values():
            services, wanted = self._services, self.endurance_s or usual
            mounts, image = services.mounts, services.reach.image
            load = Enduring(self._recording, measurement, kind, group, mounts, wanted, image)
            try:
                if load.parts and (not load.started or (self._run is not None and not load.is_over)):
                    self._keep_enduring(load)
                found += load.read(self._site)
            except (NotAsIsError, TargetError) as why:
                raise NotMeasuredError(f"{measurement.name}: {why}") from why
        return found

    def _keep_enduring(self, load: Enduring) -> None:
        load.go(self._consent_on_idle(load.measurement, load.nodes))
        if self.gather is not None:
            load.look(self.gather)

    def _consent_on_idle(self, measurement: Measurement, nodes: Sequence[Node]) -> Run:
        run = self._consent(measurement)
        busy = [node.name for node in nodes if node.busy]
        if busy:
            raise NotMeasuredError(f"{measurement.name}: {busy[0]} is busy; a load needs idle nodes")
        return run

    def _keep_burning(self, burning: Burning) -> None:
        run = self._consent_on_idle(burning.measurement, burning.nodes)
        burning.go(run, float(burning.measurement.args["segment"]), self.bound)
        if self.gather is not None:
            burning.look(self.gather)

    def _again(
        self, measurement: Measurement, nodes: Sequence[Node], names: Collection[str]
    ) -> Mapping[str, Sequence[Record]]:
        """Measure these nodes a second time, if they may be; read what that gave, also in a recording."""
        if not names:
            return {}
        second = replace(measurement, name=measurement.name + SUFFIX)
        suspects = [node for node in nodes if node.name in names]
        if self._run is not None:
            with suppress(NotMeasuredError):  # then the first figures stand
                self._found(second, suspects, self._put_to_work)
        found = read_measurement(self._recording, second.name, [node.name for node in suspects])
        asked = WORKLOADS[measurement.workload].asked(measurement.args)
        return {
            name: [_told(item, own, asked) for item in own.items]
            for name, own in found.items()
            if own.answered
        }

    def _put_to_work(self, measurement: Measurement, nodes: Sequence[Node]) -> None:
        """Run a workload with a rank for each GPU: nodes that have as many are one job, all at once.

        One that starts the tools of a node itself has one rank there; all others run in the site's image.
        """
        workload = WORKLOADS[measurement.workload]
        alone = workload.errand if isinstance(workload, Perftest) else ""
        by_count: dict[tuple[int, str], list[Node]] = defaultdict(list)
        for node in nodes:
            ranks = 1 if workload.one_rank else max(1, len(node.gpus))
            by_count[ranks, node.pool if workload.together else ""].append(node)
        for (ranks, _), alike in by_count.items():

            def job(idle: Sequence[Node], ranks: int = ranks) -> Job:
                order = workload.order(measurement.args, idle)
                feed = errand.alone(alone, order) if alone else errand.pack(order)
                argv, image = (errand.ALONE, "") if alone else (errand.ARGV, self._services.reach.image)
                return Job(measurement.name, argv, (), ranks, {}, image, measurement.deadline_s, feed)

            self._run_on(measurement, alike, job, workload.asked(measurement.args))

    def _on_mounts(self, measurement: Measurement) -> list[Any]:
        """Run a tool in the mounts of the site file, on all nodes at once or on one, and read it."""
        tool, args = MOUNT_TOOLS[measurement.tool], measurement.args
        mounts = tool.mounts(args, self._services.mounts)
        nodes = self._asked_or_all
        if not mounts or not nodes:
            return []
        if args["nodes"] == ONE:
            nodes = self._one_of(measurement, nodes)

        def job(_idle: Sequence[Node]) -> Job:
            feed = errand.pack(tool.order(args, mounts), "disk")
            deadline, grace = measurement.deadline_s, _TO_REMOVE_S
            return Job(measurement.name, errand.ARGV, (), 1, {}, "", deadline, feed, grace)

        asked = tool.asked(args)
        found = self._found(measurement, nodes, lambda one, missing: self._run_on(one, missing, job, asked))
        silent = Record(Unread("failed", f"{measurement.name} gave no result on this node"))
        told = {name: _told(own.items[0], own, asked) if own.items else silent for name, own in found.items()}
        return list(tool.subjects(nodes, args, mounts, told))

    def _one_of(self, measurement: Measurement, nodes: Sequence[Node]) -> list[Node]:
        """Choose the node that measures alone: the one that has, or else the first that is idle."""
        found = read_measurement(self._recording, measurement.name, [node.name for node in nodes])
        done = [node for node in nodes if found[node.name].answered]
        idle = [node for node in nodes if not node.busy]
        return [*done, *idle, *nodes][:1]

    @property
    def _asked_or_all(self) -> list[Node]:
        """The nodes to which the check applies; where there is no accelerator at all, all: it is shown."""
        return self._asked_of if any(node.gpus for node in self._nodes) else list(self._nodes)

    def _survey(self, measurement: Measurement) -> list[Any]:
        survey, nodes = SURVEYS[measurement.tool], [node.name for node in self._nodes]

        def ask() -> Iterator[Item]:
            self._consent(measurement)
            return survey.ask(self._services, nodes, measurement.args, measurement.deadline_s)

        return self._served(survey.read(measurement.args, self._answers(measurement, survey.method, ask)))

    def _survey_from_nodes(self, measurement: Measurement) -> list[Any]:
        survey, nodes = NODE_SURVEYS[measurement.tool], self._asked_or_all
        if not nodes or not self._services.has(survey.need):
            return []

        def ask() -> Iterator[Item]:
            return survey.ask(self._consent(measurement), self._services, nodes, self._lasting(measurement))

        found = self._answers(measurement, survey.method, ask)
        read = self._served(survey.read(self._services, measurement.args, found))
        models = {node.name: node.models for node in self._nodes}
        return [replace(one, models=models.get(one.node, ())) for one in read]

    def _lasting(self, measurement: Measurement) -> Measurement:
        """Say how long it is to last, where it is one that lasts."""
        args = measurement.args
        if "seconds" not in args:
            return measurement
        usual = float(args["seconds" if any(node.gpus for node in self._nodes) else "idle"])
        return replace(measurement, args={**args, "seconds": self.endurance_s or usual})

    def _answers(
        self, measurement: Measurement, method: int, ask: Callable[[], Iterator[Item]]
    ) -> NodeEvidence:
        """Read what a service answered, once it has been asked."""
        asked = {"survey": measurement.tool, "method": method, "args": dict(measurement.args)}
        found = read_survey(self._recording, measurement.name)
        if not found.answered:
            answers = ask()
            try:
                for seq, item in enumerate(answers, 1):
                    told = replace(item, seq=seq, asked={**asked, **item.asked})
                    add_measurement(self._recording, measurement.name, "", told)
            except TargetError as error:
                raise NotMeasuredError(f"{measurement.name}: {error}") from error
            finally:
                write_sums(self._recording)
            found = read_survey(self._recording, measurement.name)
        elif self.services_then.asked_at(measurement.tool) != self._services.asked_at(measurement.tool):
            why = "was asked of another service than this site file declares: measure that one"
            raise NotMeasuredError(f"{measurement.name} {why}")
        if any({**item.asked, **asked} != item.asked for item in found.items):
            raise NotMeasuredError(f"{measurement.name} was made by another method in this recording")
        return found

    def _served(self, subjects: Sequence[Any]) -> list[Any]:
        """Leave out nodes that are out of service by now: it may have been asked of them before."""
        served = {"", *self._in_service}
        return [subject for subject in subjects if getattr(subject, "node", "") in served]

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
        if item.asked != _asked(measurement, self._services):
            return Unread("not_asked", f"{measurement.name} was made by another method", ref), ref
        return item, ref

    def _make(self, measurement: Measurement, nodes: Sequence[Node]) -> None:
        tool, args = TOOLS[measurement.tool], measurement.args
        job = Job(measurement.name, tool.argv(args), (), deadline_s=measurement.deadline_s)

        def for_nodes(idle: Sequence[Node]) -> Job:
            if not isinstance(tool, Errand):
                return job
            return replace(job, feed=tool.feed(args, tool.order(self._services), [one.name for one in idle]))

        self._run_on(measurement, nodes, for_nodes, _asked(measurement, self._services))

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
            raise NotMeasuredError("it is not in this recording")
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


def _asked(measurement: Measurement, services: Services) -> dict[str, Any]:
    """Say what was asked, as it is recorded: another method, argument or order makes another measurement."""
    tool = TOOLS[measurement.tool]
    return {
        "command": list(tool.argv(measurement.args)),
        "method": tool.method,
        "args": dict(measurement.args),
        **({"order": tool.order(services)} if isinstance(tool, Errand) else {}),
    }
