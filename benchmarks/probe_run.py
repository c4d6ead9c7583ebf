"""The probe's own run on a node of eight GPUs: wall time, and processes started.

Runs the travelling probe against a stand-in for NVIDIA's library with eight GPUs, and tools that replay
synthetic outputs; with --mute, the library is missing and the tools are asked instead. So the figures are
those of the probe alone, without the time that a real driver takes. The last line is JSON: the median and the
longest time in seconds, processes as strace counts them (null without strace), and changes made to files.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import fakenode  # noqa: E402 - lies beside the tests


def main() -> int:
    """Run the benchmark; returns the exit status."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--mute", action="store_true", help="a node without the driver's library")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        node = fakenode.environment(folder, os.environ["PATH"])
        if options.mute:
            node["LD_LIBRARY_PATH"] = "/nowhere"
        times = [_seconds(node) for _ in range(options.runs + 1)][1:]  # the first warms the caches
        traced = fakenode.run(node, folder / "strace") if shutil.which("strace") else None
    print(
        json.dumps(
            {
                "seconds": [round(statistics.median(times), 2), round(max(times), 2)],
                "processes": traced.processes if traced else None,
                "changes": len(traced.changes) if traced else None,
            }
        )
    )
    return 0


def _seconds(node: dict[str, str]) -> float:
    begin = time.perf_counter()
    fakenode.run(node)
    return time.perf_counter() - begin


if __name__ == "__main__":
    sys.exit(main())
