"""The recipes of docs/recipes: what each of them runs is taken from it, and run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import wheels
from plugging import ROOT
from recorded import build

if TYPE_CHECKING:
    from collections.abc import Callable

RECIPES = ROOT / "docs" / "recipes"
CLUSTER = ROOT / "fixtures" / "recorded" / "slurm-b200-4"
PINNED = re.compile(r"[\w./-]+@[0-9a-f]{40}")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make what a provider's repository holds: a site file, and the wheel."""
    folder = tmp_path_factory.mktemp("workspace")
    (folder / "wheels").mkdir()
    wheels.build(folder / "wheels")
    shutil.copy(CLUSTER / "site.toml", folder)
    return folder


def run(script: str, folder: Path, cluster: Path) -> subprocess.CompletedProcess[str]:
    """Run a script of a recipe as CI systems do, on a recorded cluster in place of the one that it names."""
    script, count = re.subn(r"--target=\w+", f"--target=recording:{cluster}", script)
    assert count == 1
    words = ["bash", "-e", "-c", script]
    return subprocess.run(
        words, cwd=folder, env=wheels.offline(), capture_output=True, text=True, check=False
    )


def github() -> str:
    """Give what the workflow runs; the artifact is kept whatever came of it, actions are pinned."""
    recipe = yaml.safe_load((RECIPES / "github-actions.yml").read_text(encoding="utf-8"))
    assert recipe["permissions"] == {"contents": "read"}
    assert set(recipe[True]) == {"workflow_dispatch", "schedule"}  # YAML 1.1 reads `on` as true
    steps: list[dict[str, Any]] = recipe["jobs"]["audit"]["steps"]
    assert all(PINNED.fullmatch(step["uses"]) for step in steps if "uses" in step)
    (kept,) = (step for step in steps if "upload-artifact" in step.get("uses", ""))
    assert (kept["if"], kept["with"]["path"]) == ("always()", "run/")
    return "\n".join(step["run"] for step in steps if "run" in step)


def gitlab() -> str:
    """Give what the job runs; its JUnit file is the one that GitLab is told of."""
    (job,) = yaml.safe_load((RECIPES / "gitlab-ci.yml").read_text(encoding="utf-8")).values()
    kept = job["artifacts"]
    assert (kept["when"], kept["paths"]) == ("always", ["run/"])
    assert kept["reports"] == {"junit": "run/junit.xml"}
    return "\n".join(job["script"])


def jenkins() -> str:
    """Give what the pipeline runs; braces are in pairs, and its ``post`` is about the same folder."""
    recipe = (RECIPES / "Jenkinsfile").read_text(encoding="utf-8")
    assert recipe.count("{") == recipe.count("}")
    after = recipe.partition("post {")[2]
    assert "always {" in after
    assert "junit 'run/junit.xml'" in after
    assert "archiveArtifacts artifacts: 'run/**'" in after
    return "\n".join(re.findall(r"sh '''(.*?)'''", recipe, re.DOTALL))


@pytest.mark.parametrize("recipe", [github, gitlab, jenkins])
def test_a_pipeline_judges_and_keeps_the_run(
    recipe: Callable[[], str], workspace: Path, tmp_path: Path
) -> None:
    """A healthy cluster is green, a faulty one red, and of both the run is where the recipe keeps it."""
    folder = shutil.copytree(workspace, tmp_path / "repository")
    for cluster, red in ((CLUSTER, 0), (Path(build("slurm-drained")), 1)):
        shutil.rmtree(folder / "run", ignore_errors=True)
        done = run(recipe(), folder, cluster)
        assert done.returncode == red, done.stdout + done.stderr
        assert (folder / "run" / "junit.xml").is_file()
        assert (folder / "run" / "report.html").is_file()
        packages = next((folder / ".venv" / "lib").glob("python*/site-packages/gpuassay"))
        assert f"rootdir: {packages / 'suite'}" in done.stdout, "the wheel judged, and not this clone"


def instructions(text: str) -> list[tuple[str, str]]:
    """Read the instructions of a container file."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def test_the_container_file(tmp_path: Path) -> None:
    """What it installs installs from a clone, and what it starts then judges, from an empty folder."""
    told = instructions((RECIPES / "Containerfile").read_text(encoding="utf-8"))
    words = dict(told)
    assert [word for word, _ in told] == [
        "FROM",
        "COPY",
        "RUN",
        "USER",
        "ENV",
        "WORKDIR",
        "ENTRYPOINT",
        "CMD",
    ]
    assert words["USER"] == "65532:65532", "the CronJob's own, and nobody's"
    copy, place = words["COPY"].split()
    source, runs, venv = tmp_path / "source", tmp_path / "runs", tmp_path / "venv"
    runs.mkdir()
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT / copy, capture_output=True, check=True
    ).stdout
    for name in filter(None, tracked.decode().split("\0")):
        if not name.startswith("fixtures/"):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    environment = wheels.offline()
    subprocess.run(["python3", "-m", "venv", venv], env=environment, check=True)
    environment |= {"PATH": f"{venv}/bin:{environment['PATH']}", "HOME": str(tmp_path)}
    install = words["RUN"].replace(place, str(source))
    subprocess.run(["sh", "-ec", install], env=environment, cwd=runs, check=True)
    assert not source.exists()
    argv = [*json.loads(words["ENTRYPOINT"]), *json.loads(words["CMD"]), f"--target=recording:{CLUSTER}"]
    done = subprocess.run(argv, cwd=runs, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(runs.glob("gpuassay-runs/*/results.json"))) == 1
