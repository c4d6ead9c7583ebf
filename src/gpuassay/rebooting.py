"""Reboots of a live cluster: wave after wave, and only where all was agreed."""

from __future__ import annotations

import threading
from collections import defaultdict
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.evidence.writer import add_measurement
from gpuassay.facts import reboot as story
from gpuassay.facts.fault_trial import END
from gpuassay.fault.consent import RefusedError, refuse_unless
from gpuassay.fault.wave import Wave
from gpuassay.gathering import live_target, now
from gpuassay.rebooted import AFTER
from gpuassay.target import TargetError
from gpuassay.target.both import Both
from gpuassay.target.restarts import Restarts
from gpuassay.watching import Watch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from gpuassay.evidence.run import RunFolder
    from gpuassay.fault.wave import Keeper
    from gpuassay.judge.catalog import Measurement
    from gpuassay.judge.site import Site
    from gpuassay.session import Request
    from gpuassay.target import Job, Results, Runs

SPARE_S = 300.0
"""What a wave may take beside the reboot itself: to be held, looked at, and looked at again."""


class Rebooter:
    """Reboots the nodes that the user has named; after a wave of which one does not return it stops."""

    def __init__(self, request: Request, site: Site, folder: RunFolder) -> None:
        """Take who asked for what, and where the run is kept."""
        self._request, self._site, self._folder = request, site, folder
        self._lock = threading.Lock()
        self._kept: dict[str, int] = defaultdict(int)

    def __call__(self, measurement: Measurement) -> None:
        """Reboot in waves, and ask all nodes that are back once more. Raises RefusedError, TargetError."""
        nodes, return_s = self._request.consent.nodes, float(measurement.args["return_s"])
        size = self._request.reboot_wave or len(nodes) or 1
        waves = [nodes[first : first + size] for first in range(0, len(nodes), size)] or [("",)]
        self._refuse(nodes or ("",), return_s)
        back: list[str] = []
        for number, wave in enumerate(waves):
            if why := self._stopped(measurement, wave, back, number * size):
                self._spare(measurement, [node for late in waves[number:] for node in late], why)
                break
            back += self._wave(measurement, wave, return_s, first=number == 0)
        if back:
            self._ask(measurement, back)

    def _refuse(self, nodes: Sequence[str], return_s: float) -> None:
        declared = self._target().declared()
        for node in nodes:
            refuse_unless(self._request.consent, node, now(), return_s + SPARE_S, declared)

    def _stopped(self, measurement: Measurement, wave: Sequence[str], back: Sequence[str], done: int) -> str:
        """Say why no further wave begins, if none does: first all nodes are to be there again."""
        if len(back) < done:
            return f"{done - len(back)} of {done} nodes before it did not return: no more are rebooted"
        try:
            self._refuse(wave, float(measurement.args["return_s"]))
        except (RefusedError, TargetError) as why:
            if not done:
                raise
            return str(why)
        return ""

    def _wave(
        self, measurement: Measurement, nodes: Sequence[str], return_s: float, *, first: bool
    ) -> list[str]:
        mounts = [mount.path for mount in self._site.services.mounts if mount.shared]
        put, about = partial(self._put, measurement.name), self._about(measurement)
        target = self._target()
        with self._keeper(target, return_s) as keeper:
            wave = Wave(nodes, target, self._act, put, return_s, about, mounts, keeper)
            try:
                back = wave.conduct(return_s + SPARE_S)
            except TargetError as why:
                if first:
                    raise
                self._spare(measurement, nodes, str(why))
                return []
            wave.look(self._target())
        return back

    def _keeper(self, target: Any, return_s: float) -> AbstractContextManager[Keeper | None]:
        """Give what keeps files in volumes, where nodes are those of Kubernetes."""
        if target.name != "kubernetes":
            return nullcontext()
        from gpuassay.target.kube_keep import keeper  # noqa: PLC0415 - an extra

        return keeper(self._site.reach.kubernetes, return_s + SPARE_S)

    def _spare(self, measurement: Measurement, nodes: Sequence[str], why: str) -> None:
        """Write down that nodes were named and not rebooted."""
        for node in nodes:
            self._put(measurement.name, node, Item(story.BEGIN, 0, asked=self._about(measurement)))
            self._put(measurement.name, node, Item(END, 0, asked={"state": story.SPARED}, why=why))

    def _about(self, measurement: Measurement) -> dict[str, Any]:
        ticket = self._request.consent.ticket
        return {"args": dict(measurement.args), "method": story.METHOD, "ticket": ticket}

    def _ask(self, measurement: Measurement, nodes: Sequence[str]) -> None:
        """Ask nodes and scheduler what they were asked when the run began."""
        target = live_target(replace(self._request, nodes=tuple(nodes)), self._site)
        with Watch(self._folder, "looking again", nodes, lambda _line: None, self._request.until) as watch:
            writer = _After(self._folder.recording, measurement.name + AFTER)
            try:
                target.gather(writer, watch)
            except TargetError as why:  # what is known of their return stands all the same
                writer.add_cluster(Item("gather", 1, "failed", {"target": target.name}, why=str(why)))

    def _target(self) -> Any:
        """Give the target as it is now: what it was told of nodes before a reboot is no more true."""
        target = live_target(self._request, self._site)
        if isinstance(target, Both):
            target = target.slurm  # which gives out the nodes
        if not isinstance(target, Restarts):
            why = "nobody keeps others away from a node meanwhile: reboot through slurm or kubernetes"
            raise TargetError(f"--target={target.name}: {why}")
        return target

    def _act(self, run: Runs, job: Job) -> Results:
        with Watch(self._folder, job.name, job.nodes, lambda _line: None, self._request.until) as progress:
            return run(job, progress)

    def _put(self, name: str, node: str, item: Item) -> None:
        with self._lock:
            self._kept[node] += 1
            numbered = replace(item, seq=self._kept[node])
            add_measurement(self._folder.recording, name, node, numbered, durable=True)


class _After:
    """Writes what is asked once more beside the measurement."""

    def __init__(self, recording: Path, name: str) -> None:
        self._recording, self._name = recording, name

    def add(self, node: str, item: Item) -> None:
        """Keep what a node answered."""
        add_measurement(self._recording, self._name, node, item)

    def add_cluster(self, item: Item) -> None:
        """Keep what a scheduler said."""
        add_measurement(self._recording, self._name, "", item)
