"""A rank of ours at work in the job that holds a node, for faults that are a rank's."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from gpuassay.fault.node.rank_signal import MARK
from gpuassay.probe.launch import PYTHON
from gpuassay.target import Job, TargetError

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuassay.target import Results

NAME = "assay-rank"
"""What the kernel calls its process."""

RANKED = frozenset({"rank_signal"})
"""The faults that need one."""

_WORK = f"import time; open('/proc/self/comm', 'w').write('{NAME}'); time.sleep({{seconds}})"


def work(run: Callable[[Job], Results], node: str, mark: str, seconds: float) -> None:
    """Work until the job that holds the node ends, or the rank is killed; neither is anybody's failure."""
    argv = (PYTHON, "-c", _WORK.format(seconds=seconds))
    with suppress(TargetError):
        run(Job("rank", argv, (node,), 1, {MARK: mark}, deadline_s=seconds))
