"""Burn-ins over a real Slurm of two nodes with two ranks each, for tests of every change and nightly ones."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuassay.judge.names import expand
from nodes import Rack
from slurmd import Slurm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

ROOT = Path(__file__).parents[1]
RANKS = ("n1/cpu0", "n1/cpu1", "n2/cpu0", "n2/cpu1")


@contextmanager
def cluster(folder: Path, kind: Callable[..., Slurm] = Slurm) -> Iterator[Slurm]:
    """Start a Slurm of two nodes, of some kind, and write the site file that tells of them."""
    with Rack(folder, "login", "n1", "n2") as rack:
        slurm = kind(rack, folder / "slurm", {"batch": "Nodes=n[1-2] Default=YES State=UP MaxTime=UNLIMITED"})
        slurm.start()
        (folder / "site.toml").write_text(
            '[cluster]\nname = "two"\n[[pool]]\nname = "all"\nnodes = "n[1-2]"\n[slurm]\nwait = "20s"\n'
            f'python = "{sys.executable}"\n'
        )
        yield slurm


def argv(folder: Path, seconds: str, *more: str) -> list[str]:
    """Give the command that burns in."""
    words = [str(ROOT / "tests_reliability" / "test_burn_in.py"), "-c", str(ROOT / "pyproject.toml")]
    how = [
        "--target=slurm",
        f"--site={folder / 'site.toml'}",
        "--allow=load",
        f"--burn-in={seconds}",
        "--deadline=20s",
    ]
    return [sys.executable, "-m", "pytest", *words, *how, *more, "-p", "no:cacheprovider"]


def results(folder: Path) -> dict[str, Any]:
    """Give the results of the run in ``folder``."""
    found: dict[str, Any] = json.loads((folder / "run" / "results.json").read_text(encoding="utf-8"))
    return found


def burned(folder: Path, slurm: Slurm, seconds: str, spoilt: Mapping[str, str]) -> dict[str, Any]:
    """Burn in to the end, with these names in the environment; gives the results."""
    words = argv(folder, seconds, f"--run-dir={folder / 'run'}")
    done = slurm.rack["login"].run(*words, env={**slurm.environment, **spoilt}, check=False)
    assert (folder / "run" / "results.json").exists(), done.stdout + done.stderr
    return results(folder)


def row(found: dict[str, Any], check: str, metric: str, where: str) -> dict[str, Any]:
    """Give one row; alike ones are folded under the name of all of them, the cluster has no name."""
    listed = found["checks"][f"reliability.burn_in.{check}"]["observations"]
    (one,) = (
        each
        for each in listed
        if each["metric"] == metric and where in (expand(each["where"]) if where else ("",))
    )
    return dict(one)


def beats_aside(run: Path) -> int:
    """Count the beats that were heard and are not recorded yet, of the rank that told of fewest."""
    counts: dict[str, int] = {}
    for file in (run / "heard").rglob("*.jsonl"):
        for line in file.read_text(encoding="utf-8").splitlines():
            item = json.loads(line)
            place = f"{file.stem}/{item['id']}"
            said = (json.loads(one) for one in item.get("out", "").splitlines())
            counts[place] = counts.get(place, 0) + sum(one["line"] == "beat" for one in said)
    return min(counts.values(), default=0)
