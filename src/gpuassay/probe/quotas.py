"""What the user who asks may fill of a file system: asked of the tools of its kind, where they are."""

from __future__ import annotations

import os
import shutil
from typing import Any

from gpuassay.probe.answer import unread

_PATIENCE_S = 3.0  # below what one file system may take to answer
_CAP = 4096  # of what a tool prints: one line is enough
# By the type of a mount; none of them changes anything. {user} is a number.
_TOOLS = {
    "lustre": ("lfs", "quota", "-q", "-u", "{user}", "{place}"),
    "beegfs": ("beegfs-ctl", "--getquota", "--csv", "--uid", "{user}", "--mount={place}"),
    "nfs": ("quota", "-w", "-p", "-f", "{place}"),
    "nfs4": ("quota", "-w", "-p", "-f", "{place}"),
}


def quota(kind: str, place: str) -> dict[str, Any]:
    """Ask for the quota of a mount of that type; empty where no tool for it is here, so nobody was asked."""
    tool = _TOOLS.get(kind)
    if tool is None or shutil.which(tool[0]) is None:
        return {}
    import subprocess  # noqa: PLC0415 - loading it takes longer than all else that is asked of a mount

    argv = [word.format(user=os.getuid(), place=place) for word in tool]
    try:
        done = subprocess.run(  # noqa: S603 - an argument list of our own
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return {"quota": unread("timed_out", f"{tool[0]} was not done within {_PATIENCE_S:g} s")}
    except OSError as error:
        return {"quota": unread("failed", f"{tool[0]}: {error.strerror}")}
    told = {"tool": tool[0], "exit": done.returncode, "out": done.stdout[:_CAP].decode(errors="replace")}
    return {"quota": {**told, "err": done.stderr[:_CAP].decode(errors="replace")}}
