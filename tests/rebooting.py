"""A run that reboots nodes of a real Slurm, and the power supply that its RebootProgram pulls."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.recording import read_measurement
from nodes import Rack
from slurmd import LOGIN, Slurm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gpuassay.evidence.item import Item

ROOT = Path(__file__).parents[1]
NODES = ("n1", "n2", "n3")

_BOOT_S = (
    3.0  # Slurm counts a boot in seconds: one within the second of its order it takes for an earlier one
)


@dataclass
class Power:
    """Boots each node anew of which slurmd has run the RebootProgram: with a new boot id.

    ``shared`` is a file system that all nodes see, and that is none of their own. ``dead`` are nodes that
    stay off; ``then`` is called with each that was booted, and ``boots`` names these.
    """

    slurm: Slurm
    asked: Path
    shared: Path
    dead: set[str] = field(default_factory=set)
    then: Callable[[str], object] = lambda _node: None
    boots: list[str] = field(default_factory=list)
    _off: dict[str, float] = field(default_factory=dict)

    def until_over(self, process: subprocess.Popen[bytes], patience_s: float = 180.0) -> int:
        """Boot what asks for it until a run is over, and give how that ended.

        Nodes die with the thread that boots them, so it is the test's own.
        """
        self.until(lambda: process.poll() is not None, patience_s)
        return process.wait()

    def until(self, good: Callable[[], bool], patience_s: float = 60.0) -> None:
        """Boot what asks for it until something is so. Raises TimeoutError."""
        until = time.monotonic() + patience_s
        while not good():
            if time.monotonic() > until:
                raise TimeoutError
            self.serve()
            time.sleep(0.1)

    def serve(self) -> None:
        """Cut the power of what asks for it, and boot what has been off for long enough."""
        for file in sorted(self.asked.iterdir()):
            file.unlink()
            self.slurm.rack[file.name].power_off()
            self._off[file.name] = time.monotonic()
        for node in [one for one, since in self._off.items() if time.monotonic() > since + _BOOT_S]:
            del self._off[node]
            if node not in self.dead:
                self.slurm.reboot(node)
                self.boots.append(node)
                self.then(node)


@contextmanager
def rebootable(folder: Path, *settings: str) -> Iterator[Power]:
    """Boot a Slurm whose nodes can be rebooted by its program, or one with other settings than that."""
    asked = folder / "asked"
    asked.mkdir()
    program = folder / "reboot"
    program.write_text(f'#!/bin/sh\n: > "{asked}/$(hostname)"\n', encoding="ascii")
    program.chmod(0o755)
    known = settings or (f"RebootProgram={program}", "ResumeTimeout=120")
    shared = tempfile.TemporaryDirectory(prefix="gpuassay-", dir="/dev/shm")
    with shared as place, Rack(folder, LOGIN, *NODES) as rack:
        slurm = Slurm(rack, folder / "slurm", {"main": "Nodes=ALL Default=YES State=UP"}, settings=known)
        slurm.start()
        yield Power(slurm, asked, Path(place))


def argv(folder: Path, return_s: int, *options: str, **words: object) -> list[str]:
    """Give the command that runs the checks of reboots; nodes have so many seconds to return."""
    tables = (ROOT / "thresholds.toml").read_text(encoding="utf-8")
    told = tables.replace("return_s = 3600 }", f"return_s = {return_s} }}")
    assert told != tables
    (folder / "thresholds.toml").write_text(told, encoding="utf-8")
    now, hour = datetime.now(UTC), timedelta(hours=1)
    usual = {
        "site": folder / "site.toml",
        "thresholds": folder / "thresholds.toml",
        "allow": "break",
        "ticket": "CHG-1",
        "window": f"{now - hour:%Y-%m-%dT%H:%MZ}/{now + 3 * hour:%Y-%m-%dT%H:%MZ}",
        "run-dir": folder / "run",
        "deadline": "20s",
    }
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
    command += [str(ROOT / "tests_reliability" / "test_reboots.py"), "-p", "no:cacheprovider", "-q"]
    return [*command, *(f"--{key}={value}" for key, value in {**usual, **words}.items()), *options]


def results(folder: Path) -> dict[str, Any]:
    """Give the outcomes of the checks of reboots of the run in a folder, by their short names."""
    checks = json.loads((folder / "run" / "results.json").read_text(encoding="utf-8"))["checks"]
    return {check.rpartition(".")[2]: found for check, found in checks.items() if ".reboots." in check}


class Rebooting:
    """One run of the suite's own checks of reboots, from where one logs in."""

    def __init__(self, power: Power, folder: Path, return_s: int = 60) -> None:
        """Take how long a node has to return, in seconds."""
        self.slurm, self._folder, self._return_s = power.slurm, folder, return_s
        pool = '[[pool]]\nnodes = "n[1-3]"\nhas = ["slurm"]\n[slurm]\nwait = "4s"\n'
        mount = f'[[mount]]\npath = "{power.shared}"\nrole = "data"\nshared = true\n'
        (folder / "site.toml").write_text(f'[cluster]\nname = "t"\n{pool}{mount}', encoding="utf-8")

    @property
    def run_dir(self) -> Path:
        """The folder of the run."""
        return self._folder / "run"

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """Start it."""
        words = {"target": "slurm", "break-nodes": "n[1-3]"}
        return self.slurm.begin(*argv(self._folder, self._return_s, *options, **words))

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the controller and wait until it is gone; what it is started by has another process id."""
        subprocess.run(["pkill", "-9", "-f", f"^{sys.executable} .*{self.run_dir}"], check=True)
        assert process.wait(60) == -signal.SIGKILL

    def clean(self, *, check: bool = True) -> str:
        """Have ``gpuassay clean`` remove what a run that was killed has left, and give what it says."""
        main = "import sys; from gpuassay.cli import main; sys.exit(main())"
        words = ("clean", "--target=slurm", f"--site={self._folder / 'site.toml'}")
        done = self.slurm.run(sys.executable, "-c", main, *words, f"--run-dir={self.run_dir}", check=check)
        return done.stdout + done.stderr

    def items(self, node: str) -> Mapping[str, Item]:
        """Give the last item of each name in the story of a node."""
        found = read_measurement(self.run_dir / "recording", "reboot", [node])[node]
        return {item.id: item for item in found.items}

    def results(self) -> dict[str, Any]:
        """Give the outcomes of the checks, by their short names."""
        return results(self._folder)

    def verdicts(self) -> dict[str, str]:
        """Give their verdicts."""
        return {name: found["verdict"] for name, found in self.results().items()}
