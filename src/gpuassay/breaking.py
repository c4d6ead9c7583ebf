"""Breaking things on a live cluster: one fault on one node at a time, only where all was agreed."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from gpuassay.audited import compare
from gpuassay.facts import fault_trial as facts
from gpuassay.fault.audit import Audit
from gpuassay.fault.consent import RefusedError, refuse_unless
from gpuassay.fault.smoke import Smoke
from gpuassay.fault.trial import RestoreFailedError, Trial
from gpuassay.gathering import auditor, live_target, now
from gpuassay.judge.fact import Read
from gpuassay.watch import notices
from gpuassay.watching import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpuassay.evidence.item import Item
    from gpuassay.evidence.run import RunFolder
    from gpuassay.facts import Node
    from gpuassay.facts.fault_trial import FaultTrial
    from gpuassay.judge.catalog import Measurement
    from gpuassay.judge.site import Site
    from gpuassay.session import Request
    from gpuassay.target import Job, Results, Runs, Target

SPARE_S = 300.0
"""What a trial may take beside watching and mending: to arm, to break, and to see that it is mended."""


class Breaker:
    """Conducts the trials of a run. After one that could not be mended it refuses all others."""

    def __init__(self, request: Request, site: Site, folder: RunFolder, nodes: Sequence[Node]) -> None:
        """Take who asked for what, where the run is kept, and the nodes as they were when it began."""
        self._request, self._site, self._nodes = request, site, nodes
        self._consent = request.consent
        self._folder = folder
        self._target: Target = live_target(request, site)
        self._told = told(site)
        self._services = site.services
        self._image = site.services.reach.image
        self._failed = ""

    def __call__(self, measurement: Measurement, keep: Callable[[Item], None]) -> None:
        """Break one thing on each node that was named, in turn. Raises RefusedError, TargetError."""
        args = dict(measurement.args)
        watch_s, mend_s = float(args.pop("watch_s")), float(args.pop("mend_s"))
        replace_s = float(args.pop("replace_s", 0.0))
        product = str(args.pop("smoke", ""))
        seconds = watch_s + mend_s + SPARE_S
        declared = self._target.declared()
        for node in self._consent.nodes or ("",):
            refuse_unless(self._consent, node, now(), seconds, declared)
            if self._failed:
                raise RefusedError(f"nothing more is broken in this run: {self._failed}")
            words = f"{measurement.name} on {node}"
            hold = partial(self._hold, seconds, words)
            bounds = (watch_s, mend_s, replace_s, self._consent.ticket)
            load = partial(self._act, self._target.run, words)
            audit = Audit(auditor(self._request, self._site, self._folder))
            more = (self._told, audit, Smoke(product, self._image, load) if product else None)
            try:
                with notices.eyes(self._services, node) as told_by:
                    eyes = [*self._target.eyes(node), *told_by]
                    trial = Trial(measurement.fault, args, node, hold, eyes, keep, *bounds, *more)
                    story = trial.conduct()
            except RestoreFailedError as error:
                self._failed = str(error)
            else:
                compare(story, self._nodes, self._site)
                self._failed = _not_whole(story)

    @contextmanager
    def _hold(self, seconds: float, words: str, node: str) -> Iterator[Callable[[Job], Results]]:
        with self._target.hold(node, seconds) as run:
            yield partial(self._act, run, words)

    def _act(self, run: Runs, words: str, job: Job) -> Results:
        with Watch(self._folder, words, job.nodes, lambda _line: None, self._request.until) as progress:
            return run(job, progress)


def _not_whole(story: FaultTrial) -> str:
    """Say why nothing more may be broken after a trial, if so: first the cluster is to be whole again."""
    if not isinstance(story.end, Read) or story.end.value != facts.HANDED_OVER:
        return ""
    if story.restored is None:
        return f"{story.node} was handed over to the provider, and no node was seen to serve in its place"
    for proof in (story.audited, story.loaded):
        if isinstance(proof, Read) and not proof.value:
            return f"what serves in place of {story.node} is not well: {proof.note}"
    return ""


def told(site: Site) -> Mapping[str, str]:
    """Tell faults where the site file says that a node keeps what is its own, and what all nodes share."""
    mounts = site.services.mounts
    own = [mount.path for mount in mounts if not mount.shared]
    common = [mount.path for mount in mounts if mount.shared]
    return {"scratch": own[0] if own else "", "shared": common[0] if common else ""}
