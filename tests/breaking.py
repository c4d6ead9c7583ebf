"""A run that breaks something on a node of a real Slurm, and a stand-in for the provider's tooling."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from gpuassay.audited import compare
from gpuassay.evidence.recording import read_recording, read_survey
from gpuassay.facts import fleet
from gpuassay.facts.fault_audited import ANSWER
from gpuassay.facts.fault_trial import FaultTrial, trials
from gpuassay.judge.catalog import load_catalog
from gpuassay.judge.fact import Read
from gpuassay.judge.site import load_site
from nodes import Rack
from slurmd import LOGIN, Slurm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from gpuassay.evidence.item import Item
    from gpuassay.judge.fact import Fact

ROOT = Path(__file__).parents[1]
NODE, TICKET = "n2", "CHG-1"
FROZEN = "test_failure_injection.py::test_frozen_scheduler_daemon"
REPLACED = "test_failure_injection.py::test_frozen_node_replaced"
NOTICE = "test_failure_injection.py::test_notice"
GPUD = "gpud"
"""A daemon of the node's that is not Slurm's: with that frozen, jobs still run there."""
DETECT_S = 6
"""By what time a node has to be noticed in these tests, where nobody waits for two minutes."""


class Breaking:
    """Breaks one thing on one node, by the suite's own check of it."""

    def __init__(  # noqa: PLR0913 - what differs from test to test
        self,
        slurm: Slurm,
        folder: Path,
        checks: Sequence[str],
        bounds: tuple[int, int, int],
        service: str = GPUD,
        *,
        needs: Sequence[str] = (),
        declares: str = "",
    ) -> None:
        """Take the checks, and seconds to watch, until the dead-man mends, and until a node serves.

        ``service`` is the daemon that is frozen; ``needs`` are what the nodes have, and ``declares`` what
        else the site file says.
        """
        self.slurm = slurm
        self._checks = checks
        self._folder = folder
        told = (ROOT / "thresholds.toml").read_text(encoding="utf-8")
        for name, seconds in zip(("watch_s", "mend_s", "replace_s"), bounds, strict=True):
            told = re.sub(rf"\b{name} = \d+", f"{name} = {seconds}", told)
        told = told.replace('service = "slurmd"', f'service = "{service}"')
        told = told.replace("fail_above = 120, unit", f"fail_above = {DETECT_S}, unit")
        (folder / "thresholds.toml").write_text(told, encoding="utf-8")
        has = ", ".join(f'"{need}"' for need in ("slurm", *needs))
        site = f'[cluster]\nname = "t"\n[[pool]]\nnodes = "n[1-3]"\nhas = [{has}]\n[slurm]\nwait = "4s"\n'
        (folder / "site.toml").write_text(f"{site}{declares}", encoding="utf-8")

    @property
    def run_dir(self) -> Path:
        """The folder of the run."""
        return self._folder / "run"

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """Start the run where one logs in."""
        now = datetime.now(UTC)
        hour = timedelta(hours=1)
        words = {
            "target": "slurm",
            "site": self._folder / "site.toml",
            "thresholds": self._folder / "thresholds.toml",
            "allow": "break",
            "break-nodes": NODE,
            "ticket": TICKET,
            "window": f"{now - hour:%Y-%m-%dT%H:%MZ}/{now + 3 * hour:%Y-%m-%dT%H:%MZ}",
            "run-dir": self.run_dir,
            "deadline": "20s",
        }
        argv = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
        argv += [str(ROOT / "tests_reliability" / check) for check in self._checks]
        argv += ["-p", "no:cacheprovider", "-q"]
        argv += [f"--{key}={value}" for key, value in words.items()]
        return self.slurm.begin(*argv, *options)

    def has(self, word: str, times: int = 1) -> bool:
        """Tell whether an item of that name was kept, so many times at least."""
        return self.count(word) >= times

    def count(self, word: str) -> int:
        """Count the items of that name that were kept."""
        return sum(item.id == word for item in self._items())

    def story(self) -> str:
        """Give the names of the steps that were kept, in their order."""
        return " ".join(item.id for item in self._items() if not item.id.startswith(("watch/", ANSWER)))

    @property
    def ended(self) -> bool:
        """Whether the fault is over for us: mended, or handed over."""
        return self.has("end")

    def clean(self, *, check: bool = True) -> str:
        """Have ``gpuassay clean`` remove what a run that was killed has left, and give what it says."""
        main = "import sys; from gpuassay.cli import main; sys.exit(main())"
        words = ("clean", "--target=slurm", f"--site={self._folder / 'site.toml'}")
        return self.slurm.run(
            sys.executable, "-c", main, *words, f"--run-dir={self.run_dir}", check=check
        ).stdout

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the controller and wait until it is gone."""
        self.signal(signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL

    def signal(self, number: int) -> None:
        """Send the controller a signal; what it is started by has another process id."""
        subprocess.run(["pkill", f"-{number}", "-f", f"^{sys.executable} .*{self.run_dir}"], check=True)

    def trials(self) -> list[FaultTrial]:
        """Read what was kept so far, what serves beside what had served."""
        return compared(trials([(item, f"#{item.seq}") for item in self._items()]), self._folder)

    def _items(self) -> Sequence[Item]:
        recording = self.run_dir / "recording"
        files = sorted((recording / "measure").glob("*.jsonl"), key=lambda path: path.stat().st_ctime)
        return [item for path in files for item in read_survey(recording, path.stem).items]

    def verdicts(self) -> dict[str, str]:
        """Give the verdict of each check that ran, by its name."""
        checks = json.loads((self.run_dir / "results.json").read_text(encoding="utf-8"))["checks"]
        return {
            check.rpartition(".")[2]: found["verdict"]
            for check, found in checks.items()
            if found["verdict"] not in ("not_run", "skip")
        }


def compared(found: Iterable[FaultTrial], folder: Path) -> list[FaultTrial]:
    """Have each trial of the run in a folder know what it is compared with, if it brought another node."""
    told = list(found)
    if any(trial.serving for trial in told):
        catalog = load_catalog(folder / "thresholds.toml", ROOT / "advisories.toml")
        site = load_site(folder / "site.toml", catalog)
        nodes = fleet(read_recording(folder / "run" / "recording"), site).nodes
        for trial in told:
            compare(trial, nodes, site)
    return told


def value(fact: Fact[Any]) -> Any:
    """Give what was read."""
    assert isinstance(fact, Read), fact
    return fact.value


def end(trial: FaultTrial) -> str:
    """Give how a trial ended."""
    return str(value(trial.end))


def broken_at(trial: FaultTrial) -> float:
    """When a fault had taken hold, by the wall clock of this machine."""
    (told,) = (item for item, _ in trial.items if item.id == "inject")
    return float(json.loads(told.out)["clock"])


@contextmanager
def three_nodes(folder: Path) -> Iterator[Slurm]:
    """Boot a Slurm of three nodes, on the one of which gpud runs."""
    with Rack(folder, LOGIN, "n1", NODE, "n3") as rack:
        slurm = Slurm(rack, folder / "slurm", {"main": "Nodes=ALL Default=YES State=UP"})
        slurm.start()
        start_gpud(slurm)
        yield slurm


class Tooling:
    """A provider's tooling: looks at a node from without again and again, and does what it is made to."""

    def __init__(self, sick: Callable[[], bool], act: Callable[[], None], patience_s: float = 0.0) -> None:
        """Take what it looks for, what it does then, and how long it waits before."""
        self._sick, self._act, self._patience_s = sick, act, patience_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acted_at = 0.0  # by the wall clock

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.2):
            if self._sick():
                self._over.wait(self._patience_s)
                self.acted_at = time.time()
                self._act()
                return


def start_gpud(slurm: Slurm, name: str = GPUD) -> None:
    """Start what stands for a daemon of the GPUs'."""
    start = f"cp /bin/sleep /run/{name} && exec setsid -f /run/{name} 7200 >/dev/null 2>&1"
    slurm.rack[NODE].run("sh", "-c", start)


def frozen(slurm: Slurm) -> bool:
    """Tell whether a daemon of the node's is stopped."""
    return "T" in slurm.rack[NODE].run("ps", "-C", f"{GPUD},slurmd", "-o", "stat=", check=False).stdout


def whole(slurm: Slurm) -> bool:
    """Tell whether the node is as it was: its daemons run, and no dead-man waits there."""
    left = slurm.rack[NODE].run("ps", "-eo", "args=").stdout
    return not frozen(slurm) and "gpuassay-fault" not in left


def drains(slurm: Slurm, patience_s: float) -> Tooling:
    """Give tooling that drains a node on which a daemon hangs."""
    return Tooling(lambda: frozen(slurm), lambda: slurm.drain(NODE, "gpud hangs"), patience_s)


def melt(slurm: Slurm) -> None:
    """Mend what was handed over, as a provider does."""
    slurm.rack[NODE].run("pkill", "-CONT", "-x", GPUD)
