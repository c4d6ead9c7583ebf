"""The survey of a Slurm by a storm: an array of jobs that do nothing, and one job of many steps.

No job asks for a GPU. What is looked at is whether each job came to its end and into the accounts, and how
long the controller took about it.
"""

from __future__ import annotations

import os
import secrets
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuassay.evidence.item import Item
from gpuassay.facts.slurm_churn import ACCOUNTS, ARRAY, QUEUE, SCHEDULER, STEPS, JobChurn, SlurmStorm
from gpuassay.judge.fact import Read
from gpuassay.measure.slurm_job import place
from gpuassay.target import TargetError
from gpuassay.target.slurm_client import PREFIX, Client
from gpuassay.target.slurm_plan import Planner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.judge.fact import Scalar
    from gpuassay.judge.services import Services

_JOB_S = 60.0
_LOOK_S = 1.0
_WRITTEN_S = 60.0  # for the accounts to take up what has ended
_LITTLE = ("--ntasks=1", "--cpus-per-task=1", "--mem=16M")
_FORM = "%i|%T|%V|%S"
_SECONDS = ("env", "SLURM_TIME_FORMAT=%s")
_LOOP = """\
i=0
while [ $i -lt "$1" ]; do
  begin=$(date +%s.%N)
  srun --mpi=none true
  status=$?
  echo "$begin $(date +%s.%N) $status"
  i=$((i + 1))
done
"""


class SlurmChurn:
    """``jobs`` in one array, then ``steps`` of one job."""

    method = 1

    def ask(
        self, services: Services, nodes: Sequence[str], args: Mapping[str, Scalar], deadline_s: float
    ) -> Iterator[Item]:
        """Submit, wait until all have ended or the deadline is near, and look; what is left is cancelled."""
        if os.environ.get("SLURM_JOB_ID"):
            why = "inside an allocation no job is submitted: run this where one logs in"
            yield Item(ARRAY, 0, "denied", why=why)
            return
        name = f"{PREFIX}{secrets.token_hex(4)}"
        try:
            client = Client()
            planner = Planner(client.ask(), services.reach.slurm, _JOB_S, name)
            visit, _ = place(planner, nodes)
            known = planner.slurm.find(visit.node)
            site = planner.options_for(known) if known else ()
            try:
                storm = _Storm(client, (f"--job-name={name}", *site), time.monotonic() + deadline_s / 2)
                yield from storm.array(int(args["jobs"]))
                yield storm.steps(int(args["steps"]), deadline_s / 3)
            finally:
                client.cancel(name)
        except TargetError as error:
            yield Item(ARRAY, 0, "denied", why=str(error))

    def read(self, args: Mapping[str, Scalar], evidence: NodeEvidence) -> Sequence[SlurmStorm]:  # noqa: ARG002
        """Read the jobs and the steps."""
        return [SlurmStorm(evidence)] if evidence.answered else []


class _Storm:
    def __init__(self, client: Client, options: tuple[str, ...], until: float) -> None:
        self._client = client
        self._options = options
        self._until = until

    def array(self, jobs: int) -> Iterator[Item]:
        """Submit an array, and tell what the queue, the accounts and the scheduler say when it is over."""
        words = (f"--array=0-{jobs - 1}", "--time=2", "--output=/dev/null", "--parsable", "--wrap=true")
        made = self._client.run("sbatch", *_LITTLE, *self._options, *words)
        yield replace(made, id=ARRAY, asked={**made.asked, "jobs": jobs})
        number = made.out.decode(errors="replace").strip().partition(";")[0]
        if made.status != "ok" or not number.isdecimal():
            return
        listing = ("squeue", "--noheader", f"--jobs={number}", "--format=%A")
        while self._client.run(*listing).out.strip() and time.monotonic() < self._until:
            time.sleep(_LOOK_S)
        look = ("squeue", "--noheader", "--array", "--states=all", f"--jobs={number}", f"--format={_FORM}")
        yield replace(self._client.run(*_SECONDS, *look), id=QUEUE)
        yield self._accounts(number, jobs)
        yield replace(self._client.run("sdiag"), id=SCHEDULER)

    def steps(self, count: int, patience_s: float) -> Item:
        """Run steps one after the other in a job of their own."""
        words = ("--time=10", "--immediate=60", "/bin/sh", "-c", _LOOP, "sh", str(count))
        done = self._client.run(
            "salloc", "--nodes=1", *_LITTLE, *self._options, *words, patience_s=patience_s
        )
        return replace(done, id=STEPS)

    def _accounts(self, number: str, jobs: int) -> Item:
        """Look until all jobs are written down, which they are with a delay."""
        words = ("--noheader", "--parsable2", "--allocations", f"--jobs={number}")
        until = time.monotonic() + _WRITTEN_S
        while True:
            form = "--format=JobID,State,Submit,Start"
            item = replace(self._client.run(*_SECONDS, "sacct", *words, form), id=ACCOUNTS)
            missing = JobChurn(_Two(item, jobs)).unaccounted
            whole = isinstance(missing, Read) and missing.value == 0
            if item.status != "ok" or whole or time.monotonic() > until:
                return item
            time.sleep(_LOOK_S)


class _Two:
    """Accounts as evidence, before they are part of a recording."""

    problems = ()

    def __init__(self, item: Item, jobs: int) -> None:
        self._items = {ACCOUNTS: item, ARRAY: Item(ARRAY, 0, asked={"jobs": jobs})}

    def item(self, item_id: str, /) -> Item | None:
        return self._items.get(item_id)

    def ref(self, item: Item, /) -> str:
        return item.id
