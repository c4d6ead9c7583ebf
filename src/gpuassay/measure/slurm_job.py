"""The survey of a Slurm by a job: submitted as users do, soon over, and gone but for its record."""

from __future__ import annotations

import os
import secrets
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuassay.evidence.item import Item
from gpuassay.facts.slurm_trial import ACCOUNT, JOB, START, STATUS, JobTrial
from gpuassay.judge.fact import Read
from gpuassay.target import TargetError
from gpuassay.target.slurm import BUSY
from gpuassay.target.slurm_client import PREFIX, Client
from gpuassay.target.slurm_plan import Planner, Visit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuassay.evidence.recording import NodeEvidence
    from gpuassay.judge.fact import Scalar
    from gpuassay.judge.services import Services

_JOB_S = 60.0
_LOOK_S = 1.0  # between two looks for the record of a job

# Device files are opened and closed, which asks nothing of a GPU. `<>` opens for reading and writing.
_SCRIPT = f"""\
echo "began=$(date +%s.%N)"
echo "job=$SLURM_JOB_ID"
echo "node=$SLURMD_NODENAME"
echo "CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES"
echo "ROCR_VISIBLE_DEVICES=$ROCR_VISIBLE_DEVICES"
for device in /dev/nvidia[0-9]* /dev/dri/renderD[0-9]*; do
  test -c "$device" && echo "device=$device" && ( : <> "$device" ) 2>/dev/null && echo "opens=$device"
done
exit {STATUS}
"""


class SlurmJob:
    """One job of one processor and one GPU, on the first of the nodes that is free."""

    method = 1

    def ask(
        self,
        services: Services,
        nodes: Sequence[str],
        args: Mapping[str, Scalar],  # noqa: ARG002 - there are none
        deadline_s: float,
    ) -> Iterator[Item]:
        """Submit it, and look for its record until the deadline; whatever is left of it is cancelled."""
        if os.environ.get("SLURM_JOB_ID"):
            why = "inside an allocation no job is submitted: run this where one logs in"
            yield Item(JOB, 0, "denied", why=why)
            return
        try:
            client = Client()
            name = f"{PREFIX}{secrets.token_hex(4)}"
            try:
                yield from _tried(
                    client, Planner(client.ask(), services.reach.slurm, _JOB_S, name), nodes, deadline_s
                )
            finally:
                client.cancel(name)
        except TargetError as error:
            yield Item(JOB, 0, "denied", why=str(error))

    def read(self, args: Mapping[str, Scalar], evidence: NodeEvidence) -> Sequence[JobTrial]:  # noqa: ARG002 - as all surveys
        """Read the one job."""
        return [JobTrial(evidence)]


def _tried(client: Client, planner: Planner, nodes: Sequence[str], deadline_s: float) -> Iterator[Item]:
    until = time.monotonic() + deadline_s
    visit, gpus = place(planner, nodes)
    options = [option for option in visit.options if not option.startswith(("--gres=", "--exclusive"))]
    given = [*options, *([f"--gres=gpu:{gpus}"] if gpus else [])]
    done = client.run("srun", *given, "/bin/sh", "-c", _SCRIPT, patience_s=deadline_s / 2)
    refused = done.status == "failed" and BUSY.search(done.err) is not None  # nobody's fault
    status = "denied" if refused else done.status
    job = replace(done, id=JOB, status=status, asked={**done.asked, "gpus": gpus})
    yield job
    number = next(
        (line[4:] for line in job.out.decode(errors="replace").splitlines() if line[:4] == "job="), ""
    )
    if number.isdecimal():
        yield replace(place_found(client, number), id=START)
        yield _record(client, number, until)


def place_found(client: Client, number: str) -> Item:
    """Ask when a job was given its place, in seconds since 1970."""
    look = ("squeue", "--noheader", "--states=all", f"--jobs={number}", "--format=%S")
    return client.run("env", "SLURM_TIME_FORMAT=%s", *look)


def _record(client: Client, number: str, until: float) -> Item:
    """Look for what was accounted until it says that the job has ended: it is written down with a delay."""
    form = "--format=JobIDRaw,State,ExitCode,AllocTRES"
    while True:
        item = replace(client.run("sacct", "--noheader", "--parsable2", f"--jobs={number}", form), id=ACCOUNT)
        ended = JobTrial(_One(item, number)).accounted
        if item.status != "ok" or (isinstance(ended, Read) and ended.value) or time.monotonic() > until:
            return item
        time.sleep(_LOOK_S)


def place(planner: Planner, nodes: Sequence[str]) -> tuple[Visit, int]:
    """Choose a node that is free, and how many GPUs to ask for. Raises TargetError where there is none."""
    why = "no node has answered"
    for node in nodes:
        plan = planner.plan(node)
        known = planner.slurm.find(node)
        if isinstance(plan, Visit) and not plan.blind and known is not None:
            has = known.gpus
            return plan, int(isinstance(has, Read) and has.value > 0)
        why = f"{node}: {plan.blind if isinstance(plan, Visit) else plan.why}"
    raise TargetError(f"no node is free for a job ({why})")


class _One:
    """A record as evidence, before it is part of a recording."""

    problems = ()

    def __init__(self, item: Item, number: str) -> None:
        self._items = {ACCOUNT: item, JOB: Item(JOB, 0, out=f"job={number}\n".encode())}

    def item(self, item_id: str, /) -> Item | None:
        return self._items.get(item_id)

    def ref(self, item: Item, /) -> str:
        return item.id
