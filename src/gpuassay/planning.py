"""What a run would do, said before it does anything: ``--dry-run``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from gpuassay.gathering import target_of
from gpuassay.judge.site import load_site
from gpuassay.measure import NODE_SURVEYS, TOOLS
from gpuassay.measure.burn_in import BURN_IN
from gpuassay.measure.endured import ENDURED
from gpuassay.measure.outside import Fetches
from gpuassay.measure.workloads import WORKLOADS
from gpuassay.rebooted import REBOOT

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        *(
            _measured(measurement, request, measurement.level in request.allow)
            for measurement in measurements
        ),
        *_fetched(request, suite),
    ]


def _fetched(request: Request, suite: Suite) -> Iterator[str]:
    """Say what would be fetched from outside or moved to the declared store and back, and what that costs."""
    if request.site is None:
        return
    services = load_site(request.site, suite.catalog).services
    counted = services.outside.mirrors or services.s3
    nodes = len(target_of(request, suite).declared()) if counted else 0
    for measurement in suite.catalog.measurements.values():
        tool = TOOLS.get(measurement.tool)
        if measurement.tool in NODE_SURVEYS and services.s3:
            args = measurement.args
            if "seconds" in args and request.endurance_s:
                args = {**args, "seconds": request.endurance_s}
            moved = NODE_SURVEYS[measurement.tool].cost(args, nodes)
            yield f"{measurement.name}: {moved}; {services.s3.endpoint} may charge for either; all is removed"
        if isinstance(tool, Fetches) and services.has(tool.need):
            allowed = measurement.level in request.allow
            would = "fetches" if allowed else f"would fetch, with --allow={measurement.level},"
            yield f"{measurement.name} {would} {tool.cost(services, nodes)}"


def _measured(measurement: Measurement, request: Request, allowed: bool) -> str:  # noqa: FBT001 - one caller, in sight
    if measurement.fault:
        what = f"{measurement.fault} is broken on each node of --break-nodes, in turn, and mended again"
    elif measurement.tool == REBOOT:
        what = "the nodes of --break-nodes are rebooted, --reboot-wave of them at once"
    elif measurement.workload == BURN_IN.name:
        longest_s = request.burn_in_s or float(measurement.args["seconds"])
        what = f"a rank for each GPU of the idle nodes that answered, for {longest_s:g} s in segments"
    elif measurement.workload in ENDURED:
        longest_s = request.endurance_s or float(measurement.args["seconds"])
        what = f"the idle nodes that answered, all at once, for {longest_s:g} s each time"
    elif measurement.workload:
        ranks = "one rank on each" if WORKLOADS[measurement.workload].one_rank else "a rank for each GPU"
        what = f"{ranks} of the idle nodes that answered"
    elif measurement.tool in TOOLS:
        command = " ".join(shlex.join(TOOLS[measurement.tool].argv(measurement.args)).split())
        shown = command if len(command) <= _LONGEST else f"{command[:_LONGEST]}…"
        what = f"{shown} on each node that answered"
    elif measurement.tool in NODE_SURVEYS:
        what = "objects by URLs that are lent, between the declared store and all idle nodes that answered"
        if "seconds" in measurement.args:
            what += f", for {request.endurance_s or float(measurement.args['seconds']):g} s"
    else:
        what = "once for the cluster, through the service that the site file or the target names"
    if not allowed:
        return f"not run without --allow={measurement.level}: {measurement.name}: {what}"
    return f"{measurement.name} ({measurement.level}): {what}, at most {measurement.deadline_s:g} s"
