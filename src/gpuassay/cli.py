"""The ``gpuassay`` command: what is not itself a pytest run, and a pytest run of the installed suite."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gpuassay
from gpuassay.rating.arguments import add as add_rating
from gpuassay.signing import commands as signing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuassay.bundle.make import Wanted

FOLDERS = ("tests_audit", "tests_perf", "tests_reliability")


def suite_root() -> Path:
    """Give the folder of the suite: inside the installed package, or the clone that is in use."""
    package = Path(gpuassay.__file__).parent
    installed = package / "suite"
    return installed if installed.is_dir() else package.parents[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["run"]:  # everything behind it is pytest's
        return _run(words[1:])
    if words[:1] == ["sla"]:  # it has commands of its own
        return _sla(words[1:])
    options = _parser().parse_args(words)
    return int(options.call(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpuassay", description="Is this GPU cluster what it was sold as?")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("run", help="judge: pytest on the suite, with its options (gpuassay run -m audit)")
    commands.add_parser("sla", help="hold node histories to a service level: availability, downtime, credits")
    record = commands.add_parser("record", help="only take the evidence, judge nothing")
    _add_reach(record)
    record.add_argument(
        "folder", type=Path, nargs="?", help="where to (default: a new one in gpuassay-runs/)"
    )
    record.set_defaults(call=_record)
    clean = commands.add_parser("clean", help="remove from a cluster what runs that were killed have left")
    _add_reach(clean)
    _add_broken(clean)
    clean.set_defaults(call=_clean)
    report = commands.add_parser("report", help="rebuild every report of a run from its journal")
    report.add_argument("run", type=Path, help="the run's folder")
    report.set_defaults(call=_report)
    advisories = commands.add_parser("advisories", help="bring the table of advisories up to date")
    advisories.add_argument(
        "action", choices=["update"], help="compare it with feeds, and print what differs"
    )
    advisories.add_argument(
        "feeds", nargs="+", metavar="FEED", help="OSV, CSAF, USN or CVE documents: files or https addresses"
    )
    advisories.add_argument("--write", action="store_true", help="write the difference, not only print it")
    advisories.set_defaults(call=_advisories)
    bundle = commands.add_parser("bundle", help="all that workloads need where a site has no way out")
    bundle.add_argument("words", nargs="+", metavar="[verify] DIR", help="make one there, or verify one")
    bundle.add_argument(
        "--package", action="append", help="of wheels (default: torch and uv); may be repeated"
    )
    bundle.add_argument("--platform", action="append", help="as pip's; may be repeated")
    bundle.add_argument("--python", help="the version on the site, such as 3.12")
    bundle.add_argument("--index", default="", help="where wheels come from, if not from pip's own index")
    bundle.add_argument("--dry-run", action="store_true", help="only say what would be made, in bytes")
    bundle.set_defaults(call=_bundle)
    signing.add_commands(commands, suite_root)
    add_rating(commands, suite_root)
    probe = commands.add_parser("probe", help="what is asked of a node")
    probe.add_argument(
        "--list", action="store_true", required=True, help="print everything that is asked, and why"
    )
    probe.set_defaults(call=_probe)
    return parser


def _add_reach(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which nodes there are and how they are reached."""
    from gpuassay import options
    from gpuassay.target import DEADLINE_S

    parser.add_argument(
        "--target", type=options.live_target, default="local", metavar="TARGET", help=options.TARGET_HELP
    )
    parser.add_argument("--nodes", type=options.nodes, default=(), metavar="NODES", help=options.NODES_HELP)
    parser.add_argument(
        "--deadline", type=options.duration, default=DEADLINE_S, metavar="TIME", help=options.DEADLINE_HELP
    )
    parser.add_argument("--budget", type=options.duration, metavar="TIME", help=options.BUDGET_HELP)
    parser.add_argument("--host-view", action="store_true", help=options.HOST_VIEW_HELP)
    parser.add_argument(
        "--site", type=Path, metavar="PATH", help="site file: what was bought, and how it is reached"
    )


def _add_broken(parser: argparse.ArgumentParser) -> None:
    """Add the options that say on which nodes a killed run may have left something broken."""
    from gpuassay import options

    parser.add_argument(
        "--break-nodes",
        type=options.nodes,
        default=(),
        metavar="NODES",
        help="also undo what was broken on purpose on these nodes",
    )
    parser.add_argument(
        "--run-dir", type=Path, metavar="DIR", help="also on those that this run, which was killed, names"
    )


def _run(arguments: list[str]) -> int:
    import pytest

    root = suite_root()
    words = [str(root / word) if word.split("/")[0] in FOLDERS else word for word in arguments]
    if words == arguments:  # no part of the suite was named: all of it
        words += [str(root / folder) for folder in FOLDERS if (root / folder).is_dir()]
    # The installed suite lies where pytest must not write its cache.
    fixed = ["-c", str(root / "pyproject.toml"), "--rootdir", str(root), "-p", "no:cacheprovider"]
    return int(pytest.main([*fixed, *words]))


def _sla(arguments: list[str]) -> int:
    from gpuassay.judge.config import ConfigError
    from gpuassay.sla.cli import answer
    from gpuassay.sla.readers import ReadError

    try:
        lines, status = answer(arguments, suite_root())
    except (ConfigError, ReadError) as error:
        return _mistake(error)
    print("\n".join(lines))
    return status


def _record(options: argparse.Namespace) -> int:
    from gpuassay.evidence.recording import RecordingError
    from gpuassay.gathering import gather
    from gpuassay.judge.config import ConfigError
    from gpuassay.session import Request
    from gpuassay.stopping import interrupt_on_term
    from gpuassay.suite import load_suite
    from gpuassay.target import TargetError

    request = Request(root=suite_root(), run_dir=options.folder, **_reach(options))
    interrupt_on_term()
    try:
        run = gather(request, load_suite(request.root), _progress())
    except (ConfigError, RecordingError, TargetError) as error:
        return _mistake(error)
    except KeyboardInterrupt:
        print("gpuassay: interrupted; what was recorded so far stays, unsealed", file=sys.stderr)
        return 130
    print(run.recording)
    return 0


def _reach(options: argparse.Namespace) -> dict[str, Any]:
    from gpuassay.options import until

    return {
        "target": options.target,
        "site": options.site,
        "nodes": options.nodes,
        "deadline_s": options.deadline,
        "host_view": options.host_view,
        "until": until(options.budget),
    }


def _progress() -> Callable[[str], None]:
    """Show one line that renews itself, or one a minute where no person looks on."""
    from gpuassay.target.progress import Paced

    if sys.stderr.isatty():
        return lambda line: print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
    return Paced(lambda line: print(line, file=sys.stderr, flush=True))


def _clean(options: argparse.Namespace) -> int:
    from gpuassay.evidence.recording import RecordingError
    from gpuassay.fault.sweeping import sweep, sweep_reboots, unfinished
    from gpuassay.gathering import target_of
    from gpuassay.judge.config import ConfigError
    from gpuassay.session import Request
    from gpuassay.suite import load_suite
    from gpuassay.target import TargetError

    request = Request(root=suite_root(), **_reach(options))
    try:
        target = target_of(request, load_suite(request.root))
        removed = target.clean()
        left = unfinished(options.run_dir / "recording") if options.run_dir else ()
        for node in dict.fromkeys([*options.break_nodes, *left]):
            removed += sweep(target, node)
        if options.run_dir:
            removed += sweep_reboots(target, options.run_dir / "recording")
    except (ConfigError, RecordingError, TargetError) as error:
        return _mistake(error)
    for line in removed or ["nothing of ours was left"]:
        print(line)
    return 0


def _report(options: argparse.Namespace) -> int:
    from gpuassay.evidence.recording import RecordingError
    from gpuassay.evidence.run import RunFolder
    from gpuassay.report.files import write_reports
    from gpuassay.report.rebuilt import rebuild
    from gpuassay.report.results import is_red

    run = RunFolder(options.run)
    try:
        results, problems = rebuild(run.journal)
        write_reports(run, results)
        run.seal()
    except RecordingError as error:
        return _mistake(error)
    for problem in problems:
        print(f"gpuassay: {problem}", file=sys.stderr)
    print(run.html)
    return int(is_red(results))


def _bundle(options: argparse.Namespace) -> int:
    from gpuassay.bundle import make
    from gpuassay.bundle.content import BundleError, verify

    verb, place = ("verify", options.words[1:]) if options.words[0] == "verify" else ("make", options.words)
    if len(place) != 1:
        return _mistake(BundleError("expected one folder: gpuassay bundle DIR, gpuassay bundle verify DIR"))
    folder = Path(place[0])
    try:
        if verb == "verify":
            problems = verify(folder)
            print("\n".join(problems) or f"{folder}: every file is as its manifest says")
            return int(bool(problems))
        wanted = _wanted(folder, options)
        if options.dry_run:
            print("\n".join(make.plan(wanted)))
            return 0
        listed = make.make(wanted)["files"]
    except BundleError as error:
        return _mistake(error)
    print(f"{folder}: {len(listed)} files, {sum(about['bytes'] for about in listed.values())} bytes")
    return 0


def _wanted(folder: Path, options: argparse.Namespace) -> Wanted:
    """Take the model of the measurement that serves it, so that both are of one size."""
    from gpuassay.bundle import make
    from gpuassay.measure.work import weights
    from gpuassay.suite import load_suite

    root = suite_root()
    measured = load_suite(root).catalog.measurements["first_token"]
    return make.Wanted(
        folder,
        weights.shape(measured.args),
        tuple(options.package or make.PACKAGES),
        tuple(options.platform or (make.PLATFORM,)),
        options.python or make.PYTHON,
        options.index,
        root if (root / "src").is_dir() else None,
    )


def _advisories(options: argparse.Namespace) -> int:
    try:
        from gpuassay.bulletins.feeds import FeedError
        from gpuassay.bulletins.update import difference, propose
    except ImportError as error:
        return _mistake(ImportError(f"{error}: pip install 'gpuassay[advisories]'"))
    table = suite_root() / "advisories.toml"
    old = table.read_text(encoding="utf-8")
    try:
        new, notes = propose(old, options.feeds)
    except (FeedError, OSError) as error:
        return _mistake(error)
    print(difference(old, new) or "nothing differs", end="")
    for note in notes:
        print(f"gpuassay: {note}", file=sys.stderr)
    if options.write and new != old:
        table.write_text(new, encoding="utf-8")
        print(
            f"{table} was written: review it, and set `reviewed` to the day on which you did", file=sys.stderr
        )
    return 0


def _probe(_options: argparse.Namespace) -> int:
    from gpuassay.judge.config import ConfigError
    from gpuassay.measure import MOUNT_TOOLS, NODE_SURVEYS, TOOLS
    from gpuassay.probe.items import listing
    from gpuassay.suite import SuiteError, load_suite

    try:
        measurements = load_suite(suite_root()).catalog.measurements.values()
    except (ConfigError, SuiteError) as error:
        return _mistake(error)
    print(listing())
    print("Run on a node beside the probe, only where whoever starts the suite consents:\n")
    for one in measurements:
        if one.tool in TOOLS:
            command = "\n        ".join(" ".join(TOOLS[one.tool].argv(one.args)).splitlines())
            print(f"{one.name}: command {command}")
            print(f"    consent: --allow={one.level}; deadline {one.deadline_s:g} s\n")
        if one.tool in MOUNT_TOOLS:
            print(f"{one.name}: {one.tool}, in a new folder of each mount of the site file, which is removed")
            print(f"    consent: --allow={one.level}; deadline {one.deadline_s:g} s\n")
        if one.tool in NODE_SURVEYS:
            print(f"{one.name}: a program of ours, by URLs that it is lent, to the declared object store")
            print(f"    consent: --allow={one.level}; deadline {one.deadline_s:g} s\n")
    return 0


def _mistake(error: Exception) -> int:
    print(f"gpuassay: {error}", file=sys.stderr)
    return 2
