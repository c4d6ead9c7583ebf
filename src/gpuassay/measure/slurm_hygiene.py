"""The survey of what a killed job leaves: a process slips away from it, and the next job looks."""

from __future__ import annotations

import os
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuassay.evidence.item import Item
from gpuassay.facts.slurm_trial import KILLED, LOOK, KilledTrial
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

# The grandchild leaves its group, holds a GiB of the first GPU where there is CUDA, and would end by itself.
_HOLD = """\
import ctypes, os, signal, sys, time
ends = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    for stream in range(3):
        os.dup2(os.open(os.devnull, os.O_RDWR), stream)
    held = "no"
    try:
        cuda, context, memory = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
        made = cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
        if made and cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 30)) == 0:
            held = "yes"
    except (OSError, AttributeError):
        pass
    os.write(ends[1], held.encode())
    time.sleep(120)
    os._exit(0)
print("held=" + os.read(ends[0], 8).decode(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
# Whatever it finds of ours it ends. The mark comes backwards, so that the one who looks does not find itself.
_FIND = """\
import os, signal, subprocess, sys
left = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            left += [int(pid)] if sys.argv[1][::-1].encode() in file.read() else []
    except OSError:
        pass
print(f"left={len(left)}")
try:
    query = ("nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader")
    done = subprocess.run(query, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=20)
    if done.returncode == 0:
        print(f"programs={len(done.stdout.split())}")
except (OSError, subprocess.TimeoutExpired):
    pass
for pid in left:
    os.kill(pid, signal.SIGKILL)
"""


class SlurmHygiene:
    """Two jobs, one after the other, for all of the first node that is free."""

    method = 1

    def ask(
        self,
        services: Services,
        nodes: Sequence[str],
        args: Mapping[str, Scalar],  # noqa: ARG002 - there are none
        deadline_s: float,
    ) -> Iterator[Item]:
        """Run both; what the second finds of the first it ends, and both are cancelled where they are cut."""
        if os.environ.get("SLURM_JOB_ID"):
            yield Item(KILLED, 0, "denied", why="inside an allocation no job is submitted")
            return
        mark = f"{PREFIX}{secrets.token_hex(4)}"
        reach = services.reach.slurm
        try:
            client = Client()
            try:
                visit, _ = place(Planner(client.ask(), reach, _JOB_S, mark), nodes)
                for item_id, script, word in (
                    (KILLED, _HOLD, f"hold-{mark}"),
                    (LOOK, _FIND, f"hold-{mark}"[::-1]),
                ):
                    argv = ("srun", *visit.options, reach.python, "-c", script, word)
                    yield replace(client.run(*argv, patience_s=deadline_s / 2), id=item_id)
            finally:
                client.cancel(mark)
        except TargetError as error:
            yield Item(KILLED, 0, "denied", why=str(error))

    def read(self, args: Mapping[str, Scalar], evidence: NodeEvidence) -> Sequence[KilledTrial]:  # noqa: ARG002 - as all surveys
        """Read the two jobs as one trial."""
        return [KilledTrial(evidence)]
