"""Try to get from this node to others by ssh, without a password, as whoever runs this."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

_OPTIONS = (
    "BatchMode=yes",
    "PasswordAuthentication=no",
    "KbdInteractiveAuthentication=no",
    "StrictHostKeyChecking=no",  # known to nobody afterwards: the file is none
    "UserKnownHostsFile=/dev/null",
    "GlobalKnownHostsFile=/dev/null",
    "UpdateHostKeys=no",
    "LogLevel=ERROR",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "ControlMaster=no",
    "ControlPath=none",
)
_LAST_WORDS = 300


def main(order: dict[str, Any]) -> int:
    """Go from the node that is ``GROUP_RANK`` of ``order["nodes"]`` to the next ones; print how it went."""
    nodes = order["nodes"]
    here = int(os.environ.get("GROUP_RANK", "0"))
    rows = [go(nodes[place], order["seconds"]) for place in targets(here, len(nodes))]
    sys.stdout.write(json.dumps({"rows": rows}) + "\n")
    sys.stdout.flush()
    return 0


def targets(here: int, count: int) -> list[int]:
    """Choose where to go: to the next in the ring, to the one after it, and across."""
    places = dict.fromkeys((here + step) % count for step in (1, 2, count // 2) if step % count)
    return list(places)


def go(node: str, seconds: float) -> dict[str, Any]:
    """Run ``true`` there."""
    patience = f"ConnectTimeout={max(1, round(seconds))}"
    options = [word for option in (*_OPTIONS, patience) for word in ("-o", option)]
    begin = time.monotonic()
    try:
        done = subprocess.run(  # noqa: S603 - no shell
            ["ssh", "-T", *options, "--", node, "true"],  # noqa: S607 - the user's own, as launchers find it
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
        told: dict[str, Any] = {"exit": done.returncode, "said": _last(done.stderr)}
    except subprocess.TimeoutExpired:
        told = {"late": True}
    except OSError as error:
        told = {"absent": f"ssh: {error.strerror}"}
    return {"to": node, "seconds": round(time.monotonic() - begin, 3), **told}


def _last(err: bytes) -> str:
    lines = err.decode(errors="replace").strip().splitlines()
    return lines[-1].strip()[:_LAST_WORDS] if lines else ""
