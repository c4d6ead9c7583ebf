"""Ask the servers of this node's NFS mounts to whom they export them: ``showmount -e`` mounts nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

MOUNTS = Path("/proc/self/mounts")
_MOST_SERVERS = 8
_LAST_WORDS = 300


def main(order: dict[str, Any]) -> int:
    """Print a row for each NFS mount, with the list of its server."""
    try:
        mounts = found(MOUNTS.read_text(encoding="utf-8", errors="replace"))
        lists = {
            server: shown(server, order["seconds"])
            for server in sorted({one["server"] for one in mounts})[:_MOST_SERVERS]
        }
        rows: Any = [{**one, **lists.get(one["server"], {})} for one in mounts]
    except OSError as error:
        rows = {"unread": "failed", "why": f"{MOUNTS}: {error.strerror}"}
    sys.stdout.write(
        json.dumps({"rows": rows or {"unread": "denied", "why": "it has nothing mounted by NFS"}}) + "\n"
    )
    sys.stdout.flush()
    return 0


def found(table: str) -> list[dict[str, Any]]:
    """Give the NFS mounts: where, whose, and by what security."""
    rows = []
    for line in table.splitlines():
        source, place, kind, options = (line.split() + [""] * 4)[:4]
        server, colon, export = source.partition(":/")
        if kind in ("nfs", "nfs4") and colon:
            security = re.search(r"(?:^|,)sec=(\w+)", options)
            row = {"at": place, "server": server.strip("[]"), "export": f"/{export}"}
            rows.append({**row, "sec": security[1] if security else "sys"})
    return rows


def shown(server: str, seconds: float) -> dict[str, Any]:
    """Ask one server; what is missing, refused or late is said."""
    try:
        done = subprocess.run(  # noqa: S603 - no shell
            ["showmount", "--no-headers", "-e", server],  # noqa: S607 - as this node has it
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"lost": f"showmount -e {server} did not end within {seconds:g} s"}
    except OSError as error:
        return {"lost": f"showmount: {error.strerror}"}
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip()[-_LAST_WORDS:]
        return {"lost": f"showmount -e {server} ended with {done.returncode}: {last}"}
    lines = [
        line.split(None, 1) for line in done.stdout.decode(errors="replace").splitlines() if line.strip()
    ]
    return {"exports": {words[0]: words[-1].strip() if len(words) > 1 else "" for words in lines}}
