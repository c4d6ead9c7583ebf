"""A node of eight GPUs for the whole probe: the stand-in for the driver's library, and tools that replay.

Where this machine has such a tool of its own, ours comes first in the PATH. What they replay is that of
recorded clusters, and so it is synthetic.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import fakenvml
from gpuassay.probe import travel
from gpuassay.probe.frames import Frames
from recorded import nvlink
from recorded.software import RUNC

if TYPE_CHECKING:
    from pathlib import Path

PRINTED = {
    "amd-smi": "[]",
    "containerd": "containerd containerd.io v2.2.5 0000000000000000000000000000000000000000\n",
    "dockerd": "Docker version 29.7.0, build 0000000\n",
    "journalctl": "",
    "nvidia-ctk": "NVIDIA Container Toolkit CLI version 1.19.1\ncommit: 0000000000\n",
    "nvidia-imex-ctl": nvlink.imex(["gpu001"], "580.159.03", 0).out.decode(),
    "nvidia-smi": "<nvidia_smi_log><attached_gpus>0</attached_gpus></nvidia_smi_log>",
    "rpm": "",
    "runc": RUNC,
    "systemctl": "0 loaded units listed.\n",
    "systemd-detect-virt": "none\n",
}
"""Every program that the probe may start, and what it prints here."""

_WRITES = re.compile(
    r"\bO_(?:CREAT|WRONLY|RDWR)\b"
    r"|^\d+ +(?:creat|mk|rename|link|symlink|unlink|rmdir|truncate|chmod|chown|utime)"
)
_NOWHERE = '"/dev/null"'


@dataclass(frozen=True)
class Run:
    """What one run of the probe brought: its answers by id, and what strace saw of it."""

    answers: dict[str, dict[str, Any]]
    ended: bool
    processes: int
    changes: list[str]

    @property
    def gpus(self) -> int:
        """Count the GPUs that the driver's library named."""
        return len(json.loads(self.answers["nvml"]["out"])["devices"])


def environment(folder: Path, path: str) -> dict[str, str]:
    """Lay out the node below a folder, and give the environment in which the probe meets it."""
    for name in ("bin", "home", "scratch"):
        (folder / name).mkdir()
    for name, text in PRINTED.items():
        printed = folder / "bin" / f"{name}.out"
        printed.write_text(text, encoding="utf-8")
        tool(folder, name, f"exec cat {shlex.quote(str(printed))}")
    return {
        "PATH": f"{folder}/bin:{path}",
        "HOME": f"{folder}/home",
        "TMPDIR": f"{folder}/scratch",
        **fakenvml.environment(fakenvml.build(folder / "lib"), folder / "answers"),
    }


def tool(folder: Path, name: str, script: str) -> None:
    """Write a program of the node."""
    program = folder / "bin" / name
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)


def run(environment: dict[str, str], log: Path | None = None) -> Run:
    """Run the travelling probe as a node would; with ``log``, strace writes there what it does."""
    calls = "trace=%file,?fork,?vfork,?clone,?clone3"
    traced = ["strace", "-f", "-qq", "-s", "256", "-e", calls, "-o", str(log)] if log else []
    done = subprocess.run(
        [*traced, *travel.argv(sys.executable)],
        input=travel.pack(),
        capture_output=True,
        check=True,
        cwd=environment["HOME"],
        env=environment,
    )
    frames = Frames()
    answers = {item["id"]: item for item in frames.feed(done.stdout)}
    lines = log.read_text(errors="replace").splitlines() if log else []
    return Run(
        answers,
        frames.ended,
        processes=len({line.split()[0] for line in lines}),
        changes=[
            line for line in lines if _WRITES.search(line) and " = -1 " not in line and _NOWHERE not in line
        ],
    )
