"""What came of a small job that was really submitted: what it saw, how it ended, what was written down."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts.source import take, text
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

STATUS = 3
"""With this our job ends, which no success and no usual failure does: it has to come back as it was."""
JOB, START, ACCOUNT = "job", "start", "sacct"
KILLED, LOOK = "killed", "look"

_GPU = re.compile(r"(?:^|,)gres/gpu=([0-9]{1,6})(?:,|$)", re.ASCII)
_TIME = re.compile(r"[0-9]{9,11}(?:\.[0-9]{1,9})?", re.ASCII)
_OFF = "accounting storage is disabled"  # sacct's words where there is none
_ENDED = ("FAILED", "COMPLETED")


class JobTrial:
    """One job with one GPU, where the node has any."""

    where, node = "slurm", ""
    models: tuple[str, ...] = ()

    def __init__(self, evidence: Evidence) -> None:
        """Take the answers of the survey."""
        self._evidence = evidence

    @property
    def ran(self) -> Fact[bool]:
        """Whether the job was submitted, started, and gave back how it ended."""
        item = take(self._evidence, JOB)
        told = self._evidence.item(JOB)
        if isinstance(item, Read):
            return Read(value=False, evidence=item.evidence, note=f"it ended with 0, and not with {STATUS}")
        if told is None or item.kind != "failed":
            return item
        note = f"job {self._word('job')} on {self._word('node')}" if told.exit == STATUS else item.why
        return Read(told.exit == STATUS and bool(self._word("job")), item.evidence, note)

    @property
    def prolog_s(self) -> Fact[float]:
        """How many seconds after Slurm had found a place for the job it began.

        That is the time of prologs and of starting. The place is found by the controller's clock, in whole
        seconds, and the job begins by the node's: it is wrong by what lies between these.
        """
        began, started = self._word("began"), self._started
        if not _TIME.fullmatch(began):
            return self._not_run("when it began")
        if isinstance(started, Unread):
            return started
        seconds = round(float(began) - started.value, 1)
        if seconds < -1:
            why = f"it began {-seconds} s before it was given its place: the clocks differ"
            return Unread("garbled", why, started.evidence)
        return Read(max(0.0, seconds), started.evidence, f"on {self._word('node')}")

    @property
    def gpus_named(self) -> Fact[int]:
        """How many GPUs the job was told that it has, having asked for one."""
        if not self._asked_for_gpu:
            return self._no_gpu
        named = {key: self._word(key) for key in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")}
        known = {key: value for key, value in named.items() if value}
        if not self._word("job"):
            return self._not_run("which GPUs it was given")
        note = ", ".join(f"{key}={brief(value)}" for key, value in known.items()) or "neither variable is set"
        counts = [len(value.split(",")) for value in known.values()]
        return Read(max(counts, default=0), self._ref, note)

    @property
    def gpus_open(self) -> Fact[int]:
        """How many GPUs the job could open, having asked for one."""
        if not self._asked_for_gpu:
            return self._no_gpu
        if not self._word("job"):
            return self._not_run("which GPUs it can open")
        there, opened = list(self._words("device")), list(self._words("opens"))
        if not there:
            return Unread("not_found", "the node has no device files of GPUs", self._ref)
        return Read(
            len(opened), self._ref, f"of {len(there)} devices it opened {', '.join(opened) or 'none'}"
        )

    # --- what was written down ---------------------------------------------------------------------

    @property
    def accounted(self) -> Fact[bool]:
        """Whether sacct knows that the job has ended."""
        record = self._record
        if isinstance(record, Unread):
            return record
        state = record.value.get("State", "nothing")
        return Read(state.startswith(_ENDED), record.evidence, f"sacct says {brief(state)}")

    @property
    def exit_kept(self) -> Fact[bool]:
        """Whether its exit status was written down as it was."""
        record = self._record
        if isinstance(record, Unread):
            return record
        code = record.value.get("ExitCode", "nothing")
        return Read(code == f"{STATUS}:0", record.evidence, f"sacct says {brief(code)}, it was {STATUS}")

    @property
    def gpus_kept(self) -> Fact[int]:
        """How many GPUs were written down for it, which had one."""
        if not self._asked_for_gpu:
            return self._no_gpu
        record = self._record
        if isinstance(record, Unread):
            return record
        listed = record.value.get("AllocTRES", "")
        found = _GPU.search(listed)
        return Read(int(found[1]) if found else 0, record.evidence, f"AllocTRES={brief(listed)}")

    @cached_property
    def _record(self) -> Fact[dict[str, str]]:
        """Read the line of the job itself: steps have a dot in their number."""
        shown = text(self._evidence, ACCOUNT)
        if isinstance(shown, Unread):
            return Read({}, shown.evidence) if _OFF in shown.why else shown
        keys = ("JobIDRaw", "State", "ExitCode", "AllocTRES")
        for line in shown.value.splitlines():
            values = line.split("|")
            if len(values) == len(keys) and values[0] == self._word("job"):
                return Read(dict(zip(keys, values, strict=True)), shown.evidence)
        if shown.value.strip():
            return Unread("garbled", f"sacct tells of no job {self._word('job')}", shown.evidence)
        return Read({}, shown.evidence)

    @property
    def _started(self) -> Fact[float]:
        shown = text(self._evidence, START)
        if isinstance(shown, Unread):
            return shown
        told = shown.value.strip()
        if not _TIME.fullmatch(told):
            return Unread("garbled", f"{brief(told) or 'nothing'} is no time in seconds", shown.evidence)
        return Read(float(told), shown.evidence)

    # --- what the job said -------------------------------------------------------------------------

    @property
    def _asked_for_gpu(self) -> bool:
        item = self._evidence.item(JOB)
        return item is None or item.asked.get("gpus") != 0

    @property
    def _no_gpu(self) -> Unread:
        return Unread("denied", "Slurm gives out no GPU on any node that was free", self._ref)

    def _not_run(self, what: str) -> Unread:
        ran = self.ran
        if isinstance(ran, Unread):
            return ran
        return Unread("failed", f"the job did not say {what}: {ran.note}", ran.evidence)

    def _word(self, key: str) -> str:
        return next(self._words(key), "")

    def _words(self, key: str) -> Iterator[str]:
        item = self._evidence.item(JOB)
        lines = item.out.decode(errors="replace").splitlines() if item is not None else []
        return (line.partition("=")[2].strip() for line in lines if line.startswith(f"{key}="))

    @property
    def _ref(self) -> str:
        item = self._evidence.item(JOB)
        return self._evidence.ref(item) if item is not None else ""


class KilledTrial:
    """A job that ended by SIGKILL and left a process behind, and the next one on its node."""

    where, node = "slurm", ""
    models: tuple[str, ...] = ()

    def __init__(self, evidence: Evidence) -> None:
        """Take the answers of the survey."""
        self._evidence = evidence

    @property
    def left_processes(self) -> Fact[int]:
        """How many processes of the killed job the next one found."""
        return self._found("left")

    @property
    def gpu_programs(self) -> Fact[int]:
        """How many programs were on the node's GPUs when the next job began; told by nvidia-smi alone."""
        return self._found("programs")

    def _found(self, key: str) -> Fact[int]:
        killed = self._evidence.item(KILLED)
        if killed is None or b"held=" not in killed.out:
            asked = take(self._evidence, KILLED)
            return asked if isinstance(asked, Unread) else Unread("garbled", "the first job said nothing")
        if killed.status == "ok":
            return Unread(
                "failed", "the first job was to be killed, and ended well", self._evidence.ref(killed)
            )
        shown = text(self._evidence, LOOK)
        if isinstance(shown, Unread):
            return shown
        found = re.search(rf"^{key}=([0-9]{{1,6}})$", shown.value, re.MULTILINE)
        if found is None:
            return Unread("denied", f"the next job could not tell {key}: no nvidia-smi there", shown.evidence)
        held = (
            "held GPU memory" if b"held=yes" in killed.out else "held no GPU memory: there is no CUDA for it"
        )
        return Read(int(found[1]), shown.evidence, f"the killed job {held}")
