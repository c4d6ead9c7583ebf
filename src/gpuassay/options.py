"""What words on a command line mean, for pytest's options and for those of ``gpuassay`` alike."""

from __future__ import annotations

import argparse
import math
import time
from datetime import datetime
from pathlib import Path

from gpuassay.judge.config import DURATION
from gpuassay.judge.names import expand, listed
from gpuassay.target import TARGETS

TARGET_HELP = (
    f"where the cluster is: {', '.join(TARGETS)} (this machine: local, the default), or two of them with a "
    "comma where they are two ways to the same nodes"
)
NODES_HELP = (
    "the nodes to ask, such as gpu[001-016], or a file that has one a line (default: the site file's, else "
    "all that the target has)"
)
DEADLINE_HELP = "how long a node may take to answer, such as 90s or 5m (default: 15m)"

BUDGET_HELP = "how long asking and measuring may take in all, such as 15m; what does not fit is not run"
RESUME_HELP = (
    "go on with the run in this folder, which was cut: its evidence stays, and what was measured is not again"
)
BURN_IN_HELP = "how long the burn-in is to load the machines, such as 3m in a CI (default: 8h)"
ENDURANCE_HELP = (
    "how long each load that lasts is kept up, such as 2m in a CI (default: 1h, 30m for checkpoints)"
)
REBOOT_WAVE_HELP = "… how many of them are rebooted at once, or all (default: 1)"
HOST_VIEW_HELP = "on Kubernetes, ask from the host's own view: privileged pods with its / mounted read-only"


def live_target(text: str) -> str:
    """Take the name of a target that can be asked, or two with a comma."""
    if not set(text.split(",")) <= set(TARGETS):
        raise argparse.ArgumentTypeError(f"expected {', '.join(TARGETS)}, found {text}")
    return text


def nodes(text: str) -> tuple[str, ...]:
    """Take a node set, or the path of a host file."""
    try:
        path = Path(text)
        return listed(path.read_text(encoding="utf-8")) if path.is_file() else expand(text)
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from error


def window(text: str) -> tuple[datetime, datetime]:
    """Take a window of time, such as ``2026-11-30T22:00Z/2026-12-01T04:00Z``."""
    begin, _, end = text.partition("/")
    try:
        first, last = datetime.fromisoformat(begin), datetime.fromisoformat(end)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected BEGIN/END, two times by ISO 8601: {error}") from None
    if first.tzinfo is None or last.tzinfo is None:
        raise argparse.ArgumentTypeError("each end needs its time zone, such as 2026-11-30T22:00+01:00")
    if first >= last:
        raise argparse.ArgumentTypeError("it ends before it begins")
    return first, last


def wave(text: str) -> int:
    """Take how many nodes are rebooted at once; 0 is all of them."""
    if text == "all":
        return 0
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of nodes, or all, found {text}")
    return int(text)


def until(budget_s: float | None) -> float:
    """Give when a budget ends that begins now, by the monotonic clock; without one, never."""
    return math.inf if budget_s is None else time.monotonic() + budget_s


def duration(text: str) -> float:
    """Take a time in seconds, such as ``90s``."""
    try:
        return DURATION.read(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected {DURATION.expected}, found {text}") from None
