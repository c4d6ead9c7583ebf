"""What a run would do, said before it does anything: ``--dry-run``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from gpuassay.gathering import target_of
from gpuassay.measure import TOOLS

if TYPE_CHECKING:
    from gpuassay.judge.catalog import Measurement
    from gpuassay.session import Request
    from gpuassay.suite import Suite

_LONGEST = 80  # of a command that is shown: some carry a program


def plan(request: Request, suite: Suite) -> list[str]:
    """Say in lines what would run where, as whom, and for how long; only reads.

    Raises ConfigError and TargetError, as the run would.
    """
    if request.recording is not None:
        return [f"{request.recording} would be judged: nothing would run on any node"]
    measurements = suite.catalog.measurements.values()
    return [
        *target_of(request, suite).plan(),
        *(_measured(measurement, measurement.level in request.allow) for measurement in measurements),
    ]


def _measured(measurement: Measurement, allowed: bool) -> str:  # noqa: FBT001 - one caller, in sight
    if measurement.workload:
        what = "a rank for each GPU of the idle nodes that answered"
    elif measurement.tool in TOOLS:
        command = " ".join(shlex.join(TOOLS[measurement.tool].argv(measurement.args)).split())
        shown = command if len(command) <= _LONGEST else f"{command[:_LONGEST]}…"
        what = f"{shown} on each node that answered"
    else:
        what = "once for the cluster, through the service that the site file or the target names"
    if not allowed:
        return f"not run without --allow={measurement.level}: {measurement.name}: {what}"
    return f"{measurement.name} ({measurement.level}): {what}, at most {measurement.deadline_s:g} s"
