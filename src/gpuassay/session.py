"""One run: prepared before any check, judged check by check, and reported at the end."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuassay import __version__
from gpuassay.earlier import load as load_earlier
from gpuassay.earlier import stamp as _stamp
from gpuassay.evidence.recording import read_recording
from gpuassay.evidence.run import RunFolder
from gpuassay.facts import Fleet, past
from gpuassay.facts import fleet as read_fleet
from gpuassay.facts.fault_story import stories
from gpuassay.facts.placement import placement
from gpuassay.facts.standing import scheduled_out
from gpuassay.fault.consent import Consent
from gpuassay.gathering import bounder, looker, runner
from gpuassay.judge.bench import Bench
from gpuassay.judge.config import ConfigError
from gpuassay.judge.names import folded
from gpuassay.judge.needs import Needs
from gpuassay.judge.observe import Observe
from gpuassay.judge.services import Services
from gpuassay.judge.settle import applies_to, settle
from gpuassay.judge.site import Site, load_services, load_site, undeclared
from gpuassay.judge.verdict import Verdict
from gpuassay.measuring import Measure, NotMeasuredError
from gpuassay.report import results as report
from gpuassay.report.series import documents
from gpuassay.signing.plan import Terms, off_plan, read_plan
from gpuassay.sla.run import promises
from gpuassay.suite import THRESHOLDS, Suite, SuiteError, load_suite
from gpuassay.target import DEADLINE_S, TargetError
from gpuassay.target.recording import locate

_STALE = 30  # days without a review before a report says it; docs/decisions.md
_WELL = (Verdict.PASS, Verdict.SKIP)
_BREAKING = frozenset({"disrupt", "break"})
_BARRING = ("undeclared", "unsealed", "altered", "held back")

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuassay.earlier import Before
    from gpuassay.evidence.recording import Recording
    from gpuassay.report.results import Document
    from gpuassay.sla.terms import Terms as Promises

SESSION = pytest.StashKey["Session"]()
OBSERVE = pytest.StashKey[Observe]()
CHECK = pytest.StashKey[str]()
RECORDING = "recording:"
ACCEPTANCE = "acceptance"
"""The profile that demands nothing of its own: the site file says what is required."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for: absolute paths, and words; no ``nodes``: those of the site file or target.

    ``until``, by the monotonic clock, is when gathering and measuring have to be over.
    """

    root: Path
    target: str = "local"
    site: Path | None = None
    thresholds: Path | None = None
    profile: str = ACCEPTANCE
    run_dir: Path | None = None
    nodes: tuple[str, ...] = ()
    deadline_s: float = DEADLINE_S
    host_view: bool = False
    allow: frozenset[str] = frozenset()
    until: float = math.inf
    earlier: Path | None = None
    plan: Path | None = None
    burn_in_s: float | None = None
    endurance_s: float | None = None
    reboot_wave: int = 1
    resume: Path | None = None
    consent: Consent = field(default_factory=Consent)
    folder: Path = field(default_factory=Path.cwd)
    sla: Promises | None = None

    @property
    def recording(self) -> Path | None:
        """The folder of a recording to judge, where that is the target. Raises TargetError."""
        named = self.target.startswith(RECORDING)
        if named and self.nodes:
            raise TargetError("--nodes: a recording is judged with all its nodes; leave --nodes away")
        return locate(self.folder / self.target.removeprefix(RECORDING)) if named else None

    def document(self) -> dict[str, str]:
        """Give it as what crosses to a worker process: builtin types only."""
        named = {"root": self.root, "site": self.site, "thresholds": self.thresholds, "folder": self.folder}
        named |= {"earlier": self.earlier}
        return {"target": self.target, "profile": self.profile} | {k: str(v) for k, v in named.items() if v}

    @classmethod
    def from_document(cls, document: Mapping[str, str]) -> Request:
        """Take it from what came to a worker process."""

        def path(key: str) -> Path | None:
            return Path(document[key]) if key in document else None

        return cls(
            root=Path(document["root"]),
            target=document["target"],
            site=path("site"),
            thresholds=path("thresholds"),
            profile=document["profile"],
            folder=Path(document["folder"]),
            earlier=path("earlier"),
        )


@dataclass(frozen=True, slots=True)
class Session:
    """A prepared run: the suite, the evidence read, the bench that judges it, and the stamps it carries."""

    request: Request
    suite: Suite
    recording: Recording
    fleet: Fleet
    bench: Bench
    measure: Measure
    stamps: tuple[tuple[str, str], ...]
    before: Before | None = None
    agreed: Document | None = None

    def measure_for(self, check: str) -> Measure:
        """Give the ``measure`` of one check, which touches no node that the check is not about."""
        return self.measure.on(applies_to(self.bench, self.suite.catalog.checks[check]))

    def judge(self, check: str, observe: Observe, failure: BaseException | None = None) -> Document:
        """Settle one check by what it observed, and by what it raised, if it did."""
        table = self.suite.catalog.checks[check]
        result = settle(self.bench, table, observe)
        outcome = report.outcome(result, over=table.over)
        sick = frozenset(row.where for row in result.rows if row.verdict not in _WELL)
        outcome |= {"series": kept} if (kept := documents(observe.series, sick)) else {}
        outcome |= {"trials": trials} if (trials := stories(one.subject for one in observe)) else {}
        if isinstance(failure, NotMeasuredError):
            # What a profile requires and nobody declared cannot be measured, and fails all the same.
            told = not outcome["applicable"] or outcome["verdict"] == "fail"
            return outcome if told else report.not_run_outcome(str(failure))
        if failure is not None:
            return report.crashed(outcome, f"the check raised {type(failure).__name__}: {failure}")
        return outcome


def _say_nothing(_line: str) -> None:
    """Show nothing: where nobody looks on."""


def prepare(
    request: Request,
    folder: Path,
    suite: Suite | None = None,
    show: Callable[[str], None] = _say_nothing,
) -> Session:
    """Read a recording and make ready to judge it; ``show`` hears how far a measurement is.

    Raises ConfigError, SuiteError or RecordingError, each naming the place.
    """
    suite = suite or load_suite(request.root, request.thresholds)
    if request.profile not in (ACCEPTANCE, *suite.catalog.profiles):
        raise SuiteError(f"{THRESHOLDS}: there is no [profile.{request.profile}] to judge by")
    recording = read_recording(folder)
    site = _site(request, recording, folder, suite).at(_day(recording))
    site = site.without(scheduled_out(recording, site))
    before = load_earlier(request.earlier, recording, folder) if request.earlier else None
    fleet = read_fleet(recording, site, past(before.recording, site, before.hours) if before else None)
    needs = Needs(site, fleet.nodes)
    bench = Bench(suite.catalog, site, fleet.nodes, needs, request.profile)
    live = not request.recording
    run = runner(request, site, RunFolder(folder.parent), show) if live else None
    measure = Measure(site, fleet.nodes, folder, run, request.allow)
    measure.burn_in_s, measure.endurance_s = request.burn_in_s, request.endurance_s
    if live:
        measure.gather = looker(request, site, RunFolder(folder.parent), show)
        measure.bound = bounder(request, site)
    if live and _BREAKING & request.allow:
        from gpuassay.breaking import Breaker  # noqa: PLC0415 - who breaks nothing pays for none of it
        from gpuassay.rebooting import Rebooter  # noqa: PLC0415

        measure.breaks = Breaker(request, site, RunFolder(folder.parent), fleet.nodes)
        measure.reboots = Rebooter(request, site, RunFolder(folder.parent))
    if request.site is not None and recording.site_text is not None:
        measure.services_then = _services_of(folder / "site.toml")
    agreed = _agreed(request.plan, request, recording, site) if request.plan else None
    stamps = (
        *_stamps(request, recording, site),
        *(before.stamps() if before else ()),
        *(off_plan(agreed) if agreed else ()),
    )
    return Session(request, suite, recording, fleet, bench, measure, stamps, before, agreed)


def context(session: Session) -> Document:
    """Write down what a run is: the first line of its journal, from which results can be assembled."""
    catalog, site, fleet = session.suite.catalog, session.bench.site, session.fleet
    meta = session.recording.meta
    answered = sum(node.silence is None for node in fleet.nodes)
    return {
        "schema": report.SCHEMA,
        "suite": {
            "version": __version__,
            "thresholds": catalog.digest,
            "relaxed": [change.document() for change in site.relaxed],
            "tightened": [change.document() for change in site.tightened],
        },
        "recording": {
            "digest": session.recording.digest,
            "seal": session.recording.seal,
            "begin": _stamp(meta.begin),
            "end": _stamp(meta.end),
            "measured": _stamp(meta.measured),
            "handed_over": _stamp(site.handed_over),
            "synthetic": meta.synthetic,
            "cluster": site.cluster or meta.cluster or None,
            "provider": site.provider or None,
        },
        "earlier": session.before.document([n.name for n in fleet.nodes], fleet.out)
        if session.before
        else None,
        **({"plan": session.agreed} if session.agreed else {}),
        "target": meta.target,
        "profile": session.request.profile,
        **({"sla": promises(session.request.sla)} if session.request.sla else {}),
        "stamps": [{"stamp": stamp, "why": why} for stamp, why in session.stamps],
        "barred": [why for stamp, why in session.stamps if stamp in _BARRING],
        "rules": {
            name: {"warnings": t.warnings, "phases": list(t.phases)} for name, t in catalog.tiers.items()
        },
        "nodes": {"declared": len(fleet.nodes) + len(fleet.out), "answered": answered, "out": len(fleet.out)},
        "placement": placement(fleet).document(),
        "out_of_service": [out.document() for out in site.outs],
        "waivers": [waiver.document() for waiver in site.all_waivers],
        "problems": _problems(session.recording),
        "pools": [_pool(session, pool) for pool in site.pools],
        "checks": {check: _described(session, check) for check in catalog.checks},
    }


def _described(session: Session, check: str) -> Document:
    table, doc = session.suite.catalog.checks[check], session.suite.docs[check]
    limits = session.bench.site.effective(check)
    return {
        "category": table.category,
        "tier": table.tier,
        "phase": table.phase,
        "title": doc.title,
        "why": doc.why,
        "fix": doc.fix,
        "source": table.source,
        "seat": table.seat,
        "fault": table.fault,
        "over": table.over,
        "limits": {metric: limit.text for metric, limit in limits.items()},
        "shares": {metric: dict(limit.shares) for metric, limit in limits.items() if limit.shares},
    }


def _pool(session: Session, pool: Any) -> Document:
    nodes = [node for node in session.fleet.nodes if node.name in pool.nodes]
    return {
        "name": pool.name,
        "contracted": pool.contracted,
        "in_service": [node.name for node in nodes],
        "silent": [node.name for node in nodes if node.silence is not None],
    }


def _problems(recording: Recording) -> list[str]:
    """List what of a recording could not be used."""
    parts = (recording.cluster, *recording.nodes.values())
    return [*recording.problems, *(problem for part in parts for problem in part.problems)]


def _site(request: Request, recording: Recording, folder: Path, suite: Suite) -> Site:
    if request.site is not None:
        return load_site(request.site, suite.catalog)
    return (
        load_site(folder / "site.toml", suite.catalog)
        if recording.site_text is not None
        else undeclared(suite.catalog)
    )


def _agreed(plan: Path, request: Request, recording: Recording, site: Site) -> Document:
    """Hold what decides here against the plan. Raises SigningError."""
    text = request.site.read_text(encoding="utf-8") if request.site else recording.site_text
    return read_plan(plan).document(Terms.of(site, text, request.profile))


def _services_of(recorded: Path) -> Services:
    """Give the services that the recorded site file declares, which may not be the one that is judged by."""
    try:
        return load_services(recorded)
    except ConfigError:  # nobody can tell what was asked then
        return Services()


def _stamps(request: Request, recording: Recording, site: Site) -> list[tuple[str, str]]:
    stamps = []
    if recording.meta.synthetic:
        stamps.append(("synthetic", "the recording was made up: it describes no real cluster"))
    if recording.seal != "sealed":
        stamps.append((recording.seal, recording.seal_why))
    if not site.declared:
        stamps.append(("undeclared", "no site file says what was bought, so what was found decides"))
    elif request.site is not None and request.site.read_text(encoding="utf-8") != recording.site_text:
        stamps.append(("re-declared", "judged by another site file than the one in the recording"))
    held = [node for node in site.held_back if (pool := site.pool_of(node)) and pool.contracted is None]
    if held:
        why = "and the site file does not say by contracted how many nodes of the pool have to be healthy"
        stamps.append(("held back", f"the scheduler holds {folded(held)} out of service, {why}"))
    if request.thresholds is not None:
        stamps.append(("other thresholds", "judged by other numbers than the suite's own"))
    if site.relaxed:
        stamps.append(("relaxed", f"the site file loosens {len(site.relaxed)} limits"))
    age = (site.day - site.catalog.reviewed).days if site.catalog.reviewed and site.day < date.max else 0
    if age > _STALE:
        why = (
            f"the table of advisories was compared with its sources {age} days before this evidence was taken"
        )
        stamps.append(("old advisories", why))
    return stamps


def _day(recording: Recording) -> date:
    """Give the day by which waivers and outages are dated; without one they have all expired."""
    return recording.meta.clock.date() if recording.meta.clock else date.max
