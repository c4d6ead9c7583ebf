"""The audit of a Slurm cluster of many nodes on one machine: time and memory.

Boots nodes that are namespaces, with a real slurmd and eight device files as GPUs on each, and records all of
them from a login node, by a job for each. Needs root, and Slurm's packages. The last line is JSON: seconds of
gathering, the processor's seconds and the largest memory (MiB, resident) of the recording process and the
programs that it ran, the memory of the machine that was in use beyond that of the idle cluster, nodes that
answered whole, and jobs left.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from gpuassay.evidence.recording import read_recording  # noqa: E402
from nodes import Rack  # noqa: E402 - lies beside the tests
from slurmd import LOGIN, Slurm  # noqa: E402 - likewise

GPUASSAY = (sys.executable, "-c", "import sys; from gpuassay.cli import main; sys.exit(main())")


def main() -> int:
    """Run the benchmark; returns the exit status."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("--nodes", type=int, default=64)
    options = parser.parse_args()
    names = [f"n{number}" for number in range(1, options.nodes + 1)]
    with tempfile.TemporaryDirectory() as name, Rack(Path(name), LOGIN, *names) as rack:
        partition = f"Nodes=n[1-{options.nodes}] Default=YES MaxTime=1:00:00 State=UP"
        slurm = Slurm(rack, Path(name) / "slurm", {"batch": partition})
        slurm.start()
        print(json.dumps(measure(slurm, Path(name) / "run")))
    return 0


def measure(slurm: Slurm, folder: Path) -> dict[str, object]:
    """Record, and measure it."""
    idle, least, done = available(), [available()], threading.Event()
    watch = threading.Thread(target=_watch, args=(least, done))
    watch.start()
    argv = (*GPUASSAY, "record", "--target=slurm", str(folder))
    begin = time.perf_counter()
    recording = slurm.begin(*argv)
    _, status, used = os.wait4(recording.pid, 0)
    seconds = time.perf_counter() - begin
    done.set()
    watch.join()
    nodes = read_recording(folder / "recording").nodes.values()
    return {
        "seconds": round(seconds, 1),
        "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
        "largest_process_mib": used.ru_maxrss // 1024,
        "machine_mib": (idle - min(least)) // 1024,
        "exit": os.waitstatus_to_exitcode(status),
        "answered": sum(node.item("probe") is None and node.answered for node in nodes),
        "jobs_left": len(slurm.jobs()),
    }


def _watch(least: list[int], done: threading.Event) -> None:
    while not done.wait(0.1):
        least.append(available())


def available() -> int:
    """Give the memory that programs could have, in KiB, as the kernel reckons it."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))


if __name__ == "__main__":
    sys.exit(main())
