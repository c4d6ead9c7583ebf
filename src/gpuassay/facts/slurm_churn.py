"""What came of a storm of jobs in Slurm: which were lost or not accounted for, and how long they waited."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from gpuassay.facts.churn import percentile
from gpuassay.facts.source import take, text
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

ARRAY, QUEUE, ACCOUNTS, SCHEDULER, STEPS = "array", "queue", "accounts", "scheduler", "steps"
DONE = "COMPLETED"

_OFF = "accounting storage is disabled"  # sacct's words where there is none
_CYCLE = re.compile(r"Main schedule statistics.*?Max cycle:\s+([0-9]{1,15})", re.DOTALL)
_STEP = re.compile(r"([0-9]{9,11}\.[0-9]{1,9}) ([0-9]{9,11}\.[0-9]{1,9}) ([0-9]{1,3})", re.ASCII)
_US = 1_000_000.0


class Task(NamedTuple):
    """One job of an array: how it ended, and how many seconds it waited; None if it has not begun."""

    state: str
    waited_s: float | None


class JobChurn:
    """An array of jobs that do nothing. Times are the controller's, in whole seconds."""

    where, node = "jobs", ""
    models: tuple[str, ...] = ()

    def __init__(self, evidence: Evidence) -> None:
        """Take the answers of the survey."""
        self._evidence = evidence

    @property
    def lost(self) -> Fact[int]:
        """How many of them did not end well, or are not known any more."""
        made, queue, accounts = self._made, self._queue, self._accounts
        if isinstance(made, Unread):
            return made
        if isinstance(queue, Unread):
            return queue
        # The controller forgets a job some minutes after its end (MinJobAge): then accounts still know it.
        known = {**(accounts.value if isinstance(accounts, Read) else {}), **queue.value}
        done = sum(task.state == DONE for task in known.values())
        bad = sorted({task.state for task in known.values()} - {DONE})
        words = [*bad, *(["not known any more"] if len(known) < made.value else [])]
        return Read(made.value - done, queue.evidence, f"of {made.value}: {', '.join(words) or 'none'}")

    @property
    def unaccounted(self) -> Fact[int]:
        """How many of them sacct does not show as ended well."""
        made, accounts = self._made, self._accounts
        if isinstance(made, Unread):
            return made
        if isinstance(accounts, Unread):
            return accounts
        done = sum(task.state == DONE for task in accounts.value.values())
        return Read(made.value - done, accounts.evidence, f"of {made.value}")

    @property
    def start_p99_s(self) -> Fact[float]:
        """From the submission until a job had its place, which 99 of 100 stay within."""
        made, queue = self._made, self._queue
        if isinstance(made, Unread):
            return made
        if isinstance(queue, Unread):
            return queue
        waits = [task.waited_s for task in queue.value.values() if task.waited_s is not None]
        if not waits:
            return Unread("failed", "no job has begun", queue.evidence)
        note = f"median {percentile(waits, 50):g} s, p99 {percentile(waits, 99):g} s of {len(waits)}"
        return Read(percentile(waits, 99), queue.evidence, note)

    @property
    def cycle_max_s(self) -> Fact[float]:
        """The longest pass of the main scheduler since its statistics began, which is at midnight."""
        shown = text(self._evidence, SCHEDULER)
        if isinstance(shown, Unread):
            return shown
        found = _CYCLE.search(shown.value)
        if found is None:
            return Unread("garbled", "sdiag shows no longest cycle", shown.evidence)
        return Read(int(found[1]) / _US, shown.evidence)

    @cached_property
    def _made(self) -> Fact[int]:
        item = take(self._evidence, ARRAY)
        if isinstance(item, Unread):
            return item
        count = item.value.asked.get("jobs")
        if not isinstance(count, int) or count < 1:
            return Unread("garbled", "how many is not told", item.evidence)
        return Read(count, item.evidence)

    @cached_property
    def _queue(self) -> Fact[Mapping[str, Task]]:
        shown = text(self._evidence, QUEUE)
        return shown if isinstance(shown, Unread) else Read(dict(_tasks(shown.value)), shown.evidence)

    @cached_property
    def _accounts(self) -> Fact[Mapping[str, Task]]:
        shown = text(self._evidence, ACCOUNTS)
        if isinstance(shown, Unread):
            return Unread("denied", shown.why, shown.evidence) if _OFF in shown.why else shown
        return Read(dict(_tasks(shown.value)), shown.evidence)


class StepChurn:
    """Steps of one job, one after the other, each of which does nothing."""

    where, node = "steps", ""
    models: tuple[str, ...] = ()

    def __init__(self, evidence: Evidence) -> None:
        """Take the answers of the survey."""
        self._evidence = evidence

    @property
    def failed(self) -> Fact[int]:
        """How many did not end well."""
        steps = self._steps
        if isinstance(steps, Unread):
            return steps
        return Read(sum(status != 0 for _, status in steps.value), steps.evidence, f"of {len(steps.value)}")

    @property
    def step_p99_s(self) -> Fact[float]:
        """From asking for one until it had ended, which 99 of 100 stay within."""
        steps = self._steps
        if isinstance(steps, Unread):
            return steps
        times = [seconds for seconds, _ in steps.value]
        note = f"median {percentile(times, 50):.2f} s, p99 {percentile(times, 99):.2f} s of {len(times)}"
        return Read(percentile(times, 99), steps.evidence, note)

    @cached_property
    def _steps(self) -> Fact[list[tuple[float, int]]]:
        shown = text(self._evidence, STEPS)
        if isinstance(shown, Unread):
            return shown
        lines = shown.value.split("\n")[:-1]
        found = [told for line in lines if (told := _STEP.fullmatch(line))]
        if not found or len(found) < len(lines):
            return Unread("garbled", f"no step can be read from: {brief(shown.value)}", shown.evidence)
        return Read([(float(one[2]) - float(one[1]), int(one[3])) for one in found], shown.evidence)


class SlurmStorm:
    """All churn of one cluster."""

    def __init__(self, evidence: Evidence) -> None:
        """Take the answers of the survey."""
        self.jobs = JobChurn(evidence)
        self.steps = StepChurn(evidence)


def _tasks(shown: str) -> Iterator[tuple[str, Task]]:
    """Read ``JOB_TASK|STATE|SUBMITTED|STARTED``, the times in seconds since 1970."""
    for line in shown.splitlines():
        values = [value.strip() for value in line.split("|")]
        if len(values) == 4 and "_" in values[0]:  # noqa: PLR2004 - as asked
            number, state, submitted, started = values
            known = submitted.isdecimal() and started.isdecimal() and int(started) > 0
            words = state.split()
            yield (
                number,
                Task(words[0] if words else "", float(int(started) - int(submitted)) if known else None),
            )
