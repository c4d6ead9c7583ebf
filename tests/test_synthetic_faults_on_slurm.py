"""Lines that tell of a fault, on a real Slurm whose node has a kernel log, with tooling that reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from breaking import NODE, Breaking, Tooling
from gpuassay.judge.fact import Read
from nodes import Rack
from slurmd import LOGIN, Slurm, needs_slurm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = needs_slurm()
FILE = "test_synthetic_faults.py"
FALLEN, SPARED = f"{FILE}::test_fallen_gpu_line", f"{FILE}::test_application_error_lines"
GPU = "0000:18:00.0"


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """Boot a Slurm of three nodes, of which one shows a GPU on its bus and has a file for a kernel log."""
    folder = tmp_path_factory.mktemp("rack")
    device = folder / "devices" / GPU
    device.mkdir(parents=True)
    (device / "class").write_text("0x030200\n", encoding="ascii")
    (device / "vendor").write_text("0x10de\n", encoding="ascii")
    (folder / "kmsg").write_text("6,1,1000,-;Linux version 6.8.0\n", encoding="ascii")
    with Rack(folder, LOGIN, "n1", NODE, "n3") as rack:
        rack[NODE].cover("/dev/kmsg", folder / "kmsg")
        rack[NODE].cover("/sys/bus/pci/devices", folder / "devices")
        slurm = Slurm(rack, folder / "slurm", {"main": "Nodes=ALL Default=YES State=UP"})
        slurm.start()
        yield slurm


@pytest.fixture
def slurm(booted: Slurm) -> Iterator[Slurm]:
    """Give it with all nodes idle, and take care that a test leaves nothing running."""
    yield booted
    booted.assert_nothing_runs()
    booted.revive(NODE)


def run_of(slurm: Slurm, folder: Path, check: str, channels: str) -> Breaking:
    """Prepare a run of one check, with ten seconds to watch, on a site that declares these channels."""
    declared = f"[remediation]\nchannels = [{channels}]\n"
    return Breaking(slurm, folder, [check], (10, 10, 20), needs=["nvidia"], declares=declared)


def reads(slurm: Slurm, word: str) -> Tooling:
    """Give tooling that drains the node once its kernel log has a word that it had not before."""
    lines = slurm.rack[NODE].run("cat", "/dev/kmsg").stdout.splitlines()
    begun = len(lines)

    def sick() -> bool:
        now = slurm.rack[NODE].run("cat", "/dev/kmsg").stdout.splitlines()
        return any(word in line for line in now[begun:])

    return Tooling(sick, lambda: slurm.drain(NODE, "Xid in the log"))


def test_tooling_that_reads_the_log_takes_the_node(slurm: Slurm, tmp_path: Path) -> None:
    """Xid 79 in the node's log drains the node: the check passes, and the node is handed over as it is."""
    run = run_of(slurm, tmp_path, FALLEN, '"kmsg"')
    with reads(slurm, "Xid (PCI:0000:18:00): 79"), run.start() as process:
        assert process.wait(120) == 0
    assert run.verdicts() == {"fallen_gpu_line": "pass"}
    (trial,) = run.trials()
    assert isinstance(trial.end, Read)
    assert trial.end.value == "handed over"
    assert "Xid in the log" in slurm.run("scontrol", "show", "node", NODE).stdout


@pytest.mark.parametrize(("channels", "verdict", "status"), [('"kmsg"', "fail", 1), ("", "unseen", 0)])
def test_a_line_that_nobody_reads(
    slurm: Slurm, tmp_path: Path, channels: str, verdict: str, status: int
) -> None:
    """Where nothing comes of it, it is a miss if the log was said to be read, and else it is unseen."""
    run = run_of(slurm, tmp_path, FALLEN, channels)
    with run.start() as process:
        assert process.wait(120) == status
    assert run.verdicts() == {"fallen_gpu_line": verdict}
    (trial,) = run.trials()
    assert isinstance(trial.end, Read)
    assert trial.end.value == "undone"


def test_tooling_that_drains_on_everything_fails(slurm: Slurm, tmp_path: Path) -> None:
    """Who drains a node for an error that a program made fails, and what he set stays."""
    run = run_of(slurm, tmp_path, SPARED, '"kmsg"')
    with reads(slurm, "Xid"), run.start() as process:
        assert process.wait(120) == 1
    assert run.verdicts() == {"application_error_lines": "fail"}
    assert "Xid in the log" in slurm.run("scontrol", "show", "node", NODE).stdout
