"""What a run would do is said before anything is done, and what is left of killed runs is removed."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gpuassay import cli
from gpuassay.planning import plan
from gpuassay.session import Request
from gpuassay.suite import load_suite
from gpuassay.target.progress import Paced
from plugging import QUICK, ROOT

if TYPE_CHECKING:
    from pathlib import Path


def dry(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on the suite from a folder, with these words and --dry-run."""
    words = (str(ROOT / "tests_audit"), "--dry-run", "-m", "audit", *words)
    return subprocess.run(
        [sys.executable, "-m", "pytest", *QUICK, "-c", str(ROOT / "pyproject.toml"), *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )


def test_a_dry_run_touches_nothing(tmp_path: Path) -> None:
    """It says where the probe would go, for how long, how much is sent; no folder is made, nothing runs."""
    done = dry(tmp_path, "--target=ssh", "--nodes=gpu[1-3]", "--deadline=90s", "--allow=load")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("gpuassay: gpu[1-3]: the probe on 3 nodes by ssh, at most 90 s, ")
    assert all(line.startswith("gpuassay: ") for line in lines)
    assert "gpuassay: dcgm_diag (load): dcgmi diag --run 2 --json on each node that answered, " in done.stdout
    assert "not run without --allow=contact: prometheus: once for the cluster, " in done.stdout
    assert "gpuassay: gemm_bf16 (load): a rank for each GPU of the idle nodes that answered, " in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_finds_the_mistakes_of_the_run(tmp_path: Path) -> None:
    """It ends as the run would, with the same words."""
    done = dry(tmp_path, "--target=ssh")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "Name them with --nodes" in done.stderr
    (tmp_path / "site.toml").write_text("[cluster]\n")
    done = dry(tmp_path, "--site=site.toml")
    assert "[cluster] name: is missing" in done.stderr


def test_a_dry_run_says_what_is_fetched_and_what_that_costs(tmp_path: Path) -> None:
    """Bytes of all nodes together, and money where a price was declared: before anything is fetched."""
    (tmp_path / "site.toml").write_text(
        '[cluster]\nname = "c"\n[[pool]]\nnodes = "gpu[1-4]"\n'
        '[outside]\nprice_per_gb = 0.09\ncurrency = "USD"\n'
        '[[mirror]]\nurl = "https://mirror.example.com/a"\nbytes = 2_000_000_000\n'
    )
    done = dry(tmp_path, "--target=ssh", "--site=site.toml", "--allow=contact")
    assert done.returncode == 0, done.stderr
    what = "2 GB to each of 4 nodes, 8 GB in all, at most; 0.72 USD at 0.09 USD per GB"
    assert f"gpuassay: fetches fetches {what}" in done.stdout
    assert "pulls fetches" not in done.stdout


def test_a_recording_runs_on_no_node() -> None:
    """There is nothing to plan for."""
    request = Request(ROOT, target="recording:fixtures/recorded/cpu-vm", folder=ROOT)
    (line,) = plan(request, load_suite(ROOT))
    assert line.endswith("fixtures/recorded/cpu-vm/recording would be judged: nothing would run on any node")


def test_clean_says_what_it_removed(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is left by processes that end with their connection; without nodes it says what it needs."""
    assert cli.main(["clean", "--target=ssh", "--nodes=n1"]) == 0
    assert capsys.readouterr().out == "nothing of ours was left\n"
    with pytest.raises(SystemExit) as ended:
        cli.main(["clean", "--target=nowhere"])
    assert ended.value.code == 2
    assert "expected local, " in capsys.readouterr().err


def test_clean_does_not_take_silence_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where Slurm cannot be asked, that nothing is listed does not mean that nothing is left."""
    for program in ("salloc", "scancel", "scontrol", "squeue", "srun"):
        path = tmp_path / program
        path.write_text("#!/bin/sh\necho no controller >&2\nexit 1\n", encoding="utf-8")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["clean", "--target=slurm"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "whether jobs of ours are left: squeue ended with 1: no controller" in told.err


def test_without_ssh_no_node_is_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where there is no ssh, that is said once and of this machine, and nothing is judged."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["record", "--target=ssh", "--nodes=n[1-2]", str(tmp_path / "run")]) == 2
    assert "ssh cannot be found here: install OpenSSH's client" in capsys.readouterr().err


def test_a_log_gets_a_line_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first line comes at once, and the next one when a minute has passed."""
    now, shown = [1000.0], list[str]()
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    show = Paced(shown.append)
    for second, line in ((0, "a"), (30, "b"), (59.9, "c"), (60, "d"), (61, "e"), (125, "f")):
        now[0] = 1000 + second
        show(line)
    assert shown == ["a", "d", "f"]
