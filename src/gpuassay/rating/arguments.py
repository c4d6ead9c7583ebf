"""What ``gpuassay rate``, ``podium`` and ``diff`` take; the work itself is imported when it is asked for."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def add(commands: Any, suite_root: Callable[[], Path]) -> None:
    """Add the three commands to the parser."""
    _add_rate(commands, suite_root)
    podium = commands.add_parser("podium", help="put the ratings of many clusters on one page")
    podium.add_argument("ratings", nargs="+", type=Path, metavar="RATING", help="rating.json, or its folder")
    podium.add_argument("--earlier", type=Path, metavar="PODIUM", help="podium.json of an earlier edition")
    _finish(podium, "podium", suite_root)
    diff = commands.add_parser("diff", help="what differs between two runs, for a pull request")
    diff.add_argument("old", type=Path, metavar="RUN", help="the earlier run's folder, or results.json")
    diff.add_argument("new", type=Path, metavar="RUN", help="the later one")
    diff.add_argument("--json", action="store_true", help="for programs instead of for people")
    diff.set_defaults(call=_call("diff", suite_root))


def _add_rate(commands: Any, suite_root: Callable[[], Path]) -> None:
    rate = commands.add_parser("rate", help="rate a cluster by several runs of it")
    rate.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="runs' folders, or recordings")
    rate.add_argument("--site", type=Path, metavar="PATH", help="judge by this site file, not by the newest")
    rate.add_argument("--thresholds", type=Path, metavar="PATH", help="judge by other numbers")
    rate.add_argument("--profile", default="acceptance", choices=("acceptance", "rating"))
    rate.add_argument(
        "--replaced",
        type=record,
        action="append",
        default=[],
        metavar="OLD=NEW:REASON",
        help="a node that was exchanged or set up anew; may be repeated",
    )
    rate.add_argument("--assessor", type=Path, metavar="FILE", help="what people assessed; only lowers")
    rate.add_argument(
        "--key",
        type=Path,
        action="append",
        default=[],
        metavar="PUB",
        help="who must have signed the assessor's file; may be repeated",
    )
    _finish(rate, "rate", suite_root)


def _finish(parser: argparse.ArgumentParser, name: str, suite_root: Callable[[], Path]) -> None:
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to (default: in gpuassay-runs/)")
    parser.set_defaults(call=_call(name, suite_root))


def record(text: str) -> tuple[str, str, str]:
    """Read ``OLD=NEW:REASON``."""
    names, _, reason = text.partition(":")
    old, _, new = (part.strip() for part in names.partition("="))
    if not (old and new and reason.strip()):
        raise argparse.ArgumentTypeError(
            f"expected OLD=NEW:REASON, such as gpu003=gpu017:ticket 4711; found {text}"
        )
    return old, new, reason.strip()


def _call(name: str, suite_root: Callable[[], Path]) -> Callable[[argparse.Namespace], int]:
    def call(options: argparse.Namespace) -> int:
        from gpuassay.rating import command  # noqa: PLC0415 - other commands need none of it

        return command.run(name, options, suite_root())

    return call
