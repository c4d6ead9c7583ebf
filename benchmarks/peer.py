"""The audit of this machine beside another auditor's, in turn, in one run: wall time and processes as ratios.

Usage: peer.py --runs 5 -- /path/to/cmax audit --standalone --yes

Processes are counted with strace, in a run of their own; without strace they are left out. The last
line is JSON: the median of seconds of each, their ratio (ours over theirs, pair by pair), and processes.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[1]
DEADLINE = 300  # seconds for one run


def main() -> int:
    """Run the benchmark; returns the exit status."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("peer", nargs="+", help="the other auditor's command, behind --")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        audit = ["-q", "-m", "audit", "-p", "no:cacheprovider", str(ROOT / "tests_audit")]
        ours = [sys.executable, "-m", "pytest", *audit]
        both = [(_seconds(ours, folder), _seconds(options.peer, folder)) for _ in range(options.runs + 1)]
        pairs = both[1:]  # the first warms the caches
        processes = [_processes(command, folder) for command in (ours, options.peer)]
    print(
        json.dumps(
            {
                "seconds": [round(statistics.median(side), 2) for side in zip(*pairs, strict=True)],
                "ratio": round(statistics.median(own / other for own, other in pairs), 3),
                "processes": processes,
            }
        )
    )
    return 0


def _seconds(command: Sequence[str], folder: str) -> float:
    begin = time.perf_counter()
    _run(command, folder)
    return time.perf_counter() - begin


def _processes(command: Sequence[str], folder: str) -> int | None:
    """Count every process that a command is and starts."""
    strace = shutil.which("strace")
    if strace is None:
        return None
    log = Path(folder) / "strace"
    _run([strace, "-f", "-qq", "-e", "trace=execve", "-o", str(log), *command], folder)
    return len(set(re.findall(r"^\d+", log.read_text(errors="replace"), re.MULTILINE)))


def _run(command: Sequence[str], folder: str) -> None:
    quiet = subprocess.DEVNULL
    subprocess.run(  # noqa: S603 - the commands are the user's own
        command, cwd=folder, stdin=quiet, stdout=quiet, stderr=quiet, timeout=DEADLINE, check=False
    )


if __name__ == "__main__":
    sys.exit(main())
