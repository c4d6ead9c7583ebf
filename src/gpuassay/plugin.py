"""GPUassay's pytest plugin: its options, and the hooks that are registered when a suite was asked for."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest

from gpuassay import options
from gpuassay.judge.catalog import LEVELS, TIERS
from gpuassay.suite import PHASES, SuiteError, find_root, is_phase
from gpuassay.target import DEADLINE_S, TARGETS

if TYPE_CHECKING:
    from pathlib import Path


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; paths are taken from the folder in which pytest was started."""
    group = parser.getgroup("gpuassay", "GPU cluster conformance (GPUassay)")
    group.addoption(
        "--target",
        type=_target,
        default="local",
        metavar="TARGET",
        help=f"{options.TARGET_HELP}, or recording:DIR (what was recorded)",
    )
    group.addoption("--nodes", type=options.nodes, default=(), metavar="NODES", help=options.NODES_HELP)
    group.addoption(
        "--deadline",
        type=options.duration,
        default=DEADLINE_S,
        metavar="TIME",
        help=options.DEADLINE_HELP,
    )
    group.addoption("--budget", type=options.duration, metavar="TIME", help=options.BUDGET_HELP)
    group.addoption(
        "--host-view",
        action="store_true",
        help=options.HOST_VIEW_HELP,
    )
    group.addoption("--site", metavar="PATH", help="the site file: what was bought (write --site=PATH)")
    group.addoption(
        "--earlier",
        metavar="DIR",
        help="an earlier recording of the same cluster: judge what changed and what was counted since",
    )
    group.addoption(
        "--thresholds", metavar="PATH", help="judge by other numbers than the suite's thresholds.toml"
    )
    group.addoption(
        "--profile",
        choices=("acceptance", "rating"),
        default="acceptance",
        help="who says what is required: the site file (acceptance), or ClusterMAX 3.0's request (rating)",
    )
    group.addoption(
        "--plan",
        metavar="PATH",
        help="the plan that both parties have signed (gpuassay plan): every report says what differs",
    )
    group.addoption(
        "--run-dir",
        metavar="DIR",
        help="folder for the recording and the reports (default: a new one in gpuassay-runs/)",
    )
    group.addoption("--resume", metavar="DIR", help=options.RESUME_HELP)
    group.addoption("--burn-in", type=options.duration, metavar="TIME", help=options.BURN_IN_HELP)
    group.addoption("--endurance", type=options.duration, metavar="TIME", help=options.ENDURANCE_HELP)
    group.addoption(
        "--allow",
        metavar="LIST",
        type=_levels,
        default=frozenset(),
        help="what else than reading you consent to, with commas: touch, contact, load, disrupt, break",
    )
    group.addoption(
        "--break-nodes",
        type=options.nodes,
        default=(),
        metavar="NODES",
        help="with --allow=disrupt or break: the nodes that may be broken, one after the other",
    )
    group.addoption(
        "--ticket", default="", metavar="REF", help="… the ticket under which the provider knows of it"
    )
    group.addoption(
        "--window",
        type=options.window,
        default=(None, None),
        metavar="BEGIN/END",
        help="… when it may be done, such as 2026-11-30T22:00Z/2026-12-01T04:00Z",
    )
    group.addoption("--reboot-wave", type=options.wave, default=1, metavar="N", help=options.REBOOT_WAVE_HELP)
    group.addoption(
        "--dry-run",
        action="store_true",
        help="only say what would run where, as whom and for how long; nothing is started or written",
    )
    group.addoption(
        "--sla",
        metavar="TERMS",
        help="hold the run to bronze, silver, gold, or a file of yours, and exit with 1 if it misses them",
    )
    group.addoption("--require", metavar="TIER", choices=TIERS, help="exit with 1 unless this tier is won")


def _target(text: str) -> str:
    if text.startswith("recording:"):
        return text
    try:
        return options.live_target(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"expected {', '.join(TARGETS)} or recording:DIR, found {text}"
        ) from None


def _levels(text: str) -> frozenset[str]:
    levels = frozenset(filter(None, text.split(",")))
    unknown = sorted(levels.difference(LEVELS))
    if unknown:
        raise argparse.ArgumentTypeError(f"no such consent: {unknown[0]} (one of {', '.join(LEVELS)})")
    return levels


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Only say what a run would do, if that is what was asked for."""
    if not config.option.dry_run:
        return None
    from gpuassay.planning import plan  # noqa: PLC0415 - as below
    from gpuassay.suite import load_suite  # noqa: PLC0415
    from gpuassay.wiring.asked import MISTAKES, request_of  # noqa: PLC0415

    root = _root(config)
    if root is None:
        raise pytest.UsageError("--dry-run: no folder of the suite was named")
    request = request_of(config, root)
    try:
        lines = plan(request, load_suite(root, request.thresholds))
    except MISTAKES as error:
        raise pytest.UsageError(str(error)) from error
    print(*(f"gpuassay: {line}" for line in lines), sep="\n")  # noqa: T201 - there is no reporter yet
    return int(pytest.ExitCode.OK)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the hooks that judge, if pytest's arguments ask for a suite; do nothing otherwise."""
    for phase in PHASES.values():
        config.addinivalue_line("markers", f"{phase}: checks of the {phase} phase (the folder tests_{phase})")
    root = _root(config)
    if root is not None:
        _register(config, root)


def _root(config: pytest.Config) -> Path | None:
    try:
        return find_root(config.args, config.invocation_params.dir)
    except SuiteError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass over the checks of a suite that was met and not asked for: they would have no fleet to look at."""
    asked_for = config.pluginmanager.has_plugin("gpuassay-judge")
    return True if not asked_for and is_phase(collection_path) else None


def _register(config: pytest.Config, root: Path) -> None:
    # Imported here: a pytest run that asks for no suite pays nothing for this plugin.
    from gpuassay import fixtures  # noqa: PLC0415
    from gpuassay.wiring.controller import Controller  # noqa: PLC0415
    from gpuassay.wiring.judge import Judge  # noqa: PLC0415

    config.pluginmanager.register(fixtures, "gpuassay-fixtures")
    config.pluginmanager.register(Judge(config, root), "gpuassay-judge")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Controller(config, root), "gpuassay-controller")
