"""The live side of a run: its target, the evidence that is taken there, and the jobs that are run."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gpuassay import __version__
from gpuassay.evidence.recording import Meta, RecordingError, read_recording
from gpuassay.evidence.run import RunFolder
from gpuassay.evidence.sums import check_sums
from gpuassay.evidence.writer import RecordingWriter
from gpuassay.judge.site import load_site, undeclared
from gpuassay.target import Bound, TargetError
from gpuassay.target.choice import Wanted, choose
from gpuassay.target.recording import locate
from gpuassay.watching import Watch, note

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from gpuassay.evidence.item import Item
    from gpuassay.judge.site import Site
    from gpuassay.session import Request
    from gpuassay.suite import Suite
    from gpuassay.target import Job, Results, Target


def gather(request: Request, suite: Suite, progress: Callable[[str], None]) -> RunFolder:
    """Take the evidence of a live target into the folder of a new run, and seal it.

    Raises ConfigError for a site file with mistakes, TargetError if the cluster cannot be reached,
    RecordingError if evidence cannot be written.
    """
    # Whatever can be found wrong is found before anything is touched.
    target = target_of(request, suite)
    if request.earlier is not None:
        read_recording(locate(request.earlier))
    declared = target.declared()
    run = RunFolder.create(request.run_dir, now())
    meta = Meta(target=target.name, probe=__version__, declared=declared, begin=now())
    writer = RecordingWriter(
        run.recording, meta, request.site.read_text(encoding="utf-8") if request.site else None
    )
    # Cut here, the recording stays readable, and says that it is unfinished.
    with Watch(run, "gathering", declared, progress, request.until) as watch:
        target.gather(writer, watch)
    writer.finish(now())
    return run


def resume(folder: Path) -> RunFolder:
    """Take up a run that was cut while it measured. Raises RecordingError where there is none to take up."""
    run = RunFolder(folder)
    if read_recording(run.recording).meta.end is None:
        raise RecordingError(f"--resume: {folder} was cut while its evidence was taken: begin a new run")
    sealed = check_sums(run.recording)
    if sealed.seal == "altered":
        raise RecordingError(f"--resume: {folder} was altered: {sealed.why}")
    return run


def end_leftovers(request: Request, site: Site, run: RunFolder) -> None:
    """End on the cluster what a run has left that was killed, before it is taken up. Raises TargetError."""
    target = live_target(request, site)
    for name in run.began:
        for ended in target.end(name):
            note(run, {"ended": ended, "left_by": name})


def runner(
    request: Request, site: Site, folder: RunFolder, show: Callable[[str], None]
) -> Callable[[Job], Results]:
    """Give what runs jobs on a live target. Raises TargetError, now or then."""
    target = live_target(request, site)

    def run(job: Job) -> Results:
        left_s = max(0.0, request.until - time.monotonic())
        if left_s < job.deadline_s:
            raise TargetError(f"budget: it may take {job.deadline_s:g} s, and {left_s:.0f} s are left")
        with Watch(folder, f"measuring {job.name}", job.nodes, show, request.until) as watch:
            return target.run(job, watch)

    return run


def bounder(request: Request, site: Site) -> Callable[[Sequence[str]], Bound]:
    """Give what says how long a job may take, by the target and by the budget. Raises TargetError."""
    target = live_target(request, site)

    def bound(nodes: Sequence[str]) -> Bound:
        left_s = max(0.0, request.until - time.monotonic())
        budget = Bound(left_s, f"{left_s / 60:.1f} min are left of the budget")
        return min(target.bound(nodes), budget, key=lambda one: one.seconds)

    return bound


def looker(
    request: Request, site: Site, folder: RunFolder, show: Callable[[str], None]
) -> Callable[[Callable[[str, Item], None]], None]:
    """Give what asks all nodes once more. Raises TargetError, now or then."""
    target = live_target(request, site)

    def look(keep: Callable[[str, Item], None]) -> None:
        with Watch(folder, "looking again", target.declared(), show, request.until) as watch:
            target.gather(_Kept(keep), watch)

    return look


def auditor(
    request: Request, site: Site, folder: RunFolder
) -> Callable[[str, Callable[[str, Item], None]], None]:
    """Give what asks one node, which may be new, all that nodes are asked. Raises TargetError, then."""

    def ask(node: str, keep: Callable[[str, Item], None]) -> None:
        target = live_target(replace(request, nodes=(node,)), site)
        with Watch(folder, f"auditing {node}", (node,), lambda _line: None, request.until) as watch:
            target.gather(_Kept(keep), watch)

    return ask


class _Kept:
    """Keeps what nodes answer, each on its own; of the cluster as a whole nothing is asked again."""

    def __init__(self, keep: Callable[[str, Item], None]) -> None:
        self.add = keep

    def add_cluster(self, item: Item) -> None:
        """Let it go by."""


def target_of(request: Request, suite: Suite) -> Target:
    """Make the live target of a request; it asks nothing yet. Raises ConfigError and TargetError."""
    site = load_site(request.site, suite.catalog) if request.site else undeclared(suite.catalog)
    return live_target(request, site.at(now().date()))


def live_target(request: Request, site: Site) -> Target:
    """Make a target whose nodes are those that were named, else those declared and in service.

    Raises TargetError.
    """
    if request.nodes and request.target == "local":
        raise TargetError("--nodes: --target=local asks this machine alone; say how the nodes are reached")
    nodes = request.nodes or tuple(node for node in site.nodes if node not in site.out_nodes)
    return choose(request.target, Wanted(nodes, request.deadline_s, site.reach, request.host_view))


def now() -> datetime:
    """Read the wall clock. Only gathering may: judging goes by the recording's own time."""
    return datetime.now(UTC)
