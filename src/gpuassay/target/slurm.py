"""``--target=slurm``: the nodes of a Slurm cluster, each asked by a job or a step of its own.

One ``srun`` for a node, so that a node that hangs, lies or is busy delays no other. Inside an allocation
(``SLURM_JOB_ID``) it is a step of that; else a job that holds the whole node while the probe runs.
"""

from __future__ import annotations

import os
import re
import secrets
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, ClassVar

from gpuassay.evidence.item import Item
from gpuassay.facts.slurm import allocated_gpus, read_time
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read
from gpuassay.judge.names import expand, folded, natural
from gpuassay.probe import travel
from gpuassay.target import Bound, TargetError
from gpuassay.target.answers import ask_nodes, planned
from gpuassay.target.channel import Command, Ending
from gpuassay.target.jobs import in_image, run_job
from gpuassay.target.slurm_client import PATIENCE_S, PREFIX, Client, Cluster
from gpuassay.target.slurm_holding import HOLDING, refuse_another
from gpuassay.target.slurm_plan import SPARE_S, Allocation, Planner, Refusal, Visit
from gpuassay.target.slurm_restart import restart
from gpuassay.target.withheld import Withheld
from gpuassay.watch.slurm import eyes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from gpuassay.target import Job, Progress, Results, Runs, Writer
    from gpuassay.target.channel import Channel
    from gpuassay.target.choice import Wanted
    from gpuassay.target.restarts import Ordered
    from gpuassay.watch import Eye

# srun(1) may look for the program on this machine; a shell on the node looks for it there.
_THERE = ("/bin/sh", "-c", 'exec "$0" "$@"')
BUSY = re.compile(r"Requested nodes are busy|Immediate execution impossible|not available now")


class Slurm:
    """The nodes of the cluster that this machine's Slurm programs lead to."""

    name: ClassVar[str] = "slurm"

    def __init__(self, wanted: Wanted) -> None:
        """Find Slurm's programs; nothing is asked yet. Raises TargetError where they are not."""
        self._wanted = wanted
        self._client = Client()
        self._job_name = f"{PREFIX}{secrets.token_hex(4)}"

    def declared(self) -> tuple[str, ...]:
        """Name the nodes that were asked for; else those of the allocation; else all. Raises TargetError."""
        if self._wanted.nodes:
            return self._wanted.nodes
        if self._allocation:
            return tuple(self._allocation.gpus)
        nodes = self._cluster.nodes
        if not isinstance(nodes, Read):
            raise TargetError(f"Slurm's list of nodes cannot be read: {nodes.why}")
        partitions = {word for word in self._wanted.reach.slurm.partition.split(",") if word}
        named = (
            node.name
            for node in nodes.value.values()
            if "FUTURE" not in node.state.words and (not partitions or partitions & {*node.partitions})
        )
        found = tuple(sorted(named, key=natural))
        if not found:
            raise TargetError("Slurm lists no node in the partition that the site file names")
        return found

    def gather(self, writer: Writer, progress: Progress) -> None:
        """Ask every node that Slurm lets be asked; say of the others what Slurm says. Raises TargetError."""
        plans = self._plans()
        for item in self._cluster.items:
            writer.add_cluster(item)
        for plan in plans:
            if isinstance(plan, Refusal):
                writer.add(plan.node, Item("probe", 1, plan.status, {"library": "probe"}, why=plan.why))
                progress.ended(plan.node, plan.why)
        visits = [plan for plan in plans if isinstance(plan, Visit)]
        blind = {visit.node: visit.blind for visit in visits if visit.blind}
        progress.began(self._job_name)
        try:
            steps = [self._step(visit) for visit in visits]
            ask_nodes(steps, Withheld(writer, blind), progress, self._wanted.deadline_s)
        finally:
            self._client.cancel(self._job_name, self._job)

    def run(self, job: Job, progress: Progress) -> Results:
        """Run a job in one allocation of all its nodes, ours unless we are inside one. Raises TargetError."""
        progress.began(self._job_name)
        try:
            held = self._allocation or self._allocate(job.nodes, job.deadline_s, f"job {job.name}")
            return self._run_in(held, job, progress)
        finally:
            self._client.cancel(self._job_name, self._job)

    def bound(self, nodes: Sequence[str]) -> Bound:
        """Give what is left of the allocation that we are in, or else what one job of ours may take."""
        if not self._job:
            bound = self._planner().bound(nodes)
            return replace(bound, seconds=bound.seconds - PATIENCE_S)
        shown = self._client.run("squeue", "--noheader", f"--jobs={self._job}", "--format=%L")
        left_s = read_time(shown.out.decode(errors="replace").strip())
        if left_s is None:
            return Bound()
        return Bound(left_s - SPARE_S, f"{left_s / 60:.1f} min are left of job {self._job}")

    def hold(self, node: str, seconds: float) -> AbstractContextManager[Runs]:
        """Hold a whole node by a job in which nothing runs but what is asked for. Raises TargetError."""
        return self.hold_all((node,), seconds)

    @contextmanager
    def hold_all(self, nodes: Sequence[str], seconds: float) -> Iterator[Runs]:
        """Hold several whole nodes by one such job, all or none. Raises TargetError."""
        refuse_another(self._client)
        self._job_name = f"{HOLDING}{secrets.token_hex(4)}"
        try:
            held = self._allocation or self._allocate(nodes, seconds, f"holding {folded(nodes)}")
            for node in nodes:
                plan = self._planner(held).whole(node)
                if held is None or isinstance(plan, Refusal):
                    why = plan.why if isinstance(plan, Refusal) else "Slurm did not give it"
                    raise TargetError(f"{node} is not ours alone: {why}")
            yield partial(self._run_in, held)
        finally:
            self._client.cancel(self._job_name, self._job)

    def restart(self, nodes: Sequence[str], run: Callable[[Job], Results]) -> Ordered:
        """Have nodes that are held restarted, by Slurm or by themselves. Raises TargetError."""
        if self._allocation:
            raise TargetError(
                f"within job {self._job} a reboot would wait for its end: run this outside of it"
            )
        return restart(self._client, self._cluster, nodes, run)

    def eyes(self, node: str) -> list[Eye]:
        """Look at a node through Slurm."""
        known = self._cluster.find(node)
        if known is None:
            raise TargetError(f"Slurm lists no node {node}")
        return eyes(self._client, known.name, self._planner().options_for(known))

    def _run_in(self, held: Allocation | None, job: Job, progress: Progress) -> Results:
        if job.image and b"--container-image" not in self._client.run("srun", "--help").out:
            raise TargetError(
                "this cluster's srun has no --container-image (pyxis), and a job names an image"
            )
        more = ("--cpu-bind=none", *([f"--container-image={job.image}"] if job.image else []))
        channels: list[Channel] = []
        for plan in map(self._planner(held).whole, job.nodes):
            if isinstance(plan, Refusal):
                channels.append(_Closed(plan))
            else:
                channels.append(self._step(replace(plan, options=(*plan.options, *more))))
        first = self._cluster.find(job.nodes[0])
        return run_job(channels, in_image(job, job.image), progress, first.address if first else "")

    def _allocate(self, wanted: Sequence[str], seconds: float, what: str) -> Allocation | None:
        """Get nodes at once, as far as they can be had; None if none can. Raises TargetError."""
        planner = self._planner()
        nodes = [node for node in wanted if isinstance(planner.whole(node), Visit)]
        if not nodes:
            return None
        options, gpus = planner.together(nodes, seconds + PATIENCE_S)  # launchers have to start too
        patience_s = self._wanted.reach.slurm.wait_s + PATIENCE_S
        told = self._client.run("salloc", "--no-shell", *options, patience_s=patience_s)
        number = re.search(r"Granted job allocation ([0-9]+)", told.err)
        if told.status != "ok" or number is None:
            raise TargetError(f"Slurm gave no nodes for {what}: {told.why or brief(told.err)}")
        return Allocation(number[1], gpus)

    def plan(self) -> list[str]:
        """Say in lines what would run where, and what is not asked."""
        alike: dict[str, list[str]] = defaultdict(list)
        for plan in self._plans():
            if isinstance(plan, Refusal):
                alike[f"not asked: {plan.why}"].append(plan.node)
            else:
                blind = f"; GPUs unseen: {plan.blind}" if plan.blind else ""
                alike[f"the probe, in {plan.how}{blind}"].append(plan.node)
        who = f"jobs run as user {os.geteuid()}, are named {PREFIX}…, and need no root"
        cost = f"each {planned(self._wanted.deadline_s)}"
        return [*(f"{folded(nodes)}: {what}" for what, nodes in alike.items()), cost, who]

    def clean(self) -> list[str]:
        """End all jobs of ours, and all steps of ours in this allocation; say which. Raises TargetError."""
        shown = self._client.run("squeue", "--noheader", "--format=%A", f"--user={os.geteuid()}")
        if shown.status != "ok":  # then no job that is listed is no proof that there is none
            raise TargetError(f"Slurm cannot be asked whether jobs of ours are left: {shown.why}")
        steps = self._client.cancel(PREFIX, self._job) if self._job else []
        jobs = self._client.cancel(PREFIX)
        return [*(f"step {step}" for step in steps), *(f"job {job}" for job in jobs)]

    def end(self, name: str) -> list[str]:
        """End the jobs of one run, or its steps in this allocation, and wait until their nodes are free.

        Raises TargetError.
        """
        if not name.startswith(PREFIX):
            return []
        kind = "step" if self._job else "job"
        return [f"{kind} {one}" for one in self._client.end(name, self._job)]

    @cached_property
    def _cluster(self) -> Cluster:
        return self._client.ask()

    @property
    def _job(self) -> str:
        return os.environ.get("SLURM_JOB_ID", "")

    @cached_property
    def _allocation(self) -> Allocation | None:
        if not self._job:
            return None
        shown = self._client.run("scontrol", "--details", "show", "job", self._job)
        if shown.status != "ok":
            raise TargetError(f"the allocation, job {self._job}, cannot be asked for: {shown.why}")
        try:
            nodes = expand(os.environ.get("SLURM_JOB_NODELIST", ""))
        except ValueError as error:
            raise TargetError(f"SLURM_JOB_NODELIST names no nodes: {error}") from error
        held = allocated_gpus(shown.out)
        return Allocation(self._job, {node: held.get(node, 0) for node in nodes})

    def _plans(self) -> list[Visit | Refusal]:
        planner = self._planner(self._allocation)
        return [planner.plan(node) for node in self.declared()]

    def _planner(self, allocation: Allocation | None = None) -> Planner:
        reach, deadline_s = self._wanted.reach.slurm, self._wanted.deadline_s
        limits = self._cluster.limits
        return Planner(self._cluster, reach, deadline_s, self._job_name, allocation, limits)

    def _step(self, visit: Visit) -> _Step:
        argv = (
            self._client.programs["srun"],
            *visit.options,
            *_THERE,
            *travel.argv(self._wanted.reach.slurm.python),
        )
        return _Step(Command(visit.node, argv, self._client.environment), visit.limit_s)


@dataclass(frozen=True, slots=True)
class _Step:
    """The channel through an ``srun``: what Slurm complains of is said in its words."""

    command: Command
    limit_s: float

    @property
    def node(self) -> str:
        """The node it leads to."""
        return self.command.node

    async def talk(self, feed: bytes, deadline_s: float, take: Callable[[bytes], bool]) -> Ending:
        """Talk for as long as the job may run at most."""
        ending = await self.command.talk(feed, min(deadline_s, self.limit_s), take)
        return worded(ending)


@dataclass(frozen=True, slots=True)
class _Closed:
    """The channel to a node that cannot be had."""

    refusal: Refusal

    @property
    def node(self) -> str:
        """The node that it would lead to."""
        return self.refusal.node

    async def talk(self, _feed: bytes, _deadline_s: float, _take: Callable[[bytes], bool]) -> Ending:
        """Say why nothing is sent."""
        return Ending(self.refusal.status, f"was not started: {self.refusal.why}")


def worded(ending: Ending) -> Ending:
    """Add what Slurm said; a job that found no place was not let in, which is no fault of the node."""
    said = [line for line in ending.last_words.splitlines() if line.startswith(("srun: ", "slurmstepd"))]
    if ending.status != "failed" or not said:
        return ending
    if BUSY.search(ending.last_words):
        return replace(ending, status="denied", why=f"was given no place in time: {brief(said[-1])}")
    return replace(ending, why=f"{ending.why}: {brief(said[-1])}")
