"""The commands ``plan``, ``keygen``, ``sign``, ``verify`` and ``redact``."""

from __future__ import annotations

import argparse
import re
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuassay.signing.plan import Plan

KINDS = ("nodes", "addresses", "serials", "users", "tickets", "cluster", "provider")
EXTRA = "pip install 'gpuassay[signing]'"


def add_commands(commands: Any, suite_root: Callable[[], Path]) -> None:
    """Add them to ``gpuassay``; ``suite_root`` gives the folder of the suite in use."""
    plan = commands.add_parser("plan", help="write down what a run will be held to, for both parties to sign")
    plan.add_argument("file", type=Path, help="where to; sign it with gpuassay sign FILE --key=KEY")
    plan.add_argument("--site", type=Path, metavar="PATH", help="site file: what was bought")
    plan.add_argument("--thresholds", type=Path, metavar="PATH", help="other numbers than the suite's own")
    plan.add_argument("--profile", choices=("acceptance", "rating"), default="acceptance")
    plan.set_defaults(call=_told(lambda options: _plan(options, suite_root())))

    keygen = commands.add_parser(
        "keygen", help="make a pair of keys: FILE to sign with, FILE.pub to give away"
    )
    keygen.add_argument("file", type=Path)
    keygen.set_defaults(call=_told(_keygen))
    sign = commands.add_parser("sign", help="sign a plan or an assessor's file, or certify a run")
    sign.add_argument(
        "place", type=Path, metavar="RUN|FILE", help="the run's folder, the plan, or the assessor's file"
    )
    sign.add_argument("--key", type=Path, required=True, metavar="FILE", help="the private key")
    sign.add_argument(
        "--valid-for", type=_days, default="90d", metavar="DAYS", help="from the evidence on (90d)"
    )
    sign.add_argument("--replies", type=Path, metavar="FILE", help="what was answered to findings (TOML)")
    sign.set_defaults(call=_told(_sign))
    verify = commands.add_parser("verify", help="hold a run, a file, a plan against its signature")
    verify.add_argument("place", type=Path, metavar="RUN|FILE")
    verify.add_argument(
        "--key",
        type=Path,
        action="append",
        default=[],
        metavar="PUB",
        help="who must have signed; may be repeated",
    )
    verify.add_argument("--plan", type=Path, metavar="FILE", help="… the plan that the run has to be held to")
    verify.add_argument("--again", action="store_true", help="… judge the recording once more, and compare")
    verify.add_argument(
        "--earlier", type=Path, metavar="DIR", help="… with what it was compared, for --again"
    )
    verify.add_argument("--full", type=Path, metavar="RUN", help="… the run that a redacted edition is of")
    verify.add_argument("--secret", type=Path, metavar="FILE", help="… and the secret of its hashes")
    verify.add_argument("--on", type=date.fromisoformat, metavar="DATE", help="… valid on this day (today)")
    verify.set_defaults(call=_told(_verify))
    redact = commands.add_parser("redact", help="an edition of a signed run with hashes for names")
    redact.add_argument("run", type=Path)
    redact.add_argument("out", type=Path)
    redact.add_argument(
        "--key", type=Path, required=True, metavar="FILE", help="the private key to sign it with"
    )
    redact.add_argument(
        "--secret", type=Path, required=True, metavar="FILE", help="of the hashes; made if absent"
    )
    redact.add_argument(
        "--names",
        type=_kinds,
        default=",".join(KINDS),
        metavar="LIST",
        help="which, with commas (default: %(default)s)",
    )
    redact.set_defaults(call=_told(_redact))


def _days(text: str) -> timedelta:
    """Take a number of days, such as ``90d``."""
    found = re.fullmatch(r"([1-9][0-9]{0,4})d", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"expected a number of days such as 90d, found {text}")
    return timedelta(days=int(found[1]))


def _kinds(text: str) -> frozenset[str]:
    """Take kinds of names, with commas."""
    kinds = frozenset(text.split(","))
    if unknown := sorted(kinds.difference(KINDS)):
        raise argparse.ArgumentTypeError(f"no such names: {unknown[0]} (of {', '.join(KINDS)})")
    return kinds


def _told(call: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Turn what the user can mend into one line and exit status 2."""

    def told(options: argparse.Namespace) -> int:
        from gpuassay.evidence.files import RecordingError
        from gpuassay.judge.config import ConfigError
        from gpuassay.signing.envelope import SigningError
        from gpuassay.suite import SuiteError

        try:
            return call(options)
        except (ConfigError, SuiteError, RecordingError, SigningError) as error:
            print(f"gpuassay: {error}", file=sys.stderr)
        except ImportError as error:
            print(f"gpuassay: {error}: {EXTRA}", file=sys.stderr)
        return 2

    return told


def _plan(options: argparse.Namespace, root: Path) -> int:
    from gpuassay.judge.site import load_site, undeclared
    from gpuassay.signing.envelope import SigningError
    from gpuassay.signing.plan import Terms, read_plan
    from gpuassay.suite import load_suite

    if options.file.exists():
        raise SigningError(
            f"{options.file}: there already; a plan may have been signed, so give another name"
        )
    catalog = load_suite(root, options.thresholds).catalog
    site = load_site(options.site, catalog) if options.site else undeclared(catalog)
    text = options.site.read_text(encoding="utf-8") if options.site else None
    Terms.of(site, text, options.profile).envelope().write(options.file)
    _show(read_plan(options.file))
    return 0


def _show(plan: Plan) -> None:
    print(f"plan {plan.digest}")
    print(f"version {plan.terms.version}, profile {plan.terms.profile}, signed by {len(plan.keyids)}")


def _keygen(options: argparse.Namespace) -> int:
    from gpuassay.signing.keys import generate

    public, keyid = generate(options.file)
    print(f"key {keyid}: sign with {options.file}, which stays with you, and give {public} away")
    return 0


def _sign(options: argparse.Namespace) -> int:
    from gpuassay.signing.certify import certify
    from gpuassay.signing.envelope import is_envelope

    if options.place.is_dir():
        print(certify(options.place, options.key, options.valid_for, options.replies))
    elif is_envelope(options.place):
        _sign_plan(options.place, options.key)
    else:
        _sign_assessment(options.place, options.key)
    return 0


def _sign_plan(path: Path, key: Path) -> None:
    from gpuassay.signing import keys
    from gpuassay.signing.envelope import read_envelope
    from gpuassay.signing.plan import PAYLOAD_TYPE, read_plan

    read_plan(path)
    keys.sign(read_envelope(path, PAYLOAD_TYPE), keys.signer(key)).write(path)
    _show(read_plan(path))


def _sign_assessment(path: Path, key: Path) -> None:
    from gpuassay.rating.assessor import load_assessment
    from gpuassay.signing.assessment import sign

    load_assessment(path, None)
    envelope, keyids = sign(path, key)
    print(f"{envelope}: signed by {', '.join(keyids)}; it goes wherever {path.name} goes")


def _verify(options: argparse.Namespace) -> int:
    from gpuassay.gathering import now
    from gpuassay.signing.again import unlike_recording
    from gpuassay.signing.envelope import SigningError
    from gpuassay.signing.keys import public_key
    from gpuassay.signing.verify import Asked, verify

    by = tuple(public_key(path) for path in options.key)
    problems = verify(options.place, Asked(by, options.on or now().date(), options.plan))
    if options.full or options.secret:
        problems += _unlike_full(options)
    if options.again:
        problems += unlike_recording(options.place, options.earlier)
    elif options.earlier:
        raise SigningError("--earlier: it is of use with --again only")
    for problem in problems:
        print(f"{options.place}: {problem}" if not problem.startswith(str(options.place)) else problem)
    if not problems:
        print(f"{options.place}: signed by {', '.join(key.keyid for key in by)}; everything matches")
    return int(bool(problems))


def _unlike_full(options: argparse.Namespace) -> list[str]:
    from gpuassay.signing.envelope import SigningError
    from gpuassay.signing.redact import unlike_full

    if not (options.full and options.secret):
        raise SigningError("--full and --secret: one needs the other")
    return list(unlike_full(options.place, options.full, options.secret))


def _redact(options: argparse.Namespace) -> int:
    from gpuassay.signing.redact import redact

    print(redact(options.run, options.out, options.secret, options.key, options.names))
    return 0
