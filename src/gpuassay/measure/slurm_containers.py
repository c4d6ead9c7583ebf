"""The survey of containers on Slurm: one that pyxis really starts on each node, and an import by Enroot."""

from __future__ import annotations

import os
import secrets
import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from gpuassay.evidence.item import Item
from gpuassay.facts.containers import document_of
from gpuassay.facts.slurm_containers import CONTAINER, NODE, START, SlurmContainer
from gpuassay.judge.fact import Read
from gpuassay.measure import container_look as look
from gpuassay.measure.slurm_job import place_found
from gpuassay.stopping import undisturbed
from gpuassay.target import TargetError
from gpuassay.target.slurm import BUSY
from gpuassay.target.slurm_client import PATIENCE_S, PREFIX, Client
from gpuassay.target.slurm_plan import Planner, Visit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.judge.fact import Scalar
    from gpuassay.judge.services import Services

_AT_ONCE: Final = 64  # nodes that pull an image at the same time
_KEPT: Final = 8192  # of what Slurm and pyxis said: the end tells why
_ALONE: Final = ("-I", "-S", "-B", "-c")


class SlurmContainers:
    """Two short jobs on each node that is free, with all its GPUs: one in a container, one beside it."""

    method = 1

    def ask(
        self, services: Services, nodes: Sequence[str], args: Mapping[str, Scalar], deadline_s: float
    ) -> Iterator[Item]:
        """Try every node; pulling an image may take ``seconds``. What is left of the jobs is cancelled."""
        image, seconds, lack = services.reach.image, float(args["seconds"]), ""
        if not image:
            lack = "the site file names no image to start: [workload] image"
        elif os.environ.get("SLURM_JOB_ID"):
            lack = "inside an allocation no job is submitted: run this where one logs in"
        mark = f"{PREFIX}{secrets.token_hex(4)}"
        try:
            if not lack:
                client = Client()
                planner = Planner(client.ask(), services.reach.slurm, seconds + PATIENCE_S, mark)
                until = time.monotonic() + deadline_s
                yield from _each(_Trial(client, planner, image, seconds, until), nodes, mark)
        except TargetError as error:
            lack = str(error)
        if lack:
            yield from (Item(f"{CONTAINER}/{node}", 0, "denied", why=lack) for node in nodes)

    def read(self, args: Mapping[str, Scalar], evidence: NodeEvidence) -> Sequence[SlurmContainer]:  # noqa: ARG002 - as all surveys
        """Read what came of each node."""
        begin = f"{CONTAINER}/"
        return [
            SlurmContainer(item.id.removeprefix(begin), evidence)
            for item in evidence.items
            if item.id.startswith(begin)
        ]


@dataclass(frozen=True, slots=True)
class _Trial:
    """What is tried on a node: each of its jobs has ``seconds``, and is over at ``until``."""

    client: Client
    planner: Planner
    image: str
    seconds: float
    until: float

    def on(self, node: str) -> list[Item]:
        """Start a container, ask when its job began, then look beside it and import the image."""
        plan = self.planner.plan(node)
        if not isinstance(plan, Visit):
            return [Item(f"{CONTAINER}/{node}", 0, plan.status, why=plan.why)]
        gpus = next((int(one.rpartition(":")[2]) for one in plan.options if one.startswith("--gres=")), 0)
        if plan.blind or not gpus:
            why = plan.blind or "Slurm gives out no GPU of it"
            return [Item(f"{CONTAINER}/{node}", 0, "denied", why=why)]
        name = look.for_enroot(self.image)
        inside = ("python3", *_ALONE, look.INSIDE, "/dev")
        job = self._job(plan, f"--container-image={name}", *inside)
        items = [replace(job, id=f"{CONTAINER}/{node}", asked={**job.asked, "gpus": gpus})]
        number = document_of(job).text("job", "[0-9]+")
        if isinstance(number, Read):
            items.append(replace(place_found(self.client, number.value), id=f"{START}/{node}"))
        imported = "" if look.is_file(self.image) else name
        python = self.planner.reach.python
        beside = (python, *_ALONE, look.BESIDE, "/dev", imported, f"{self._left_s:g}")
        return [*items, replace(self._job(plan, *beside), id=f"{NODE}/{node}")]

    def _job(self, plan: Visit, *argv: str) -> Item:
        if self._left_s <= 0:
            return Item("srun", 0, "denied", why="no time was left for it")
        patience_s = self.planner.reach.wait_s + self._left_s + PATIENCE_S
        done = self.client.run("srun", *plan.options, *argv, patience_s=patience_s)
        refused = done.status == "failed" and BUSY.search(done.err) is not None  # nobody's fault
        return replace(done, status="denied" if refused else done.status, err=done.err[-_KEPT:])

    @property
    def _left_s(self) -> float:
        """How long a job may take that begins now."""
        left_s = self.until - time.monotonic() - self.planner.reach.wait_s - PATIENCE_S
        return min(self.seconds, left_s)


def _each(trial: _Trial, nodes: Sequence[str], mark: str) -> Iterator[Item]:
    """Try all nodes, some at once; whoever stops this ends the jobs before he waits for their ends."""
    pool = ThreadPoolExecutor(_AT_ONCE, "containers")
    tried: list[Future[list[Item]]] = [pool.submit(trial.on, node) for node in nodes]
    try:
        for one in tried:
            yield from one.result()
    finally:
        with undisturbed():
            pool.shutdown(wait=False, cancel_futures=True)
            trial.client.cancel(mark)
            while wait(tried, timeout=1).not_done:  # a job may have been submitted just then
                trial.client.cancel(mark)
