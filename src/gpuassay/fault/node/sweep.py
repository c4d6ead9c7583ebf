"""What runs that were killed have left on a node: each fault is undone now, before its dead-man's time."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from gpuassay.fault.node import deadman

_MENDING_S = 60.0


def main(_order: dict[str, Any]) -> int:
    """Undo all, and print a line for each; what is not mended keeps its dead-man's folder, and is named."""
    found = {mark: _undo(mark) for mark in deadman.others()}
    sys.stdout.write(json.dumps({"verb": "sweep", "found": found, "left": deadman.others()}) + "\n")
    sys.stdout.flush()
    return 0


def _undo(mark: str) -> str:
    """Run what the dead-man would have run; give what came of it, empty where it is not mended."""
    place = deadman.folder(mark)
    if not any((place / name).exists() for name in ("armed", "claimed")):
        deadman.clear(mark)
        return "undone: nothing was broken yet: it was cut while the dead-man was being armed"
    try:
        done = subprocess.run(  # noqa: S603 - a program of our own, left here by ourselves
            [sys.executable, "-I", "-S", "-B", "-c", deadman.COMMAND],
            input=(place / "undo").read_bytes(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_MENDING_S,
            check=False,
        )
        said = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return f"not undone: {error}"
    if said.get("stood_down"):  # the dead-man has done it, or was told that the provider has the node
        said = deadman.outcome(mark) or {"proof": "handed over to the provider: it is left as it is"}
    if "proof" not in said:
        return f"not undone: {said.get('not_restored') or said.get('failed') or 'it gave no reason'}"
    deadman.clear(mark)
    return f"undone: {said['proof']}"
