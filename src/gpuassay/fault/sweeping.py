"""Undo what a run that was killed has left broken: on nodes that are named, or that its recording names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuassay import rebooted
from gpuassay.evidence.recording import read_survey
from gpuassay.facts.fault_trial import END, said, trials
from gpuassay.fault import errand
from gpuassay.fault.wave import MODULE
from gpuassay.target import Job, TargetError
from gpuassay.target.progress import Tally

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpuassay.rebooted import Left
    from gpuassay.target import Target

_SWEEP_S = 180.0


def sweep(target: Target, node: str) -> list[str]:
    """Undo all that is armed on a node, and say what it was. Raises TargetError if something stays broken."""
    job = Job("sweep", errand.ARGV, (node,), deadline_s=_SWEEP_S, feed=errand.pack({}, "sweep"))
    with target.hold(node, _SWEEP_S) as run:
        item = run(job, Tally(1, lambda _line: None))[node, 0]
    found, left = (said(item).get(word) for word in ("found", "left"))
    if not isinstance(found, dict) or not isinstance(left, list):
        raise TargetError(f"{node} did not say what is left there: {item.why or 'its answer is no list'}")
    lines = [f"{node}: fault {mark}: {what}" for mark, what in sorted(found.items())]
    if left:
        raise TargetError("; ".join([*lines, f"still there: {', '.join(map(str, left))}"]))
    return lines


def unfinished(recording: Path) -> Iterator[str]:
    """Name the nodes of trials that a recording leaves without an end."""
    for path in sorted((recording / "measure").glob("*.jsonl")):
        found = read_survey(recording, path.stem)
        for trial in trials([(item, found.ref(item)) for item in found.items]):
            if not trial.has(END):
                yield trial.node


def sweep_reboots(target: Target, recording: Path) -> list[str]:
    """Remove the files that reboots have left, and say which nodes were cut. Raises TargetError."""
    lines = []
    for wave in rebooted.left(recording):
        for node, last in wave.open.items():
            lines.append(
                f"{node}: reboot {wave.mark} was cut after: {last}; what was ordered is not taken back"
            )
        try:
            lines += _files(target, wave) if wave.mounts else []
        except TargetError as error:
            raise TargetError("; ".join([*lines, str(error)])) from error
    return lines


def _files(target: Target, wave: Left) -> list[str]:
    """Remove them by the first node that can be had."""
    order = {"verb": "sweep", "mark": wave.mark, "mounts": [*wave.mounts]}
    feed, tried = errand.pack(order, MODULE), []
    for node in wave.nodes:
        job = Job("sweep", errand.ARGV, (node,), deadline_s=_SWEEP_S, feed=feed)
        try:
            item = target.run(job, Tally(1, lambda _line: None))[node, 0]
        except TargetError as error:
            tried.append(f"{node}: {error}")
            continue
        removed = said(item).get("removed")
        if isinstance(removed, list):
            return [f"file {path}" for path in removed]
        tried.append(f"{node}: {item.why or 'its answer is no list'}")
    where = f"files of reboot {wave.mark} may lie in {', '.join(wave.mounts)}"
    raise TargetError(f"{where}: {'; '.join(tried)}; try again when a node is back")
