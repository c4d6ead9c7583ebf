"""What words on a command line mean, for pytest's options and for those of ``gpuassay`` alike."""

from __future__ import annotations

import argparse
import math
import time
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


def until(budget_s: float | None) -> float:
    """Give when a budget ends that begins now, by the monotonic clock; without one, never."""
    return math.inf if budget_s is None else time.monotonic() + budget_s


def duration(text: str) -> float:
    """Take a time in seconds, such as ``90s``."""
    try:
        return DURATION.read(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected {DURATION.expected}, found {text}") from None
