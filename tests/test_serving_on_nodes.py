"""A server that we start on nodes, through ssh and Slurm: agents talk to it on each, and nothing stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nodes import Rack, needs
from slurmd import Slurm, needs_slurm
from sshd import Access
from standin import Place
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = needs("sshd", "ssh", "ssh-keygen")
ROOT = Path(__file__).parents[1]


class Site:
    """Two nodes, a login node, and how the suite is run there."""

    def __init__(self, folder: Path, rack: Rack, target: str) -> None:
        self.folder, self.rack, self.target = folder, rack, target
        self.place = Place(folder / "python")
        reach, self.environment = self._reached()
        python = folder / "python.sh"  # as a site's own, with vLLM where it finds it
        found = "".join(f"export {name}={value}\n" for name, value in self.place.environment.items())
        python.write_text(f'#!/bin/sh\n{found}exec {sys.executable} "$@"\n', encoding="utf-8")
        python.chmod(0o755)
        (folder / "site.toml").write_text(
            '[cluster]\nname = "two"\n[[pool]]\nname = "all"\nnodes = "n[1-2]"\n'
            f'[{target}]\n{reach}\npython = "{python}"\n',
            encoding="utf-8",
        )

    def _reached(self) -> tuple[str, Mapping[str, str]]:
        if self.target == "slurm":
            parts = {"batch": "Nodes=n[1-2] Default=YES State=UP"}
            slurm = Slurm(self.rack, self.folder / "slurm", parts)
            slurm.start()
            return 'wait = "20s"', slurm.environment
        access = Access.create(self.folder)
        for name in ("n1", "n2"):
            access.serve(self.rack[name])
        path = os.pathsep.join(filter(None, sys.path))
        return f'config = "{access.config}"', {**os.environ, "PYTHONPATH": path}

    def argv(self) -> list[str]:
        """Give the command that runs the check, as a person does."""
        words = [str(ROOT / "tests_perf" / "test_serving.py"), "-c", str(ROOT / "pyproject.toml")]
        how = [f"--target={self.target}", f"--site={self.folder / 'site.toml'}", "--allow=load"]
        run = [f"--run-dir={self.folder / 'run'}", "-p", "no:cacheprovider"]
        return [sys.executable, "-m", "pytest", *words, *how, *run]


_PATIENCE_S = 90.0


@pytest.fixture(params=["ssh", pytest.param("slurm", marks=needs_slurm())])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """Give two nodes, by each target."""
    with Rack(tmp_path, "login", "n1", "n2") as rack:
        made = Site(tmp_path, rack, request.param)
        yield made
        made.place.end()


def test_each_node_serves_and_nothing_stays(site: Site) -> None:
    """Figures of both nodes, shown and not judged where there is no accelerator; no process, no folder."""
    site.place.put("well")
    done = site.rack["login"].run(*site.argv(), env=site.environment, check=False)
    assert (site.folder / "run" / "results.json").exists(), done.stdout + done.stderr
    results: dict[str, Any] = json.loads((site.folder / "run" / "results.json").read_text())
    seen = {
        (row["where"], row["metric"]): row["value"]
        for row in results["checks"]["perf.serving.agents"]["observations"]
    }

    both = "n[1-2]"  # what is alike of both is one row
    assert (seen[both, "failed_share"], seen[both, "left_behind"]) == (0.0, False), done.stdout
    assert min(seen["n1", "beside_pool"], seen["n2", "beside_pool"]) > 0
    assert (site.place.alive, site.place.folders) == ([], [])


def test_ctrl_c_ends_the_servers(site: Site) -> None:
    """While they come up, which these never do: all of them are gone, and over ssh their folders too.

    Slurm kills a step with all keepers in it: a folder of some kilobytes is left to the next that comes.
    """
    site.place.put("slow")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    suite = site.rack["login"].start(*site.argv(), env=site.environment, **quiet)
    try:
        wait_until(lambda: len(site.place.alive) == 4, patience_s=_PATIENCE_S)
        login = site.rack["login"]
        (main,) = (pid for pid, args in login.processes().items() if "test_serving.py" in args)
        login.run("kill", f"-{signal.SIGINT.value}", str(main))
        suite.wait(timeout=120)
    finally:
        with suppress(ProcessLookupError):
            suite.kill()
        suite.wait()
    wait_until(lambda: not site.place.alive, patience_s=_PATIENCE_S)
    if site.target == "ssh":
        wait_until(lambda: not site.place.folders, patience_s=_PATIENCE_S)
