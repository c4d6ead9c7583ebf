"""How long judging takes, and how much memory, by the number of nodes.

Generates a synthetic cluster of N nodes with 8 GPUs each, judges it as a user would and writes every
report. The last line is JSON: nodes, seconds (of judging and reporting, not of generating), peak_mib
(of the largest process).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from recorded import synthesize  # noqa: E402 - lies beside the tests


def main() -> int:
    """Run the benchmark; returns pytest's exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100)
    nodes = parser.parse_args().nodes
    recording = synthesize(nodes)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-q", "-m", "audit", f"--target=recording:{recording}"]
        begin = time.perf_counter()
        status = subprocess.run([*command, f"--run-dir={folder}/run"], cwd=ROOT, check=False).returncode  # noqa: S603
        seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(json.dumps({"nodes": nodes, "seconds": round(seconds, 2), "peak_mib": round(peak)}))
    return status


if __name__ == "__main__":
    sys.exit(main())
