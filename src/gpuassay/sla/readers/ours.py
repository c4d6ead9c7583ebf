"""Our own recordings: what Kubernetes said of its nodes then, and what was broken on purpose, and watched.

Of a fault that we caused, the time is ours from when it took hold until it was undone. Where the provider
took the node, it is ours for as long as he may need to replace it; from then on it is his.
"""

from __future__ import annotations

from math import ceil, floor
from typing import TYPE_CHECKING

from gpuassay.audited import compare_recorded
from gpuassay.evidence.recording import RecordingError, read_recording, read_survey
from gpuassay.facts.fault_trial import HANDED_OVER, trials
from gpuassay.judge.fact import Read
from gpuassay.sla.outages import History, Timed, Window, joined
from gpuassay.sla.readers import ReadError, kube, watched

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpuassay.facts.fault_trial import FaultTrial
    from gpuassay.sla.readers import Reading


def read(folder: Path, how: Reading) -> History:
    """Read a recording. Raises ReadError."""
    try:
        recording = read_recording(folder)
    except RecordingError as error:
        raise ReadError(str(error)) from error
    notes = [f"{folder}: {recording.seal}: {recording.seal_why}"] if recording.seal != "sealed" else []
    broken = [(trial, name) for name in _surveys(folder) for trial in _trials(folder, name)]
    if how.suite:
        compare_recorded((trial for trial, _ in broken), recording, folder, how.suite)
    found = [_trial(trial, name, how) for trial, name in broken]
    item = recording.cluster.item("kubernetes/nodes")
    if item is not None and item.status == "ok":
        place = f"{folder}: {recording.cluster.ref(item)}"
        end = recording.meta.clock
        taken = None if end is None else int(end.timestamp())
        found.append(kube.read(item.out.decode(errors="replace"), place, how, taken))
    if not found:
        notes.append(f"{folder}: says nothing of nodes over time: no fault was watched, no Kubernetes asked")
    return joined([*found, History(notes=tuple(notes))])


def _surveys(folder: Path) -> Iterator[str]:
    """Name what was measured of the cluster as a whole; faults are among that."""
    yield from sorted(file.stem for file in (folder / "measure").glob("*.jsonl"))


def _trials(folder: Path, name: str) -> Iterator[FaultTrial]:
    survey = read_survey(folder, name)
    return trials([(item, survey.ref(item)) for item in survey.items])


def _trial(trial: FaultTrial, what: str, how: Reading) -> History:
    """Read one fault: when it was, and how fast the provider was."""
    source = f"measure/{what}, {trial.node}"
    if trial.span is None:
        return History(notes=(f"{source}: nothing was broken, so nothing was timed",))
    begin, end = floor(trial.span[0]), ceil(trial.span[1])
    taken = isinstance(trial.end, Read) and trial.end.value == HANDED_OVER
    until = begin + how.grace_s if taken else end
    window = Window(begin, until, ours=True, nodes=frozenset({trial.node}))
    facts = {"detect": trial.detect_s, "isolate": trial.isolate_s, "replace": trial.replace_s}
    seconds = {key: fact.value for key, fact in facts.items() if isinstance(fact, Read)}
    why = {key: fact.why for key, fact in facts.items() if not isinstance(fact, Read)}
    if not seconds:  # what had to be noticed is not told here: some lines in a log must drain nothing
        told = History(windows=(window,), notes=(f"{source}: the provider did nothing; --sla judges that",))
    else:
        told = History(windows=(window,), times=(Timed(trial.node, what, seconds, why, source),))
    return joined([told, watched.read(trial, source)])
