"""What a run against each kind of tooling has to come to: times, verdicts, ends, and what is left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from breaking import DETECT_S, NODE, Breaking, broken_at, end, value
from sicknode import REASON, SCRATCH, SHARED, Provider, attend
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sicknode import SickNode, Told

_NEEDS = ("nvidia", "nvswitch", "rdma", "amd", "hgx")
_DECLARES = f"""
[remediation]
channels = ["kmsg", "dcgm"]
[[mount]]
path = "{SHARED}"
role = "data"
[[mount]]
path = "{SCRATCH}"
role = "local"
"""


def run_of(node: SickNode, folder: Path, faults: Sequence[Told], watch_s: int, mend_s: int = 20) -> Breaking:
    """Prepare a run of these faults, one after the other."""
    checks, bounds = [fault.check for fault in faults], (watch_s, mend_s, 60)
    return Breaking(node.slurm, folder, checks, bounds, needs=_NEEDS, declares=_DECLARES)


def good(node: SickNode, folder: Path, faults: Sequence[Told]) -> None:
    """Prove that who takes the node for what is serious passes, with times right to two seconds."""
    run = run_of(node, folder, faults, 12)
    provider = Provider(node, run, _serious(faults))
    with run.start() as process:
        assert attend(process, node.drive, provider) == 0
    assert run.verdicts() == {fault.name: "pass" for fault in faults}
    trials = run.trials()
    ends = ["handed over" if fault.serious else "undone" for fault in faults]
    assert [end(trial) for trial in trials] == ends
    taken = [trial for trial in trials if end(trial) == "handed over"]
    for trial, drained, let_in in zip(taken, provider.drained, provider.let_in, strict=True):
        drain_s, let_in_s = (at - broken_at(trial) for at in (drained, let_in))
        assert abs(value(trial.detect_s) - max(0.0, drain_s)) <= 2, trial.fault
        assert abs(value(trial.isolate_s) - max(0.0, drain_s)) <= 2, trial.fault
        assert abs(value(trial.replace_s) - let_in_s) <= 2, trial.fault
        assert value(trial.well) is True, (trial.fault, trial.well)


def none(node: SickNode, folder: Path, faults: Sequence[Told]) -> None:
    """Prove that who does nothing has missed what is serious and no more, and that all is undone."""
    run = run_of(node, folder, faults, 4)
    with run.start() as process:
        attend(process, node.drive)
    assert run.verdicts() == {fault.name: fault.wrong if fault.serious else "pass" for fault in faults}
    assert {end(trial) for trial in run.trials()} == {"undone"}
    assert [fault.name for fault in faults if fault.stays and node.shows(fault.sign)] == []


def everything(node: SickNode, folder: Path, faults: Sequence[Told]) -> None:
    """Prove that who drains for what is not serious is told so, and that his drains stay his."""
    faults = [fault for fault in faults if not fault.serious]
    run = run_of(node, folder, faults, 8)
    provider = Provider(node, run, faults)
    with run.start() as process:
        attend(process, node.drive, provider)
    assert run.verdicts() == {fault.name: fault.wrong for fault in faults}
    assert {end(trial) for trial in run.trials()} == {"handed over"}


def late(node: SickNode, folder: Path, faults: Sequence[Told]) -> None:
    """Prove that a drain after the limit fails where there is one; the limit is short in these tests."""
    run = run_of(node, folder, faults, 2 * DETECT_S + 4)
    provider = Provider(node, run, _serious(faults), patience_s=DETECT_S + 2)
    with run.start() as process:
        attend(process, node.drive, provider)
    wrong = {fault.name: "fail" if fault.serious and fault.timed else "pass" for fault in faults}
    assert run.verdicts() == wrong
    for fault, trial in zip(faults, run.trials(), strict=True):
        assert end(trial) == ("handed over" if fault.serious else "undone"), fault.name


def taken_back(node: SickNode, folder: Path, fault: Told) -> None:
    """Prove that a drain that is taken back while the node is broken fails, and else does not."""
    run = run_of(node, folder, [fault], 8)
    provider = Provider(node, run, [fault], mends=False)
    with run.start() as process:
        attend(process, node.drive, provider)
    assert run.verdicts() == {fault.name: fault.wrong if fault.stays else "pass"}
    (trial,) = run.trials()
    assert end(trial) == "handed over"
    assert value(trial.well) is not fault.stays


def lost(node: SickNode, folder: Path, faults: Sequence[Told]) -> None:
    """Prove that after what cannot be undone nothing more is broken, and that it is said what to do."""
    run = run_of(node, folder, faults, 3)
    with run.start() as process:
        assert attend(process, node.drive) == 1
    assert run.verdicts() == {faults[0].name: "fail"}
    (trial,) = run.trials()
    assert end(trial) == "restore failed"
    junit = (run.run_dir / "junit.xml").read_text(encoding="utf-8")
    assert f"nothing more is broken in this run: {NODE}: bridge_reset is not undone" in junit
    assert "is lost until the node is restarted" in junit


def killed(node: SickNode, folder: Path, fault: Told, after_s: float, *, provided: bool) -> str:
    """Kill the controller so long after a trial began, and prove that nothing of ours stays broken.

    Where a provider is there, what he has set stays as it is. Give what was kept, for the story.
    """
    run = run_of(node, folder, [fault], 4, mend_s=10)
    provider = Provider(node, run, [fault], lets_in=False)
    looks = (node.drive, provider) if provided else (node.drive,)
    with run.start() as process:
        attend(process, *looks, until=lambda: run.has("trial"))
        at = time.monotonic() + after_s
        attend(process, *looks, until=lambda: time.monotonic() >= at)
        if process.poll() is None:
            run.kill(process)
    (trial,) = run.trials()
    drained = bool(provider.drained)
    wait_until(lambda: not node.waits())
    if not (drained and trial.has("stand-down")):  # else it is the provider's to mend
        wait_until(lambda: not (fault.stays and node.shows(fault.sign)))
    shown = node.slurm.run("scontrol", "show", "node", NODE).stdout
    assert (REASON in shown) == drained
    run.clean(check=not drained)  # who looks there again is not let in while the provider keeps it out
    return f"{fault.name}: killed after {after_s:.1f} s; kept: {run.story()}; drained: {drained}"


def _serious(faults: Sequence[Told]) -> list[Told]:
    return [fault for fault in faults if fault.serious]
